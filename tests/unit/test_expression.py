"""Regular expressions of files: as Python's own, but in bounded time."""

from __future__ import annotations

import re
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrite.errors import UnsupportedError
from pyrite.models.expression import MAX_LENGTH, MAX_STEPS, Expression

CHARACTERS = (*"abc1._", "ab", ".", r"\.", r"\d", r"\w", r"\W", "[ab]", "[^a]", "[a-c1]", r"[\d_]")
ATOMS = st.sampled_from([*CHARACTERS, r"\b", r"\B", "^", "$", "|"])
TIMES = st.sampled_from(["*", "+", "?", "*?", "+?", "??", "{2}", "{1,}", "{0,2}", "{,2}"])
OPENED = st.sampled_from(["(", "(?:", "(?=", "(?!"])


def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    groups = st.builds(lambda opened, one: f"{opened}{one})", OPENED, inner)
    return st.one_of(
        st.builds(lambda one, times: f"(?:{one}){times}", inner, TIMES),
        st.builds("".join, st.lists(st.one_of(inner, groups), min_size=1, max_size=4)),
        st.builds("|".join, st.lists(inner, min_size=2, max_size=3)),
    )


@given(
    pattern=st.recursive(ATOMS, larger, max_leaves=12),
    texts=st.lists(st.text("abc1._", max_size=8), min_size=4, max_size=4),
)
def test_it_matches_what_pythons_own_does(pattern: str, texts: list[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            own = re.compile(pattern)
        except re.error:
            return
    found = Expression("key", pattern)
    for text in texts:
        assert found.matches(text) == (own.fullmatch(text) is not None), text


@pytest.mark.parametrize(
    "pattern", ["(a+)+b", "(a|a)*b", "((a*)*)*b", "(?:a?){30}a{30}", ".*" * 10 + "b"]
)
def test_what_would_run_for_ever(pattern: str) -> None:
    found = Expression("key", pattern)
    assert not found.matches("a" * 100)
    assert found._steps < MAX_STEPS / 4


def test_what_takes_too_long_is_refused_in_words() -> None:
    found = Expression("key", "(" * 60 + "a*" + ")*" * 60)
    with pytest.raises(UnsupportedError, match="it takes too long: name modules"):
        found.matches("a" * 400 + "b")


@pytest.mark.parametrize(
    "pattern",
    [
        *("(a", "a)", "*", "a**", "[b-a]", "[[a]", "[a", "a{99}", "{}"),
        *("(?i)a", "(?<=a)b", "(?#a)", "(?P=a)", "\\1", "\\"),
        *("(" * 100 + ")" * 100, "a" * (MAX_LENGTH + 1)),
    ],
)
def test_what_is_not_read(pattern: str) -> None:
    with pytest.raises(UnsupportedError, match=r"^key has a regular expression that is not read: "):
        Expression("key", pattern)
