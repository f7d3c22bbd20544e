"""A string that remembers, character by character, whether the chat template itself wrote it.

Trust has one source: text that stands in the template (and bos, eos and the names of known roles).
Everything else is a plain `str` and counts as untrusted, and so does the result of any operation
that is not written below: trust can be lost by accident, never gained. Knows nothing of templates,
tokens or limits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, SupportsIndex

TRUSTED = b"\x01"
UNTRUSTED = b"\x00"


class Traced(str):
    """`_marks` holds one byte a character: 1 where the template wrote it.

    The underscore keeps the field out of a template's reach: the sandbox hides such names.
    """

    __slots__ = ("_marks",)
    _marks: bytes

    def __new__(cls, text: str, marks: bytes | None = None) -> Traced:
        self = super().__new__(cls, text)
        self._marks = UNTRUSTED * len(text) if marks is None else marks
        assert len(self._marks) == len(text), "one mark a character"
        return self

    def __str__(self) -> str:
        return self

    def __getitem__(self, index: Any) -> str:
        part = super().__getitem__(index)
        if isinstance(index, slice):
            return Traced(part, self._marks[index])
        return Traced(part, self._marks[index : index + 1 or None])

    def __iter__(self) -> Iterator[str]:
        return (self[index] for index in range(len(self)))

    def __add__(self, other: str) -> str:
        return Traced(super().__add__(other), self._marks + marks(other))

    def __radd__(self, other: Any) -> Any:
        if not isinstance(other, str):
            return NotImplemented
        return Traced(str.__add__(other, self), marks(other) + self._marks)

    def __mul__(self, count: SupportsIndex) -> str:
        return Traced(super().__mul__(count), self._marks * int(count))

    __rmul__ = __mul__

    def __mod__(self, values: Any) -> str:
        return percent(self, values)

    def join(self, items: Iterable[str]) -> str:
        return joined(self, list(items))

    def strip(self, characters: str | None = None, /) -> str:
        return self.lstrip(characters).rstrip(characters)

    def lstrip(self, characters: str | None = None, /) -> str:
        return self[len(self) - len(super().lstrip(characters)) :]

    def rstrip(self, characters: str | None = None, /) -> str:
        return self[: len(super().rstrip(characters))]

    def removeprefix(self, prefix: str, /) -> str:
        return self[len(prefix) :] if prefix and self.startswith(prefix) else self

    def removesuffix(self, suffix: str, /) -> str:
        return self[: len(self) - len(suffix)] if suffix and self.endswith(suffix) else self

    def replace(self, old: str, new: str, count: SupportsIndex = -1, /) -> str:
        if not old:  # between every two characters: nobody's template needs this exactly
            return Traced(super().replace(old, new, count))
        return joined(new, self.split(old, count))

    def split(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> Any:
        return self._located(super().split(sep, maxsplit), sep)

    def rsplit(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> Any:
        return self._located(super().rsplit(sep, maxsplit), sep)

    def splitlines(self, keepends: bool = False) -> Any:
        whole = self._located(super().splitlines(keepends=True), "")
        if keepends:
            return whole
        return [line[: len(kept)] for line, kept in zip(whole, super().splitlines(), strict=True)]

    def partition(self, sep: str, /) -> Any:
        return tuple(self._located(super().partition(sep), ""))

    def rpartition(self, sep: str, /) -> Any:
        return tuple(self._located(super().rpartition(sep), ""))

    def upper(self) -> str:
        return self._same_length(super().upper)

    def lower(self) -> str:
        return self._same_length(super().lower)

    def title(self) -> str:
        return self._same_length(super().title)

    def capitalize(self) -> str:
        return self._same_length(super().capitalize)

    def _same_length(self, change: Callable[[], str]) -> str:
        changed = change()
        return Traced(changed, self._marks if len(changed) == len(self) else None)

    def _located(self, pieces: Iterable[str], separator: str | None) -> list[str]:
        """The pieces with their marks; between two lies `separator`, or whitespace when None.

        A piece after whitespace starts with something else, so the first place that fits is its
        own; after a known separator the place is counted, never searched for.
        """
        found = []
        cursor = 0
        for piece in pieces:
            if separator is None:
                cursor = self.index(piece, cursor)
            found.append(self[cursor : cursor + len(piece)])
            cursor += len(piece) + len(separator or "")
        return found


def literal(text: str) -> Traced:
    """Text that the template wrote."""
    return Traced(text, TRUSTED * len(text))


def marks(text: str) -> bytes:
    return text._marks if isinstance(text, Traced) else UNTRUSTED * len(text)


def joined(separator: str, items: list[str]) -> str:
    """`separator.join(items)` with the marks of both; plain when all of them are plain."""
    if not any(isinstance(item, Traced) for item in (separator, *items)):
        return str.join(separator, items)
    text = str.join(separator, items)
    return Traced(text, marks(separator).join([marks(item) for item in items]))


def percent(template: str, values: Any) -> str:
    """`template % values`: exact where every conversion is a bare %s or %d, else untrusted."""
    whole = str.__mod__(template, values)
    literals = str(template).split("%s")
    arguments = values if isinstance(values, tuple) else (values,)
    if "%" in "".join(literals) or len(arguments) != len(literals) - 1:
        return Traced(whole)
    pieces = [literals[0]]
    for argument, following in zip(arguments, literals[1:], strict=True):
        pieces += [argument if isinstance(argument, str) else str(argument), following]
    return joined("", pieces)


def segments(text: str) -> list[tuple[str, bool]]:
    """Cuts into (text, trusted) runs, in order; neighbours differ in trust."""
    flags = marks(text)
    plain = "".join((text,))
    runs: list[tuple[str, bool]] = []
    start = 0
    while start < len(flags):
        trusted = flags[start : start + 1] == TRUSTED
        end = flags.find(UNTRUSTED if trusted else TRUSTED, start)
        end = len(flags) if end < 0 else end
        runs.append((str.__getitem__(plain, slice(start, end)), trusted))
        start = end
    return runs
