"""The long lists of a tokenizer.json, read by the native core: as Python's `json` reads them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrite._native import text as native
from vocabularies import table

MOST = 1000
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NUMBER = st.integers(-(2**63), 2**63 - 1)
INDENT = st.sampled_from([None, 0, 1, 2, 9, "\t"])


def read(text: str | bytes, most: int = MOST):
    data = text.encode() if isinstance(text, str) else text
    return native.read_tokenizer_json(np.frombuffer(data, np.uint8), most)


def strings(found) -> list[str]:
    data, starts, lengths = found
    return [
        data[at : at + size].tobytes().decode() for at, size in zip(starts, lengths, strict=True)
    ]


@given(st.dictionaries(TEXT, NUMBER), TEXT, st.booleans(), INDENT)
def test_names_and_numbers(vocab, other, ascii_alone, indent):
    document = {other: [{}, "x"], "model": {"vocab": vocab, "type": other}}
    written = json.dumps(document, ensure_ascii=ascii_alone, indent=indent)
    rest, names, merges = read(written)
    assert merges is None
    assert strings(names.table()) == list(vocab)
    assert names.numbers().tolist() == list(vocab.values())
    for name in (*vocab, other, "absent"):
        index = names.find(name.encode())
        assert (list(vocab)[index] == name) if index >= 0 else (name not in vocab)
    document["model"]["vocab"] = None
    assert json.loads(rest) == (document if other != "model" else json.loads(rest))


@given(st.lists(st.tuples(TEXT, TEXT)), st.lists(st.booleans(), min_size=50), INDENT)
def test_merges(pairs, lines, indent):
    listed = [" ".join(pair) if line else pair for pair, line in zip(pairs, lines, strict=False)]
    written = json.dumps({"model": {"merges": listed}}, indent=indent)
    rest, names, merges = read(written)
    assert names is None
    assert strings(merges) == [" ".join(pair) for pair in pairs][: len(listed)]
    assert json.loads(rest) == {"model": {"merges": None}}


@given(st.lists(st.tuples(TEXT, TEXT)), st.lists(TEXT, unique=True))
def test_names_that_merges_make(pairs, names):
    merges = table([" ".join(pair).encode() for pair in pairs if pair[0]])
    sought = table([name.encode() for name in names])
    made = {a + b for a, b in pairs if a}
    found = native.made_names(
        (merges.data, merges.starts, merges.lengths), (sought.data, sought.starts, sought.lengths)
    )
    for name, is_made in zip(names, found.tolist(), strict=True):
        # A merge that is written with more than one space may be any of the pairs that it shows.
        if is_made and name not in made:
            assert any(" " in a + b for a, b in pairs)
        assert is_made or name not in made or not name


LIES = {
    "expected {": "[]",
    "expected a string": '{"model": {"vocab": {1: 1}}}',
    "expected :": '{"model": {"vocab": {"a" 1}}}',
    "expected }": '{"model": {"vocab": {"a": 1 "b": 2}}}',
    "expected a string ": '{"model": {"vocab": {"a": 1,}}}',
    "expected a whole number": '{"model": {"vocab": {"a": "1"}}}',
    "expected a whole number ": '{"model": {"vocab": {"a": 1e3}}}',
    "without zeros": '{"model": {"vocab": {"a": 01}}}',
    "at most 64 bits": '{"model": {"vocab": {"a": 9223372036854775808}}}',
    "vocab: the name 'a' occurs twice": '{"model": {"vocab": {"a": 1, "b": 2, "a": 3}}}',
    "merges: byte 22: expected ": '{"model": {"merges": [3]}}',
    "expected ,": '{"model": {"merges": [["a"]]}}',
    "expected ]": '{"model": {"merges": [["a", "b", "c"]]}}',
    "end of a string": '{"model": {"vocab": {"a',
    "control character": '{"model": {"vocab": {"a\n": 1}}}',
    "known escape": '{"model": {"vocab": {"\\x": 1}}}',
    "hexadecimal": '{"model": {"vocab": {"\\u12g4": 1}}}',
    "surrogate": '{"model": {"vocab": {"\\ud83d": 1}}}',
    "other half": '{"model": {"vocab": {"\\ud83d\\u0041": 1}}}',
    "two models": '{"model": {}, "model": {}}',
    "two vocabularies": '{"model": {"vocab": {}, "vocab": {}}}',
    "two lists": '{"model": {"merges": [], "merges": []}}',
    "expected the end": '{"model": {}} x',
    "expected a value": '{"model": {}, "more": [',
}


@pytest.mark.parametrize("words", LIES)
def test_lies_are_named(words):
    with pytest.raises(ValueError, match=words.strip().replace("[", r"\[")):
        read(LIES[words])


def test_bytes_that_are_no_text():
    with pytest.raises(ValueError, match="UTF-8"):
        read(b'{"model": {"vocab": {"\xff": 1}}}')


def test_bounds():
    three = {"model": {"vocab": {"a": 1, "b": 2, "c": 3}, "merges": ["a b", "b c", "c a"]}}
    assert len(read(json.dumps(three), most=3)[1]) == 3
    with pytest.raises(ValueError, match="vocab: more than 2 entries"):
        read(json.dumps(three), most=2)
    del three["model"]["vocab"]
    with pytest.raises(ValueError, match="merges: more than 2 entries"):
        read(json.dumps(three), most=2)


@pytest.mark.parametrize("cut", range(60))
def test_every_beginning_is_refused(cut):
    whole = '{"model": {"vocab": {"\\u00e9é": 12}, "merges": [["a", "b"]]}}'
    with pytest.raises(ValueError, match="byte"):
        read(whole[:cut])
