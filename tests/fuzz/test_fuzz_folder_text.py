"""The text files of a folder, changed anywhere: a typed error, or a tokenizer that works."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import library
from tests.unit.test_sentencepiece_model import piece, spell
from tests.vocabularies import sentence_piece

from pyrite.errors import ModelError, RequestError
from pyrite.formats.folder_text import read_text
from pyrite.text.library_tokenizer import LibraryTokenizer
from pyrite.text.template import ChatTemplate
from pyrite.text.tokenizer import Tokenizer

TEXT = "the <s> e\u0301 cat</s> 漢字 12 <|im_end|>\n\x00 ▁"
VALUES = st.one_of(
    st.sampled_from([None, True, -1, 0, 1, 5, 2**31, 2**63, 2**64, 0.5, "", "a", "<s>", [], {}]),
    st.sampled_from(["Sequence", "ByteLevel", "Metaspace", "Split", "NFC", "BPE", "Unigram", "▁"]),
    st.sampled_from([["a", "b"], [["a", "b"]], {"type": "NFC"}, {"a": 0}, {"Regex": "("}, "a b"]),
    st.text(max_size=3),
)
EXAMPLES = 150


@st.composite
def changed(draw, document: dict) -> dict:
    """Up to three values anywhere in it replaced, taken out, or put in."""
    document = copy.deepcopy(document)
    for _ in range(draw(st.integers(0, 3))):
        place: Any = document
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            # Of the many tokens and merges a few are enough.
            key = draw(st.sampled_from(keys[:12] + keys[-4:]))
            if isinstance(place[key], dict | list) and draw(st.integers(0, 4)):
                place = place[key]
                continue
            if draw(st.integers(0, 4)):
                place[key] = copy.deepcopy(draw(VALUES))
            else:
                del place[key]
            break
    return document


def outcome(folder: Path) -> bool:
    """Whether it could be used; every error must be one of ours."""
    try:
        text = read_text(folder, {"eos_token_id": [1, 2]})
        tokenizer = None if text.tokenizer is None else Tokenizer.from_data(text.tokenizer)
        if isinstance(tokenizer, LibraryTokenizer):  # the library may find a fault this late
            tokenizer.encode(TEXT)
    except ModelError:
        return False
    if tokenizer is not None:
        for special in (False, True):
            ids = tokenizer.encode(TEXT, special=special, bos=True).tolist()
            assert all(0 <= one < tokenizer.vocab_size for one in ids)
            assert isinstance(tokenizer.decode(ids), str)
            assert all(isinstance(tokenizer.token_bytes(one), bytes) for one in ids)
        assert all(0 <= one < tokenizer.vocab_size for one in tokenizer.stop_ids)
        assert tokenizer.fingerprint
    for template in text.templates.values():
        try:
            ChatTemplate(template).render([{"role": "user", "content": "x"}])
        except RequestError:
            continue
    return True


@pytest.mark.parametrize("name", ["qwen2", "llama-bpe", "llama", "mistral"])
def test_changed_tokenizers(tmp_path, name):
    made = library.with_start(library.make(name, [library.added("<t>", lstrip=True)], size=300))
    document = json.loads(made.to_str())
    counts = {True: 0, False: 0}

    @settings(max_examples=EXAMPLES)
    @given(document=changed(document))
    def one_document(document: dict) -> None:
        (tmp_path / "tokenizer.json").write_text(json.dumps(document))
        counts[outcome(tmp_path)] += 1

    one_document()
    assert min(counts.values()) >= 5, counts


CONFIG = {
    "bos_token": "<s>",
    "eos_token": {"content": "</s>"},
    "add_bos_token": True,
    "chat_template": [{"name": "default", "template": "{{ messages }}"}],
    "added_tokens_decoder": {"1": {"content": "a", "special": True}},
}


@settings(max_examples=EXAMPLES)
@given(config=changed(CONFIG), name=st.sampled_from(["tokenizer_config", "special_tokens_map"]))
def test_changed_configurations(tmp_path_factory, config, name):
    folder = tmp_path_factory.getbasetemp() / "configured"
    folder.mkdir(exist_ok=True)
    if not (folder / "tokenizer.json").exists():
        library.save(library.make("qwen2", size=300), folder)
    for other in folder.glob("*_*.json"):
        other.unlink()
    (folder / f"{name}.json").write_text(json.dumps(config))
    outcome(folder)


@settings(max_examples=300)
@given(content=st.binary(max_size=80))
@pytest.mark.parametrize(
    "name", ["tokenizer.json", "tokenizer.model", "tokenizer_config.json", "rwkv_vocab.txt"]
)
def test_any_bytes(tmp_path_factory, name, content):
    folder = tmp_path_factory.getbasetemp() / f"any-{name}"
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(content)
    outcome(folder)


@settings(max_examples=300)
@given(data=st.data())
def test_changed_sentencepiece_models(tmp_path_factory, data):
    folder = tmp_path_factory.getbasetemp() / "pieces"
    folder.mkdir(exist_ok=True)
    whole = bytearray(spell(sentence_piece([("▁", -1.0), ("a", -2.0), ("▁a", -3.0)])))
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(whole) - 1))
        whole[at] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        whole[:0] = piece(data.draw(st.binary(max_size=4)), 0.0, data.draw(st.integers(0, 9)))
    (folder / "tokenizer.model").write_bytes(whole)
    outcome(folder)
