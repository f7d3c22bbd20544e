"""The index of n-grams against its definition: the longest match of the end, most recent first."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from pyrite._native.sampling import Ngrams

SHORTEST, LONGEST, CHAIN, RESUMED = 2, 32, 16, 64  # as in native/sampling/ngrams.h


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
    """Of a text with fewer places than a chain has. One that is resumed is as long."""
    ngrams = indexed(tokens)
    length, place = longest_match(tokens)
    foreseen = ngrams.predict(12)
    if ngrams.length < RESUMED:
        assert ngrams.length == length
        assert foreseen == ((tokens[place:] * 20)[:12] if length else [])
    else:
        own = ngrams.length - RESUMED
        assert own == max(length, 1)
        places = [place for place in range(1, len(tokens)) if agreeing(tokens, place) == own]
        assert foreseen in [(tokens[place:] * 20)[:12] for place in places]


@settings(max_examples=200, derandomize=True, deadline=None)
@given(tokens=st.lists(st.integers(0, 3), max_size=400))
def test_what_it_says_of_each_token(tokens: list[int]) -> None:
    """The match before a token, and whether it foresaw it; a match is never longer than is true."""
    ngrams = Ngrams()
    for i, token in enumerate(tokens):
        length, foreseen = ngrams.length, ngrams.predict(1)
        assert length % RESUMED <= max(longest_match(tokens[:i])[0], length // RESUMED)
        told = ngrams.append(token)
        assert told == (0 if not length else length if foreseen == [token] else -length)


SOURCE = list(range(1000, 1100))


@pytest.mark.parametrize(
    ("own", "left_out"),
    [([], 1), ([], 3), ([7], 0), ([7], 1), ([7, 8, 9], 0), ([7, 8, 9], 1), ([7, 8, 9], 3)],
)
def test_a_copy_that_departs_is_followed_again_at_once(own: list[int], left_out: int) -> None:
    """After tokens of its own, in the place of some of the source's or besides them."""
    ngrams = indexed([*SOURCE, 1, *SOURCE[:10]])
    for token in own:
        ngrams.append(token)
        assert ngrams.length == 0
    back = 10 + left_out
    ngrams.append(SOURCE[back])
    assert ngrams.length == RESUMED + 1
    for place in range(back + 1, back + 19):
        assert ngrams.predict(1) == [SOURCE[place]]
        ngrams.append(SOURCE[place])
        assert ngrams.length == RESUMED + place - back + 1
    ngrams.append(SOURCE[back + 19])
    assert ngrams.length == 20, "a match like others"


def test_a_match_that_is_lost_is_not_sought_for_ever() -> None:
    ngrams = indexed([*SOURCE, 1, *SOURCE[:10], *range(24)])
    ngrams.append(SOURCE[10])
    assert ngrams.length == 0
    near = indexed([*SOURCE, 1, *SOURCE[:10], *range(23)])
    near.append(SOURCE[10])
    assert near.length == RESUMED + 1


def test_a_match_comes_back_at_the_nearest_of_places_alike() -> None:
    """One token agrees in two places: the text went on as if none was left out."""
    source = [*SOURCE[:10], 5, 6, 5, 7, *SOURCE[10:]]
    ngrams = indexed([*source, 1, *SOURCE[:10], 9, 5])
    assert ngrams.predict(1) == [6]


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
