"""The detokenizer: relations between pieces and the whole, and the rules of stopping."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from pyrite.text.detokenizer import Detokenizer


class Pieces:
    """A tokenizer whose tokens are the given byte strings; an empty one stands for a control."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = pieces

    def token_bytes(self, token_id: int) -> bytes:
        return self.pieces[token_id] or b"<control>"

    def is_special(self, token_id: int) -> bool:
        return not self.pieces[token_id]


def stream(pieces: list[bytes], **options: Any) -> tuple[list[str], bool]:
    """The texts given out, the last by `finish`, and whether a stop string ended them."""
    tokenizer: Any = Pieces(pieces)
    detokenizer = Detokenizer(tokenizer, **options)
    texts = []
    for token_id in range(len(pieces)):
        texts.append(detokenizer.push(token_id))
        if detokenizer.stopped:
            return texts, True
    return [*texts, detokenizer.finish()], detokenizer.stopped


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[start:end] for start, end in pairwise(edges)]


texts = st.text(alphabet="ab€😀é ", max_size=30)
places = st.lists(st.integers(0, 200), max_size=40)
stops = st.lists(st.text(alphabet="ab€ ", min_size=1, max_size=5), max_size=4)


def first_stop(text: str, stop: list[str]) -> int | None:
    return min((text.find(one) for one in stop if one in text), default=None)


@settings(max_examples=400, derandomize=True, deadline=None)
@given(text=texts, places=places, stop=stops)
def test_wherever_it_is_cut_the_text_ends_at_the_first_stop(
    text: str, places: list[int], stop: list[str]
) -> None:
    pieces, stopped = stream(cut(text.encode(), places), stop=stop)
    expected = first_stop(text, stop)
    assert stopped == (expected is not None)
    assert "".join(pieces) == text[:expected]


@settings(max_examples=200, derandomize=True, deadline=None)
@given(data=st.binary(max_size=30), places=places)
def test_any_bytes_as_decoded_at_once(data: bytes, places: list[int]) -> None:
    pieces, _ = stream(cut(data, places))
    assert "".join(pieces) == data.decode(errors="replace")


@settings(max_examples=100, derandomize=True, deadline=None)
@given(text=texts, places=places)
def test_without_stop_strings_nothing_whole_is_held_back(text: str, places: list[int]) -> None:
    chunks = cut(text.encode(), places)
    pieces, _ = stream(chunks)
    for number in range(len(chunks)):
        sent = "".join(pieces[: number + 1])
        assert sent == b"".join(chunks[: number + 1]).decode(errors="ignore")


def test_overlapping_stops_and_no_text_taken_back() -> None:
    for pieces in ([b"xxabc"], [b"x", b"xa", b"b", b"c"], [b"xxa", b"bc"]):
        sent, stopped = stream(pieces, stop=["ab", "abc", "b"])
        assert ("".join(sent), stopped) == ("xx", True)


def test_a_stop_that_begins_earlier_is_waited_for() -> None:
    assert stream([b"abc", b"d"], stop=["abcd", "bc"]) == (["", ""], True)
    assert stream([b"abc", b"x"], stop=["abcd", "bc"]) == (["", "a"], True)
    assert stream([b"abc"], stop=["abcd", "bc"]) == (["", "a"], True)


def test_what_was_held_back_comes_out_at_the_end() -> None:
    assert stream([b"xa"], stop=["ab"]) == (["x", "a"], False)


def test_the_stop_string_itself() -> None:
    assert stream([b"one. two"], stop=["."], include_stop=True) == (["one."], True)


def test_a_character_of_several_tokens() -> None:
    emoji = "😀".encode()
    assert stream([b"a" + emoji[:1], emoji[1:3], emoji[3:]]) == (["a", "", "😀", ""], False)
    assert stream([emoji[:2]]) == (["", "�"], False)


def test_control_tokens_are_hidden_unless_asked() -> None:
    assert stream([b"a", b"", b"b"]) == (["a", "", "b", ""], False)
    shown = stream([b"a", b"", b"b"], skip_special=False)
    assert shown == (["a", "<control>", "b", ""], False)
    shown = stream([b"a", b"", b"", b"b"], shown=(2,))
    assert shown == (["a", "", "<control>", "b", ""], False)
    emoji = "😀".encode()
    assert "".join(stream([emoji[:2], b"", emoji[2:]])[0]) == "😀"


@pytest.mark.parametrize(("min_tokens", "expected"), [(0, "a"), (2, "a"), (3, "a.b"), (5, "a.b.")])
def test_stops_count_from_min_tokens_on(min_tokens: int, expected: str) -> None:
    pieces = [b"a", b".", b"b", b"."]
    sent, _ = stream(pieces, stop=["."], min_tokens=min_tokens)
    assert "".join(sent) == expected
