"""A vocabulary by id: texts, types and marks, from names with numbers and from added tokens.

No object is made for a token, unless the file adds it by name. What merges do is unknown here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from pyrite._native import text as native
from pyrite.errors import FormatError
from pyrite.formats.added_tokens import AddedToken
from pyrite.formats.checkpoint import Mark, StringTable

NAME = "tokenizer.json"
MAX_TOKENS = 1 << 22
NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = range(1, 7)  # tokenizer.ggml.token_type


class TokenTable:
    """`size` tokens; ids that nothing names are unused.

    Raises FormatError for ids out of range, and for two tokens of one id or two ids of one token.
    """

    def __init__(self, names: native.TokenNames, added: Sequence[AddedToken]) -> None:
        self.added = added
        self._find = finder(names)
        self._numbers = names.numbers()  # (names,) in the order of the file
        self._new = self._new_ids()
        self._list = _joined(StringTable(*names.table()), string_table(list(self._new)))
        numbers = _checked_ids(self._numbers, self._new, self._list)
        self.size = int(numbers.max()) + 1
        self.tokens = StringTable(self._list.data, *_by_id(self._list, numbers, self.size))
        self.types = np.full(self.size, UNUSED, np.int32)
        self.types[numbers] = NORMAL
        self.marks = np.zeros(self.size, np.uint8)
        self.marks[self._numbers] = Mark.PIECE

    def find(self, name: str) -> int | None:
        """The id of the token that is written so."""
        known = self._find(name)
        return self._new.get(name) if known is None else known

    def _new_ids(self) -> dict[str, int]:
        """Of added tokens that the vocabulary has not."""
        new: dict[str, int] = {}
        for token in self.added:
            listed = self._find(token.content)
            known = new.get(token.content, token.id) if listed is None else listed
            if known != token.id:
                problem = f"the added token {token.content[:40]!r} has id {token.id}, and {known}"
                raise FormatError(f"{NAME}: {problem} in the vocabulary")
            if listed is None:
                new[token.content] = token.id
        return new

    def special_pieces(self) -> list[AddedToken]:
        """Special tokens that merges may make as well."""
        return [one for one in self.added if one.special and self.marks[one.id] & Mark.PIECE]

    def mark_added(self, made: set[str]) -> None:
        """`made`: the special tokens that merges make as well, which therefore stay pieces."""
        for token in self.added:
            self.types[token.id] = CONTROL if token.special else USER
            mark = self.marks[token.id] & Mark.PIECE
            if token.special and token.content not in made:
                mark = 0
            mark |= Mark.MARKER
            mark |= Mark.LEFT if token.lstrip else 0
            mark |= Mark.RIGHT if token.rstrip else 0
            mark |= Mark.LATE if token.normalized else 0
            self.marks[token.id] = mark

    def pieces_hold(self, byte: bytes) -> bool:
        """Whether a piece that merges make has this byte."""
        places = np.flatnonzero(self._list.data == byte[0])
        listed = np.searchsorted(self._list.starts, places, side="right") - 1
        listed = listed[listed < len(self._numbers)]
        return bool((self.marks[self._numbers[listed]] & Mark.PIECE).any())


def finder(names: native.TokenNames) -> Callable[[str], int | None]:
    """What finds a name's number."""
    numbers = names.numbers()

    def find(name: str) -> int | None:
        index = names.find(name.encode(errors="surrogatepass"))
        return None if index < 0 else int(numbers[index])

    return find


def string_table(texts: Sequence[str]) -> StringTable:
    """The strings in one buffer."""
    try:
        encoded = [text.encode() for text in texts]
    except UnicodeEncodeError:
        raise FormatError(f"{NAME} holds half of a surrogate pair") from None
    lengths = np.fromiter(map(len, encoded), np.int32, len(encoded))
    starts = np.fromiter(accumulate(map(len, encoded), initial=0), np.int64, len(encoded) + 1)
    return StringTable(np.frombuffer(b"".join(encoded), np.uint8), starts[:-1], lengths)


def _joined(one: StringTable, other: StringTable) -> StringTable:
    return StringTable(
        np.concatenate([one.data, other.data]),
        np.concatenate([one.starts, other.starts + len(one.data)]),
        np.concatenate([one.lengths, other.lengths]),
    )


def _by_id(
    table: StringTable, numbers: NDArray[np.int64], size: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Starts and lengths. (size,) each"""
    starts = np.zeros(size, np.int64)
    lengths = np.zeros(size, np.int32)
    starts[numbers] = table.starts
    lengths[numbers] = table.lengths
    return starts, lengths


def _checked_ids(
    listed: NDArray[np.int64], new: dict[str, int], table: StringTable
) -> NDArray[np.int64]:
    """All ids, in the order of the table."""
    try:
        numbers = np.concatenate([listed, np.fromiter(new.values(), np.int64, len(new))])
    except OverflowError:
        raise FormatError(f"{NAME} has a token id of more than 64 bits") from None
    if not len(numbers):
        raise FormatError(f"{NAME} has no tokens")
    low, high = int(numbers.min()), int(numbers.max())
    if low < 0 or high >= MAX_TOKENS:
        problem = f"token ids from {low} to {high}: must be from 0 to {MAX_TOKENS - 1}"
        raise FormatError(f"{NAME} has {problem}")
    counts = np.bincount(numbers)
    if counts.max() > 1:
        twice = int(counts.argmax())
        names = [table[index].decode() for index in np.flatnonzero(numbers == twice)[:2].tolist()]
        shown = " and ".join(repr(name[:40]) for name in names)
        raise FormatError(f"{NAME}: {shown} have one id, {twice}")
    return numbers
