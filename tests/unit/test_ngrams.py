"""The index of n-grams against its definition: the longest match of the end, most recent first."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
from hypothesis import given, settings

from pyrite._native.sampling import Ngrams

SHORTEST, LONGEST, CHAIN = 2, 32, 16  # as in native/sampling/ngrams.h


def indexed(tokens: list[int]) -> Ngrams:
    ngrams = Ngrams()
    ngrams.extend(np.array(tokens, np.int32))
    return ngrams


def agreeing(tokens: list[int], place: int) -> int:
    length = 0
    while length < min(place, LONGEST) and tokens[place - 1 - length] == tokens[-1 - length]:
        length += 1
    return length


def longest_match(tokens: list[int]) -> tuple[int, int]:
    """Its length and the place after it."""
    found = [(agreeing(tokens, place), place) for place in range(1, len(tokens))]
    return max((match for match in found if match[0] >= SHORTEST), default=(0, 0))


texts = st.lists(st.integers(0, 2), max_size=17)


@settings(max_examples=300, derandomize=True, deadline=None)
@given(tokens=texts)
def test_the_longest_and_most_recent_match(tokens: list[int]) -> None:
    """Of a text with fewer places than a chain has."""
    ngrams = indexed(tokens)
    length, place = longest_match(tokens)
    assert ngrams.length == length
    repeated = tokens[place:] * 20
    assert ngrams.predict(12) == (repeated[:12] if length else [])


@settings(max_examples=200, derandomize=True, deadline=None)
@given(tokens=st.lists(st.integers(0, 3), max_size=400))
def test_what_it_says_of_each_token(tokens: list[int]) -> None:
    """The match before a token, and whether it foresaw it; a match is never longer than is true."""
    ngrams = Ngrams()
    for i, token in enumerate(tokens):
        length, foreseen = ngrams.length, ngrams.predict(1)
        assert length <= longest_match(tokens[:i])[0] if i else length == 0
        told = ngrams.append(token)
        assert told == (0 if not length else length if foreseen == [token] else -length)


def test_a_long_stretch_is_followed_past_what_a_chain_reaches() -> None:
    """Forty places of a common pair lie between the quoted text and its quotation."""
    quoted = [7, 8, *range(1000, 1100)]
    text = quoted + [5, 6, 7, 8, 9] * 40
    ngrams = indexed([*text, *quoted[2:5]])
    for token in quoted[5:80]:
        assert ngrams.predict(1) == [token]
        ngrams.append(token)
    assert ngrams.length == LONGEST


def test_a_repeated_phrase_goes_on() -> None:
    ngrams = indexed([1, 2, 3, 1, 2, 3, 1])
    assert ngrams.predict(7) == [2, 3, 1, 2, 3, 1, 2]
    assert indexed([1, 2, 3]).predict(4) == []
