"""Parses a model's answer into content, reasoning and tool calls, while it is being written.

The joined pieces are the same however the text is cut, and a character waits only while it may
still belong to a marker, or to whitespace before one. Whitespace around reasoning and calls is
layout, and goes; nothing else is lost: what looks like a call and is none is content as it stands.
Knows no token, template or dialect.
"""

from __future__ import annotations

import contextlib
import secrets
import string
from collections.abc import Callable, Generator

from pyrite.text.answer import CallArguments, CallStart, Content, Piece, Reasoning
from pyrite.text.calls import channels
from pyrite.text.calls.bodies import CallFormat, ChannelBody
from pyrite.text.calls.parse import Tools, section
from pyrite.text.calls.reader import EndOfTextError, Markers, MismatchError, Parsing, Reader
from pyrite.text.reasoning import ReasoningFormat


class AnswerParser:
    """`push` the answer's text as it comes, then `finish`; both return what has become certain.

    Without a format for calls there are none, without one for reasoning all is content. `tools` are
    the schemas of arguments by the tools' names: formats that write arguments as bare text need
    their types, formats without a marker their names. `new_id` draws the id of a call whose format
    states none.
    """

    def __init__(
        self,
        calls: CallFormat | None,
        reasoning: ReasoningFormat | None,
        *,
        starts_in_reasoning: bool = False,
        tools: Tools | None = None,
        new_id: Callable[[], str] | None = None,
    ) -> None:
        short = calls is not None and calls.short_ids
        self._reader = Reader(new_id or (short_id if short else long_id))
        answer = _Answer(self._reader, calls, reasoning, tools or {})
        self._parsing: Generator[None, None, None] | None = answer.parse(starts_in_reasoning)
        self._advance()

    def push(self, text: str) -> list[Piece]:
        self._reader.feed(text)
        return self._advance()

    def finish(self) -> list[Piece]:
        """What was held back, at the end of the answer."""
        self._reader.closed = True
        pieces = self._advance()
        assert self._parsing is None, "a parser that waits for text after the end"
        return pieces

    def _advance(self) -> list[Piece]:
        if self._parsing is not None:
            try:
                next(self._parsing)
            except StopIteration:
                self._parsing = None
        pieces, self._reader.pieces = self._reader.pieces, []
        return merged(pieces)


def long_id() -> str:
    return "call_" + secrets.token_hex(12)


def short_id() -> str:
    return "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(9))


def merged(pieces: list[Piece]) -> list[Piece]:
    """Neighbours of one kind become one; empty ones go."""
    if len(pieces) == 1 and (isinstance(pieces[0], CallStart) or pieces[0].text):
        return pieces  # what most steps of an answer give
    runs: list[tuple[Piece, list[str]]] = []
    for piece in pieces:
        if isinstance(piece, CallStart):
            runs.append((piece, []))
        elif piece.text:
            if not (runs and _alike(runs[-1][0], piece)):
                runs.append((piece, []))
            runs[-1][1].append(piece.text)
    return [_with_text(piece, "".join(texts)) for piece, texts in runs]


def _alike(one: Piece, other: Piece) -> bool:
    index = getattr(one, "index", None)
    return type(one) is type(other) and index == getattr(other, "index", None)


def _with_text(piece: Piece, text: str) -> Piece:
    match piece:
        case CallStart():
            return piece
        case CallArguments(index):
            return CallArguments(index, text)
    return type(piece)(text)


class _Stripped:
    """Text whose whitespace at the beginning and at the end is left away."""

    def __init__(self, give: Callable[[str], None], *, strip: bool) -> None:
        self.strip = strip  # at the end, and before what comes next
        self._give = give
        self._given = False
        self._space: list[str] = []

    def give(self, text: str) -> None:
        if self.strip and not self._given:
            text = text.lstrip()
        solid = text.rstrip()
        if solid:
            self._give("".join(self._space) + solid)
            self._space.clear()
            self._given = True
        if len(solid) < len(text):
            self._space.append(text[len(solid) :])

    def cut(self) -> None:
        """Something else stands here: whitespace around it is layout."""
        self.strip = True
        if not self._given:
            self._space.clear()

    def end(self) -> None:
        if not self.strip:
            self._give("".join(self._space))
        self._space.clear()


class _Answer:
    """The grammar of an answer, as generators over one reader."""

    def __init__(
        self,
        reader: Reader,
        calls: CallFormat | None,
        reasoning: ReasoningFormat | None,
        tools: Tools,
    ) -> None:
        self._reader = reader
        self._calls = calls
        self._reasoning = reasoning
        self._tools = tools
        self._content = _Stripped(lambda text: reader.pieces.append(Content(text)), strip=False)
        reader.on_call = self._content.cut

    def parse(self, starts_in_reasoning: bool) -> Parsing[None]:
        in_channels = self._reasoning is not None and self._reasoning.channels
        if in_channels or (self._calls and isinstance(self._calls.body, ChannelBody)):
            yield from self._messages()
        else:
            yield from self._sections(starts_in_reasoning)
        self._content.end()

    def _sections(self, starts_in_reasoning: bool) -> Parsing[None]:
        thought = self._reasoning is not None and (
            yield from self._reason(self._reasoning, starts_in_reasoning)
        )
        wrappers = self._reasoning.wrappers if self._reasoning and thought else ()
        begins = self._calls.begins if self._calls else ()
        markers = Markers((*begins, *wrappers))
        if self._calls and self._calls.bare:
            yield from self._attempt(section(self._reader, self._calls, self._tools, bare=True))
        while True:
            try:
                found = yield from self._reader.give_until(markers, self._give)
            except EndOfTextError:
                self._give(self._reader.rest())
                return
            if found in wrappers:
                self._reader.recorded()
            elif self._calls:
                parsing = section(self._reader, self._calls, self._tools, bare=False)
                yield from self._attempt(parsing)

    def _reason(self, format: ReasoningFormat, started: bool) -> Parsing[bool]:
        """The reasoning at the beginning, if there is any."""
        thought = False
        while True:
            space = yield from self._reader.space()
            if not started and not (yield from self._reader.optional(format.begin)):
                self._give(space)
                return thought
            yield from self._reasoned(format)
            started, thought = False, True

    def _reasoned(self, format: ReasoningFormat) -> Parsing[None]:
        self._content.cut()
        thoughts = self._thoughts()
        try:
            yield from self._reader.give_until(Markers((format.end,)), thoughts)
        except EndOfTextError:
            thoughts(self._reader.rest())
        self._reader.recorded()

    def _thoughts(self) -> Callable[[str], None]:
        reader = self._reader
        stripped = _Stripped(lambda text: reader.pieces.append(Reasoning(text)), strip=True)

        def give(text: str) -> None:
            reader.recorded()
            stripped.give(text)

        return give

    def _attempt(self, parsing: Parsing[None]) -> Parsing[None]:
        """What a parser has read and not given out is content, if it fails or is done."""
        with contextlib.suppress(MismatchError):
            yield from parsing
        self._give(self._reader.recorded())

    def _give(self, text: str) -> None:
        self._reader.recorded()
        self._content.give(text)

    def _messages(self) -> Parsing[None]:
        thoughts = self._thoughts()
        with_calls = self._calls is not None
        yield from channels.messages(self._reader, self._give, thoughts, with_calls=with_calls)
