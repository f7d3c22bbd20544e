"""A tokenizer.json that the native tokenizer does not know, run by the `tokenizers` library.

The same interface and the same rule as `Tokenizer`: text that a user typed never becomes a control
token. Bytes that are not UTF-8 become U+FFFD, for the library takes text.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyrite.errors import FormatError
from pyrite.formats.checkpoint import TokenizerData
from pyrite.text.library import called, find_library, made_by
from pyrite.text.native_tokenizer import CONTROL, UNKNOWN, USER, kinds_of
from pyrite.text.pieces import reader_of
from pyrite.text.tokenizer import Tokenizer, utf8

Span = tuple[int, int]  # begin and end, in characters


class Place(NamedTuple):
    """A special token in a text, with the white space that it takes along; and its name alone."""

    token_id: int
    begin: int
    end: int
    own_begin: int
    own_end: int


class LibraryTokenizer(Tokenizer):
    """Raises UnsupportedError without the library, FormatError for what the library refuses."""

    def __init__(self, data: TokenizerData) -> None:
        assert data.source is not None, "the library reads the file itself"
        self._make = find_library(data.unknown)
        self._source = _text(data.source)
        self._data = data
        self._kinds = kinds_of(data)
        self.pre = ""
        self.warnings = ()
        self._texts = [data.tokens[index].decode() for index in range(len(data.tokens))]
        self._ids = {text: index for index, text in enumerate(self._texts) if text}
        self._check_ids()

    def _check_ids(self) -> None:
        """The library numbers added tokens itself; it must come to the file's numbers."""
        library = self._special
        for index in np.flatnonzero(np.isin(self._kinds, (CONTROL, USER, UNKNOWN))).tolist():
            found = library.token_to_id(self._texts[index])
            if found != index:
                problem = f"{self._texts[index]!r} has id {index}, and {found} to the library"
                raise FormatError(f"{self._data.source}: {problem}")

    @cached_property
    def fingerprint(self) -> str:
        """Of the file, and of what stands beside it."""
        data = self._data
        settings = (data.bos_id, data.add_bos, data.begin_ids, data.end_ids, data.added)
        return hashlib.blake2b(f"{settings}{self._source}".encode(), digest_size=16).hexdigest()

    # Three of them, for whether it finds special tokens is a state of each.

    @cached_property
    def _special(self) -> Any:
        return self._made(self._source)

    @cached_property
    def _plain(self) -> Any:
        return plain(self._made(self._source))

    @cached_property
    def _later(self) -> Any:
        """For what does not begin a text."""
        source = without_first_prefix(self._source)
        return self._plain if source is None else plain(self._made(source))

    def _made(self, source: str) -> Any:
        return made_by(self._make, source, self._data.added)

    def control_id(self, name: str) -> int | None:
        return self._id_of(name, (CONTROL,))

    def marker_id(self, name: str) -> int | None:
        return self._id_of(name, (CONTROL, USER))

    def _id_of(self, name: str, kinds: Sequence[int]) -> int | None:
        token_id = self._ids.get(name)
        return token_id if token_id is not None and self._kinds[token_id] in kinds else None

    def encode_bytes(
        self, text: bytes, *, special: bool = False, bos: bool = False
    ) -> NDArray[np.int32]:
        whole = text.decode(errors="replace")
        return self._begun(self._within(whole, [(0, len(whole))] if special else []), bos)

    def encode_segments(
        self, segments: Sequence[tuple[str, bool]], *, bos: bool = False
    ) -> NDArray[np.int32]:
        spans: list[Span] = []
        at = 0
        for text, trusted in segments:
            utf8(text)
            begin, at = at, at + len(text)
            if trusted and spans and spans[-1][1] == begin:
                spans[-1] = (spans[-1][0], at)
            elif trusted:
                spans.append((begin, at))
        return self._begun(self._within("".join(text for text, _ in segments), spans), bos)

    def _within(self, text: str, spans: Sequence[Span]) -> NDArray[np.int32]:
        """Special tokens lie wholly in one of the spans. (tokens,)"""
        if not spans:
            return self._apart(text, ())
        found = called(self._special.encode, text, add_special_tokens=False)
        places = self._special_places(text, found)
        trusted = list(_inside(places, spans))
        if len(trusted) == len(places):
            return self._checked(found.ids)
        return self._apart(text, trusted)

    def _special_places(self, text: str, found: Any) -> list[Place]:
        """Where special tokens are written. The unknown token is also what is not."""
        places = []
        for token_id, (begin, end) in zip(found.ids, found.offsets, strict=True):
            if token_id < self.vocab_size and self.is_special(token_id):
                name = self._texts[token_id]
                own = text.find(name, begin, end)
                if own >= 0 or token_id != self._data.unknown_id:
                    places.append(Place(token_id, begin, end, own, own + len(name)))
        return places

    def _apart(self, text: str, marked: Sequence[Place]) -> NDArray[np.int32]:
        """What lies between the markers is encoded by itself, and finds no special token."""
        parts: list[NDArray[np.int32]] = []
        at = 0
        for place in marked:
            parts += self._encoded(text[at : place.begin], first=at == 0)
            parts.append(np.array([place.token_id], np.int32))
            at = place.end
        parts += self._encoded(text[at:], first=at == 0)
        return np.concatenate(parts) if parts else np.zeros(0, np.int32)

    def _encoded(self, text: str, *, first: bool) -> list[NDArray[np.int32]]:
        """Without special tokens. The pieces of some models are special tokens too: text that has
        become one is cut, and a single character is left away."""
        parts = []
        waiting = [text] if text else []
        while waiting:
            text = waiting.pop()
            library = self._plain if first else self._later
            found = called(library.encode, text, add_special_tokens=False)
            places = self._special_places(text, found)
            if places and len(text) > 1:
                waiting += reversed(list(_cut(text, places)))
                continue
            hidden = {place.token_id for place in places}
            parts.append(self._checked([one for one in found.ids if one not in hidden]))
            first = False
        return parts

    def decode_bytes(
        self, ids: Sequence[int] | NDArray[np.integer], *, skip_special: bool = True
    ) -> bytes:
        listed = self._checked(ids).tolist()
        text = called(self._special.decode, listed, skip_special_tokens=skip_special)
        return bytes(text.encode())

    def token_bytes(self, token_id: int) -> bytes:
        index = self._checked_id(token_id)
        text = self._texts[index]
        return text.encode() if self._kinds[index] in (CONTROL, USER) else self._written(text)

    @cached_property
    def _written(self) -> Callable[[str], bytes]:
        decoder = json.loads(self._special.to_str()).get("decoder")
        return reader_of([] if decoder is None else decoder.get("decoders", [decoder]))


