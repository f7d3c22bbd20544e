"""RWKV's tokenizer: the longest piece first, from GGUF metadata and from the published list."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

from pyrite.errors import FormatError
from pyrite.formats.checkpoint import TokenizerData
from pyrite.formats.folder_text import read_text
from pyrite.formats.gguf import read_gguf
from pyrite.formats.gguf_tokenizer import tokenizer_metadata, untold
from pyrite.formats.gguf_writer import write_gguf
from pyrite.formats.vocabulary import read_templates, read_tokenizer
from pyrite.text.template import ChatTemplate
from pyrite.text.tokenizer import Tokenizer
from vocabularies import CONTROL, NORMAL, UNUSED, USER, table


def rwkv(pieces: dict[int, str], **fields) -> TokenizerData:
    count = max(pieces) + 1
    names = [pieces.get(index, f"[PAD{index}]") for index in range(count)]
    types = [NORMAL if index in pieces else UNUSED for index in range(count)]
    names[0], types[0] = "<s>", CONTROL
    return TokenizerData(
        model="rwkv",
        pre=None,
        tokens=table([name.encode() for name in names]),
        types=np.array(types, np.int32),
        scores=None,
        merges=None,
        bos_id=0,
        eos_ids=(0,),
        add_space_prefix=False,
        **fields,
    )


@pytest.fixture(scope="module")
def truth(golden):
    return json.loads((golden / "rwkv_tokens.json").read_text())


@pytest.fixture(scope="module")
def golden_data(truth):
    return rwkv({int(token_id): text for token_id, text in truth["tokens"].items()})


def test_golden_ids(truth, golden_data):
    tokenizer = Tokenizer.from_data(golden_data)
    assert tokenizer.warnings == ()
    for line in truth["lines"]:
        assert tokenizer.encode(line["text"]).tolist() == line["ids"], repr(line["text"])
        assert tokenizer.decode(line["ids"]) == line["text"]
        assert tokenizer.encode(line["text"], bos=True).tolist() == line["ids"]


def test_any_vocabulary_is_greedy():
    choose = random.Random(5)
    for _ in range(50):
        words = {"".join(choose.choices("abé ", k=choose.randint(1, 6))) for _ in range(40)}
        pieces = {1 + index: word for index, word in enumerate(sorted(words | set("ab ")))}
        tokenizer = Tokenizer.from_data(rwkv(pieces))
        ids = {word.encode(): token_id for token_id, word in pieces.items()}
        text = "".join(choose.choices("abé ", k=200)).encode()
        expected, at = [], 0
        while at < len(text):
            longest = max((w for w in ids if text.startswith(w, at)), key=len, default=b"")
            expected += [ids[longest]] if longest else []  # a byte without a token is lost
            at += len(longest) or 1
        assert tokenizer.encode_bytes(text).tolist() == expected


def test_escapes():
    pieces = {1: r"\n\t\r", 2: r"\x00", 3: r"\xe6\xbc", 4: r"a\\b", 5: r"\'", 6: r"\"", 7: r"\xzz"}
    tokenizer = Tokenizer.from_data(rwkv({**pieces, 8: "z\\"}))
    pieces = [tokenizer.token_bytes(index) for index in range(1, 9)]
    assert pieces == [b"\n\t\r", b"\0", b"\xe6\xbc", b"a\\b", b"'", b'"', b"xzz", b"z\\"]


def test_markers_are_for_who_may_use_them():
    data = rwkv({1: "<", 2: "s", 3: ">", 4: "<t>", 5: "t"})
    data.types[4] = USER
    tokenizer = Tokenizer.from_data(data)
    assert tokenizer.encode("<s><t>").tolist() == [1, 2, 3, 4]
    assert tokenizer.encode("<s><t>", special=True).tolist() == [0, 4]
    assert tokenizer.control_id("<s>") == 0


def test_unknown_bytes():
    tokenizer = Tokenizer.from_data(rwkv({1: "a", 2: "?"}, unknown_id=2))
    assert tokenizer.encode("aéa").tolist() == [1, 2, 2, 1]


def test_gguf_and_back(golden_data, truth, tmp_path):
    assert untold(golden_data) == ()
    metadata = tokenizer_metadata(golden_data, templates={"default": "rwkv-world"})
    write_gguf(tmp_path / "m.gguf", metadata, [], lambda spec: np.zeros(0, np.uint8))
    read = read_gguf(tmp_path / "m.gguf").metadata
    assert read["tokenizer.ggml.model"] == "rwkv"
    tokenizer = Tokenizer.from_data(read_tokenizer(read))
    for line in truth["lines"]:
        assert tokenizer.encode(line["text"]).tolist() == line["ids"]
    template = ChatTemplate(read_templates(read)["default"])
    messages = [
        {"role": "system", "content": " Be brief. "},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": "Bye"},
    ]
    text = "System: Be brief.\n\nUser: Hi\n\nAssistant: Hello\n\nUser: Bye\n\nAssistant:"
    assert template.render(messages) == text


# The published list.


def listed(pieces: dict[int, bytes]) -> str:
    lines = []
    for token_id, content in pieces.items():
        try:
            literal = repr(content.decode())
        except UnicodeDecodeError:
            literal = repr(content)
        lines.append(f"{token_id} {literal} {len(content)}\r\n")
    return "".join(lines)


def test_the_published_list(truth, golden_data, tmp_path):
    plain = Tokenizer.from_data(golden_data)
    pieces = {int(one): plain.token_bytes(int(one)) for one in truth["tokens"]}
    (tmp_path / "rwkv_vocab_v1.txt").write_text(listed(pieces), newline="")
    data = read_text(tmp_path, {"eos_token_id": 0}).tokenizer
    assert (data.model, data.eos_ids, data.add_bos) == ("rwkv", (0,), False)
    tokenizer = Tokenizer.from_data(data)
    for line in truth["lines"]:
        assert tokenizer.encode(line["text"]).tolist() == line["ids"]


LIES = ["x", "1 'a' 2", "1 'a' 1\n1 'b' 1", "0 'a' 1", "9999999 'a' 1", "1 a 1", "1 'a'", "1 [] 2"]
LIES += [
    "1 'a' 1\n\n2 'b' 1",
    "1 '\\x' 1",
    "1 '\\U99999999' 1",
    "1 __import__('os') 1",
    "1 f'{1}' 1",
]


@pytest.mark.parametrize("lines", LIES)
def test_lines_that_lie(tmp_path, lines):
    (tmp_path / "rwkv_vocab.txt").write_text(lines)
    with pytest.raises(FormatError, match=r"rwkv_vocab\.txt: line \d"):
        read_text(tmp_path, {})
