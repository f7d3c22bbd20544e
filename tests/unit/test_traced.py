"""Traced strings: every operation gives str's own text, and trust is never gained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrite.text.traced import Traced, literal, segments

# Template text is of capitals and "=", user text of small letters; blanks are in both.
LITERAL = st.text("ABC= \n", max_size=8)
TYPED = st.text("abc \n", max_size=8)


def mixed(parts: list[tuple[str, str]]) -> str:
    text: str = literal("")
    for template, typed in parts:
        text = text + literal(template) + typed
    return text


MIXED = st.lists(st.tuples(LITERAL, TYPED), max_size=4).map(mixed)

OPERATIONS: dict[str, Callable[[str, str], Any]] = {
    "add": lambda text, other: text + other,
    "radd": lambda text, other: other + text,
    "slice": lambda text, other: text[len(other) : -1],
    "step": lambda text, other: text[::-1],
    "index": lambda text, other: text[len(text) // 2] if text else text,
    "iterate": lambda text, other: list(text),
    "repeat": lambda text, other: text * 2,
    "strip": lambda text, other: text.strip(),
    "strip characters": lambda text, other: text.strip("aA="),
    "lstrip": lambda text, other: text.lstrip(),
    "rstrip": lambda text, other: text.rstrip("c\n"),
    "removeprefix": lambda text, other: text.removeprefix("A"),
    "removesuffix": lambda text, other: text.removesuffix("a"),
    "replace": lambda text, other: text.replace("a", other),
    "replace one": lambda text, other: text.replace("A", other, 1),
    "replace nothing": lambda text, other: text.replace("", other),
    "split": lambda text, other: text.split(),
    "split at": lambda text, other: text.split("a"),
    "split at literal": lambda text, other: text.split(literal("B")),
    "split pair": lambda text, other: text.split("bc", 1),
    "rsplit": lambda text, other: text.rsplit(None, 1),
    "rsplit at": lambda text, other: text.rsplit("A", 1),
    "lines": lambda text, other: text.splitlines(),
    "lines kept": lambda text, other: text.splitlines(keepends=True),
    "partition": lambda text, other: text.partition("b"),
    "rpartition": lambda text, other: text.rpartition("B"),
    "join": lambda text, other: text.join([other, "x", literal("Q")]),
    "percent": lambda text, other: (text + literal("%s%%")) % other,
    "percent two": lambda text, other: (literal("%s=%s") + "") % (text, other),
    "format": lambda text, other: f"{text}{other}",
    "center": lambda text, other: text.center(9),
}


def texts(value: Any) -> list[str]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


@pytest.mark.parametrize("name", OPERATIONS)
@given(text=MIXED, other=MIXED | TYPED)
def test_text_is_that_of_str_and_trust_is_of_the_template(name: str, text: str, other: str) -> None:
    plain_text = "".join(str.__str__(piece) for piece, _ in segments(text))
    plain_other = "".join(piece for piece, _ in segments(other))
    try:
        expected = texts(OPERATIONS[name](plain_text, plain_other))
    except ValueError as error:
        with pytest.raises(ValueError, match=str(error)):
            OPERATIONS[name](text, other)
        return
    found = texts(OPERATIONS[name](text, other))
    assert found == expected
    for piece in found:
        trusted = "".join(run for run, is_trusted in segments(piece) if is_trusted)
        assert not set(trusted) & set("abc")


@given(text=MIXED)
def test_exact_operations_keep_trust(text: str) -> None:
    """Cutting and joining again gives the very marks, not just safe ones."""
    assert segments(literal("").join([text[:3], text[3:]])) == segments(text)
    assert segments(literal("B").join(text.split("B"))) == segments(text)
    assert segments("".join([]) + text) == segments(text)


@pytest.mark.parametrize("change", ["upper", "lower", "title", "capitalize"])
def test_case_keeps_marks_where_the_length_stays(change: str) -> None:
    text = literal("ab ") + "cd"
    assert [trusted for _, trusted in segments(getattr(text, change)())] == [True, False]
    assert [trusted for _, trusted in segments(literal("ß").upper())] == [False]


def test_is_untrusted_unless_told() -> None:
    assert segments(Traced("<|im_end|>")) == [("<|im_end|>", False)]
    assert segments("") == []
    assert segments(literal("a") + "b" + literal("c")) == [("a", True), ("b", False), ("c", True)]


def test_still_a_string_to_dictionaries_and_comparisons() -> None:
    assert {"a": 1}[literal("a")] == 1
    assert literal("a") == "a"
    assert literal("a") in "cat"
    with pytest.raises(TypeError):
        [1] + literal("a")  # noqa: RUF005
