"""Tokenizer data that lies, and any bytes as text: a typed error or an answer, never a crash."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pyrite._native import text as native
from pyrite.errors import ModelError
from pyrite.formats.checkpoint import StringTable, TokenizerData
from pyrite.text.tokenizer import Tokenizer
from vocabularies import table

PIECE = st.one_of(
    st.binary(max_size=6),
    st.sampled_from([b"a", b"b", b"ab", "Ġ".encode(), "▁".encode(), b"<0x41>", b"<s>", b" "]),
)
PIECES = st.lists(PIECE, max_size=24)
MERGES = st.lists(st.sampled_from([b"a b", b"b a", b"ab a", b" ", b"a", b"a b c"]), max_size=8)
ID = st.one_of(st.none(), st.integers(-2, 30))


@st.composite
def string_tables(draw, items) -> StringTable:
    made = table(draw(items))
    if len(made) and draw(st.booleans()):
        broken = draw(st.integers(0, len(made) - 1))
        made.starts[broken] = draw(st.integers(-(2**63), 2**63 - 1))
        made.lengths[broken] = draw(st.integers(-(2**31), 2**31 - 1))
    return made


@st.composite
def tokenizer_data(draw) -> TokenizerData:
    tokens = draw(string_tables(PIECES))
    count = max(len(tokens) + draw(st.sampled_from([0, 0, 0, 0, -1, 1])), 0)
    numbers = np.random.default_rng(draw(st.integers(0, 99)))
    scores = numbers.choice([0, -1, 1, np.inf, -np.inf, np.nan], count)
    return TokenizerData(
        model=draw(st.sampled_from(["bpe", "spm"])),
        pre=draw(st.sampled_from([None, "gpt-2", "qwen2", "llama-bpe", "tekken", "nobody"])),
        tokens=tokens,
        types=draw(st.sampled_from([None, numbers.integers(-1, 8, count).astype(np.int32)])),
        scores=draw(st.sampled_from([None, scores.astype(np.float32)])),
        merges=draw(st.one_of(st.none(), string_tables(MERGES))),
        bos_id=draw(ID),
        eos_ids=tuple(draw(st.lists(st.integers(-1, 30), max_size=2))),
        unknown_id=draw(ID),
        add_bos=draw(st.booleans()),
        add_space_prefix=draw(st.booleans()),
    )


@settings(max_examples=1500)
@given(data=tokenizer_data(), text=st.binary(max_size=120), special=st.booleans())
def test_any_data_and_any_text(data, text, special):
    try:
        tokenizer = Tokenizer.from_data(data)
    except ModelError:
        return
    ids = tokenizer.encode_bytes(text, special=special, bos=True)
    tokenizer.decode(ids)
    assert all(0 <= token_id < tokenizer.vocab_size for token_id in ids.tolist())
    assert tokenizer.fingerprint
    assert all(0 <= stop < tokenizer.vocab_size for stop in tokenizer.stop_ids)


@settings(max_examples=1000)
@given(text=st.binary(max_size=200), name=st.sampled_from(native.splitter_names().split(", ")))
def test_any_bytes_are_cut_into_words(text, name):
    ends = native.word_ends(text, name).tolist()
    assert ends == sorted(set(ends))
    assert ends[-1:] == ([len(text)] if text else [])