def _inside(places: Sequence[Place], spans: Sequence[Span]) -> Iterator[Place]:
    """Those whose own names lie in a span; both ascend."""
    waiting = iter(spans)
    span = next(waiting, None)
    for place in places:
        while span is not None and span[1] <= max(place.own_begin, place.begin):
            span = next(waiting, None)
        if span is not None and span[0] <= place.own_begin and place.own_end <= span[1]:
            yield place


def _cut(text: str, places: Sequence[Place]) -> Iterator[str]:
    """The text in pieces, none of them empty, and more than one: cut before each, or, where the
    text begins with it, after a character."""
    starts = {max(place.own_begin, place.begin) or 1 for place in places}
    at = 0
    for end in (*sorted(starts), len(text)):
        yield text[at:end]
        at = end


def plain(library: Any) -> Any:
    library.encode_special_tokens = True
    return library


def without_first_prefix(source: str) -> str | None:
    """The same tokenizer, but that it puts no space before what it takes for a text's beginning.

    None for one that puts none there, or before every text.
    """
    if '"first"' not in source:
        return None
    document = json.loads(source)
    waiting = [document.get("pre_tokenizer")]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            waiting += part.get("pretokenizers") or []
            if part.get("prepend_scheme") == "first":
                part["prepend_scheme"] = "never"
    return json.dumps(document)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FormatError(f"{path}: cannot be read: {error}") from None
