"""Answers of no sense: the same pieces wherever they are cut, and nothing that is lost."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.answer_texts import cut, formats, places, reasonings, texts

from pyrite.text.answer import CallArguments, CallStart, Content, Piece, Reasoning
from pyrite.text.answers import AnswerParser, merged
from pyrite.text.calls.bodies import CallFormat
from pyrite.text.reasoning import ReasoningFormat

SCHEMAS = {"f": {}, "g": {"properties": {"a": {"type": "string"}}}}


def parse(
    pieces: list[str], calls: CallFormat | None, reasoning: ReasoningFormat | None, started: bool
) -> list[Piece]:
    numbers = itertools.count()
    parser = AnswerParser(
        calls,
        reasoning,
        starts_in_reasoning=started,
        tools=SCHEMAS,
        new_id=lambda: f"id{next(numbers)}",
    )
    return merged([one for text in pieces for one in parser.push(text)] + parser.finish())


@settings(max_examples=400)
@given(text=texts(), calls=formats, reasoning=reasonings, started=st.booleans(), where=places)
def test_the_same_pieces_wherever_it_is_cut(
    text: str,
    calls: CallFormat | None,
    reasoning: ReasoningFormat | None,
    started: bool,
    where: list[int],
) -> None:
    whole = parse([text], calls, reasoning, started)
    assert parse(cut(text, where), calls, reasoning, started) == whole
    assert parse(list(text), calls, reasoning, started) == whole
    starts = [piece for piece in whole if isinstance(piece, CallStart)]
    assert [piece.index for piece in starts] == list(range(len(starts)))
    for before, after in itertools.pairwise(whole):
        if isinstance(after, CallArguments):
            assert getattr(before, "index", None) == after.index
    if not starts and not any(isinstance(piece, Reasoning) for piece in whole) and not reasoning:
        in_channels = calls is not None and calls.name == "harmony"
        content = "".join(piece.text for piece in whole if isinstance(piece, Content))
        assert content == text or in_channels
