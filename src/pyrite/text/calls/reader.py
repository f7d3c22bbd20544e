"""Reads a text that is still being written: parsers are generators that wait for what is missing.

A parser asks for what must come next and goes on as soon as that is certain, so what it does never
depends on how the text was cut. What it has read and not yet given out is on record, and comes back
as it was written should the text turn out to be something else. Knows no format.

Every character is read once and copied a bounded number of times, however small the pieces are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

from pyrite.text.answer import CallArguments, CallStart, Piece

T = TypeVar("T")
Parsing = Generator[None, None, T]  # each `yield` waits for more text
Give = Callable[[str], None]

SPACE = re.compile(r"\s*")


class MismatchError(Exception):
    """The text is not what the parser is for."""


class EndOfTextError(MismatchError):
    """The answer ended where more had to come."""


class Markers:
    """Strings to look for. None of them lies inside another."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._whole = re.compile("|".join(map(re.escape, texts)) or r"(?!)")
        firsts = "".join({re.escape(text[0]) for text in texts})
        self._first = re.compile(f"[{firsts}]" if firsts else r"(?!)")
        self._begun = {text[:length] for text in texts for length in range(1, len(text))}
        self._longest = max(map(len, texts), default=1)

    def find(self, text: str, start: int) -> tuple[int, int]:
        """Where the first marker begins and ends; when none is whole, where one may have begun."""
        found = self._whole.search(text, start)
        if found:
            return found.span()
        begun = self._first.search(text, max(start, len(text) - self._longest + 1))
        while begun:
            if text[begun.start() :] in self._begun:
                return begun.start(), begun.start()
            begun = self._first.search(text, begun.end())
        return len(text), len(text)


class Reader:
    """`pieces` is what has become certain; whoever reads them empties the list."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        self.pieces: list[Piece] = []
        self.num_calls = 0
        self.closed = False
        self.on_call: Callable[[], None] = lambda: None  # before each call
        self._new_id = new_id
        self._text = ""
        self._at = 0
        self._record: list[str] = []

    def feed(self, text: str) -> None:
        self._text = self._text[self._at :] + text
        self._at = 0

    @property
    def finished(self) -> bool:
        return self.closed and self._at == len(self._text)

    # What is given out.

    def start_call(self, name: str, call_id: str = "") -> None:
        self.on_call()
        self._record.clear()
        self.pieces.append(CallStart(self.num_calls, call_id or self._new_id(), name))
        self.num_calls += 1

    def give_arguments(self, text: str) -> None:
        """Of the call that started last."""
        self._record.clear()
        self.pieces.append(CallArguments(self.num_calls - 1, text))

    def recorded(self) -> str:
        """What was read since something was last given out; it is off the record then."""
        text = "".join(self._record)
        self._record.clear()
        return text

    # What is read.

    def wait(self) -> Parsing[None]:
        if self.closed:
            raise EndOfTextError
        yield

    def take(self, length: int) -> str:
        """The next characters, which are there."""
        text = self._text[self._at : self._at + length]
        self._at += length
        self._record.append(text)
        return text

    def peek(self) -> Parsing[str]:
        """The next character, which is not read."""
        while self._at == len(self._text):
            yield from self.wait()
        return self._text[self._at]

    def literal(self, text: str) -> Parsing[None]:
        if not (yield from self.optional(text)):
            raise EndOfTextError if self.closed else MismatchError

    def optional(self, text: str) -> Parsing[bool]:
        """Reads `text` if it comes next."""
        found = yield from self.ahead(text)
        if found:
            self.take(len(text))
        return found

    def ahead(self, text: str) -> Parsing[bool]:
        """Whether `text` comes next; it is not read."""
        while len(text) > len(self._text) - self._at and text.startswith(self._text[self._at :]):
            if self.closed:
                return False
            yield
        return self._text.startswith(text, self._at)

    def space(self) -> Parsing[str]:
        """Whitespace up to something else or the end of the text."""
        return (yield from self.all_of(SPACE))

    def all_of(self, pattern: re.Pattern[str]) -> Parsing[str]:
        """The longest run of a class of characters, which may be empty."""
        run = []
        while True:
            run.append(self.some_of(pattern))
            if self._at < len(self._text) or self.closed:
                return "".join(run)
            yield

    def some_of(self, pattern: re.Pattern[str]) -> str:
        """What there is of such a run without waiting."""
        found = pattern.match(self._text, self._at)
        return self.take(found.end() - self._at) if found else ""

    def until(self, marker: Markers, limit: int | None = None) -> Parsing[str]:
        """The text before a marker; both are read. At most `limit` characters."""
        parts: list[str] = []
        yield from self.give_until(marker, parts.append, limit)
        return "".join(parts)

    def give_until(self, markers: Markers, give: Give, limit: int | None = None) -> Parsing[str]:
        """Gives the text before a marker out, piece by piece; the marker is read and returned."""
        length = 0
        while True:
            begin, end = markers.find(self._text, self._at)
            length += begin - self._at
            if limit is not None and length > limit:
                self.take(limit - (length - (begin - self._at)))
                raise MismatchError
            if begin > self._at:
                give(self.take(begin - self._at))
            if end > begin:
                return self.take(end - begin)
            yield from self.wait()

    def unread(self, text: str) -> None:
        """Puts back what was read last."""
        assert self._record[-1] == text, "not what was read last"
        self._record.pop()
        self._at -= len(text)

    def ends_in(self, text: str) -> bool:
        """Reads the rest if the answer broke off inside `text`."""
        found = self.closed and not self.finished and text.startswith(self._text[self._at :])
        if found:
            self.rest()
        return found

    def rest(self) -> str:
        """All that is there."""
        return self.take(len(self._text) - self._at)
