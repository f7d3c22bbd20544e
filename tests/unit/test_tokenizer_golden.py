"""The tokenizer against golden ids, and the `tokenizers` library on the same metadata."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tokenizers import Regex, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as LibraryTokenizer

from pyrite._native import text as native
from pyrite.formats.gguf import read_gguf
from pyrite.formats.tokenizer_json import read_tokenizer_json
from pyrite.formats.vocabulary import read_tokenizer
from pyrite.text.tokenizer import Tokenizer
from vocabularies import corpus

REAL = ("smollm2", "gemma3")
TINY = ("llama", "qwen2")


def tokenizer_data(path):
    return read_tokenizer(read_gguf(path).metadata)


@pytest.fixture(scope="module")
def public(golden):
    return json.loads((golden / "tokenizer_public.json").read_text())


@pytest.fixture(scope="module")
def real(request):
    return Tokenizer.from_data(tokenizer_data(request.getfixturevalue(f"{request.param}_path")))


@pytest.fixture(scope="module")
def tiny(golden):
    folder = golden / "gguf_models"
    return {
        name: Tokenizer.from_data(tokenizer_data(folder / f"{name}_q8_0.gguf")) for name in TINY
    }


# Golden ids.


def accepted(entry: dict, mode: str) -> list[list[int]]:
    return [entry[f"ids_{mode}"], *entry.get("alternatives", {}).get(mode, {}).values()]


@pytest.mark.parametrize("mode", ["plain", "special"])
@pytest.mark.parametrize(
    ("real", "name"), [(name, name) for name in REAL], indirect=["real"], ids=REAL
)
def test_golden_ids(public, real, name, mode):
    wrong = []
    for line in public["lines"]:
        ids = real.encode(line["text"], special=mode == "special").tolist()
        right = accepted(line[name], mode)
        if ids != right[0] and (ids not in right or name == "smollm2"):
            wrong.append((line["text"], ids, right))
    assert wrong == []


@pytest.mark.parametrize(
    ("real", "name"), [(name, name) for name in REAL], indirect=["real"], ids=REAL
)
def test_golden_decode(public, real, name):
    for case in public["decode"][name]:
        assert real.decode_bytes(case["ids"], skip_special=False).hex() == case["bytes_hex"]
        assert real.decode_bytes(case["ids"]).hex() == case["bytes_hex_skip_special"]


@pytest.mark.parametrize(
    ("real", "name"), [(name, name) for name in REAL], indirect=["real"], ids=REAL
)
def test_golden_facts(public, real, name):
    facts = public["models"][name]
    assert real.vocab_size == facts["vocab"]
    assert real.bos_id == facts["bos"]
    assert facts["eos"] in real.eos_ids
    assert real.encode("Hello", special=True, bos=True).tolist() == facts["hello_with_special"]


def test_golden_qwen2_ids_fit_the_words(public):
    """Its vocabulary is not here. But no token spans two words, and a word is always one id list:
    from lines with as many ids as words, words and ids are learnt, and must not contradict."""
    ids_of: dict[bytes, int] = {}
    word_of: dict[int, bytes] = {}
    for line in public["lines"]:
        data, ids = line["text"].encode(), line["qwen2"]["ids_plain"]
        ends = native.word_ends(data, "qwen2").tolist()
        assert len(ids) >= len(ends) or "<" in line["text"]
        if len(ids) != len(ends):
            continue
        for start, end, token_id in zip([0, *ends], ends, ids, strict=False):
            assert ids_of.setdefault(data[start:end], token_id) == token_id
            assert word_of.setdefault(token_id, data[start:end]) == data[start:end]
    assert len(ids_of) > 100


@pytest.mark.parametrize("name", TINY)
def test_golden_tiny_models(golden, tiny, name):
    cases = json.loads((golden / "gguf_models" / "tokenize.json").read_text())[name]
    for case in cases:
        text, tokenizer = case["text"], tiny[name]
        assert tokenizer.encode(text).tolist() == case["llamacpp_plain"]
        special = tokenizer.encode(text, special=True).tolist()
        assert special == case["llamacpp_special"]
        # llama.cpp doubles the start token where the text brings one; that is not repeated here.
        both = tokenizer.encode(text, special=True, bos=True).tolist()
        own = tokenizer.bos_id in special[:1]
        assert both == (special if own else case["llamacpp_add_special"])


# The `tokenizers` library, given the same metadata.

LIBRARY_STEPS = {
    "smollm": [
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False),
    ],
    "qwen2": [
        pre_tokenizers.Split(
            Regex(
                r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
                r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
            ),
            "isolated",
        ),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ],
}


def library_tokenizer(data) -> LibraryTokenizer:
    pieces = [data.tokens[index].decode() for index in range(len(data.tokens))]
    merges = [tuple(data.merges[index].decode().split(" ")) for index in range(len(data.merges))]
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    built = LibraryTokenizer(models.BPE(vocabulary, merges))
    built.pre_tokenizer = pre_tokenizers.Sequence(LIBRARY_STEPS[data.pre])
    built.decoder = decoders.ByteLevel()
    return built


def compare_with_library(data) -> None:
    ours, library = Tokenizer.from_data(data), library_tokenizer(data)
    for text in corpus(500, seed=3):
        ids = library.encode(text, add_special_tokens=False).ids
        assert ours.encode(text).tolist() == ids, repr(text)
        assert ours.decode(ids) == text
    long = "".join(corpus(400, seed=4)).replace(" ", "")
    assert ours.encode(long).tolist() == library.encode(long, add_special_tokens=False).ids


def test_equals_the_library_on_smollm2(smollm2_path):
    compare_with_library(tokenizer_data(smollm2_path))


def test_a_folder_of_the_same_model_gives_the_same_ids(public, smollm2_path, tmp_path):
    """SmolLM2's tokenizer.json, as published but for what its GGUF file does not tell."""
    data = tokenizer_data(smollm2_path)
    built = library_tokenizer(data)
    document = json.loads(built.to_str())
    names = [data.tokens[index].decode() for index in np.flatnonzero(data.types == 3).tolist()]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    document["added_tokens"] = [
        {"id": built.token_to_id(name), "content": name, "special": True, **flags} for name in names
    ]
    (tmp_path / "tokenizer.json").write_text(json.dumps(document))
    file = read_tokenizer_json(tmp_path / "tokenizer.json")
    assert (file.data.model, file.data.pre) == ("bpe", "smollm")
    one, other = Tokenizer.from_data(data), Tokenizer.from_data(file.data)
    theirs = LibraryTokenizer.from_str(json.dumps(document))
    for text in (*(line["text"] for line in public["lines"]), *corpus(200, seed=13)):
        for special in (False, True):
            ids = one.encode(text, special=special).tolist()
            assert other.encode(text, special=special).tolist() == ids, repr(text)
        assert theirs.encode(text, add_special_tokens=False).ids == ids, repr(text)
        assert one.decode_bytes(ids) == other.decode_bytes(ids)


def test_equals_the_library_on_tiny_qwen2(golden):
    data = tokenizer_data(golden / "gguf_models" / "qwen2_q8_0.gguf")
    compare_with_library(data)
