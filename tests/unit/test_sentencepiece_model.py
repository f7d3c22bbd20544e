"""tokenizer.model of SentencePiece: read as the file has it, refused by name, or as a lie."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest

from pyrite.errors import FormatError, UnsupportedError
from pyrite.formats.folder_text import read_text
from pyrite.formats.gguf import read_gguf
from pyrite.formats.vocabulary import read_tokenizer
from pyrite.text.tokenizer import Tokenizer
from vocabularies import corpus

BPE, UNIGRAM = 2, 1


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1  # negative numbers have ten bytes
    parts = []
    while True:
        value, low = value >> 7, value & 0x7F
        parts.append(low | (0x80 if value else 0))
        if not value:
            return bytes(parts)


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def message(field: int, content: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(content)) + content


def piece(text: bytes, score: float, kind: int) -> bytes:
    kinds = number(3, kind) if kind != 1 else b""
    return message(1, message(1, text) + b"\x15" + struct.pack("<f", score) + kinds)


TRAINER = {3: BPE, 35: 1, 40: 0, 41: 1, 42: 2, 43: -1}
NORMALIZER = {3: 1, 4: 0, 5: 1}


def spell(data, trainer=TRAINER, normalizer=NORMALIZER, table=b"") -> bytes:
    pieces = [
        piece(data.tokens[index], float(data.scores[index]), int(data.types[index]))
        for index in range(len(data.tokens))
    ]
    spec = b"".join(number(*pair) for pair in trainer.items())
    form = message(1, b"identity") + (message(2, table) if table else b"")
    form += b"".join(number(*pair) for pair in normalizer.items())
    return b"".join(pieces) + message(2, spec) + message(3, form)


@pytest.fixture(scope="module")
def golden_data(golden):
    return read_tokenizer(read_gguf(golden / "gguf_models" / "llama_q8_0.gguf").metadata)


def read(folder, content: bytes, config=None):
    (folder / "tokenizer.model").write_bytes(content)
    return read_text(folder, config or {}).tokenizer


def test_the_same_as_from_gguf(golden_data, golden, tmp_path):
    data = read(tmp_path, spell(golden_data))
    assert (data.model, data.bos_id, data.eos_ids, data.unknown_id) == ("spm", 1, (2,), 0)
    assert (data.padding_id, data.add_bos, data.add_space_prefix) == (None, True, True)
    assert data.types.tolist() == golden_data.types.tolist()
    np.testing.assert_array_equal(data.scores, golden_data.scores)
    one, other = Tokenizer.from_data(data), Tokenizer.from_data(golden_data)
    for line in corpus(300, seed=1):
        for special in (False, True):
            ids = one.encode(line, special=special).tolist()
            assert ids == other.encode(line, special=special).tolist()
    for case in json.loads((golden / "gguf_models" / "tokenize.json").read_text())["llama"]:
        assert one.encode(case["text"]).tolist() == case["llamacpp_plain"]


def test_switches(golden_data, tmp_path):
    data = read(tmp_path, spell(golden_data, {3: BPE, 42: -1, 43: 3}, {4: 0, 3: 0}))
    assert (data.bos_id, data.eos_ids, data.padding_id) == (1, (), 3)
    assert data.add_space_prefix is False


def test_special_tokens_beside_it(golden_data, tmp_path):
    count = len(golden_data.tokens)
    tokens = {"<|im_end|>": count + 1}
    (tmp_path / "added_tokens.json").write_text(json.dumps({"<t>": count, **tokens}))
    config = {
        "eos_token": "<|im_end|>",
        "add_bos_token": False,
        "added_tokens_decoder": {str(count + 1): {"content": "<|im_end|>", "special": True}},
    }
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    data = read(tmp_path, spell(golden_data), {"eos_token_id": 2})
    assert (data.eos_ids, data.add_bos) == ((count + 1, 2), False)
    tokenizer = Tokenizer.from_data(data)
    assert tokenizer.encode("<t>").tolist() == [count]
    assert tokenizer.control_id("<|im_end|>") == count + 1
    assert count + 1 not in tokenizer.encode("<|im_end|>")


def test_tokenizer_json_counts_before_it(golden_data, tmp_path):
    import library

    library.save(library.make("gpt-2"), tmp_path)
    assert read(tmp_path, spell(golden_data)).model == "bpe"


UNKNOWN = {
    "type Unigram": ({3: UNIGRAM}, NORMALIZER, b""),
    "type Word": ({3: 3}, NORMALIZER, b""),
    "by a table": (TRAINER, NORMALIZER, b"charsmap"),
    "leaves spaces away": (TRAINER, {3: 1}, b""),
    "spaces as they are": (TRAINER, {4: 0, 5: 0}, b""),
}


@pytest.mark.parametrize("words", UNKNOWN)
def test_what_is_not_known_is_named(golden_data, tmp_path, words):
    data = read(tmp_path, spell(golden_data, *UNKNOWN[words]))
    with pytest.raises(UnsupportedError, match=rf"{words}.*save_pretrained"):
        Tokenizer.from_data(data)


def test_a_file_of_another_kind(tmp_path):
    data = read(tmp_path, b"IQ== 0\nIg== 1\n", {"eos_token_id": 2})
    with pytest.raises(UnsupportedError, match="not SentencePiece's"):
        Tokenizer.from_data(data)


LIES = {
    "cut": lambda whole: whole[:-3],
    "cut amid the pieces": lambda whole: whole[:100],
    "no pieces": lambda whole: b"\n\x00"[:0] + b"\n",
    "size beyond": lambda whole: b"\n\xff\xff\xff\xff\x0f" + whole,
    "endless number": lambda whole: b"\n" + b"\xff" * 20,
    "kind": lambda whole: whole + b"\x0b",
    "not text": lambda whole: piece(b"\xff", 0, 1) + whole,
    "score": lambda whole: piece(b"x", float("nan"), 1) + whole,
    "type": lambda whole: piece(b"x", 0, 7) + whole,
    "id": lambda whole: whole + message(2, number(3, BPE) + number(41, 10**6)),
}


@pytest.mark.parametrize("lie", LIES)
def test_lies(golden_data, tmp_path, lie):
    with pytest.raises(FormatError, match=r"tokenizer\.model"):
        read(tmp_path, LIES[lie](spell(golden_data)))


@pytest.mark.parametrize("token_id", [-1, 1 << 30, 5])
def test_added_ids_that_lie(golden_data, tmp_path, token_id):
    (tmp_path / "added_tokens.json").write_text(json.dumps({"<t>": token_id}))
    with pytest.raises(FormatError, match="added token"):
        read(tmp_path, spell(golden_data))
