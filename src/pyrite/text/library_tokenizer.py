"""A tokenizer.json that the native tokenizer does not know, run by the `tokenizers` library.

The same interface and the same rule as `Tokenizer`: text that a user typed never becomes a control
token. The library is optional, and imported here alone. Bytes that are not UTF-8 become U+FFFD, for
the library takes text.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from pyrite.errors import FormatError, UnsupportedError
from pyrite.formats.checkpoint import TokenizerData
from pyrite.text.tokenizer import CONTROL, UNKNOWN, USER, Tokenizer, kinds_of, utf8

BYTE_PIECE = re.compile(r"<0x([0-9A-F]{2})>")
Span = tuple[int, int]  # begin and end, in characters
T = TypeVar("T")


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
        self._make = _library(data)
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
        settings = (self._data.bos_id, self._data.add_bos, self._data.begin_ids, self._data.end_ids)
        return hashlib.blake2b(f"{settings}{self._source}".encode(), digest_size=16).hexdigest()

    # Three of them, for whether it finds special tokens is a state of each.

    @cached_property
    def _special(self) -> Any:
        return called(self._make, self._source)

    @cached_property
    def _plain(self) -> Any:
        return plain(called(self._make, self._source))

    @cached_property
    def _later(self) -> Any:
        """For what does not begin a text."""
        return plain(called(self._make, without_first_prefix(self._source)))

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
        """What a piece stands for, by the decoder's steps."""
        decoder = json.loads(self._special.to_str()).get("decoder") or {}
        steps = decoder.get("decoders", [decoder])
        kinds = [step.get("type") for step in steps]
        if "ByteLevel" in kinds:
            return byte_level
        if "WordPiece" in kinds:
            prefix = steps[kinds.index("WordPiece")].get("prefix", "##")
            return lambda text: word_piece(text, prefix)
        return bounded


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


def byte_level(text: str) -> bytes:
    alphabet = ALPHABET
    if all(character in alphabet for character in text):
        return bytes(alphabet[character] for character in text)
    return text.encode()


def word_piece(text: str, prefix: str) -> bytes:
    return (text.removeprefix(prefix) if text.startswith(prefix) else " " + text).encode()


def bounded(text: str) -> bytes:
    byte = BYTE_PIECE.fullmatch(text)
    return bytes.fromhex(byte[1]) if byte else text.replace("\u2581", " ").encode()


def _alphabet() -> dict[str, int]:
    """Of byte-level vocabularies (GPT-2's encoder.py)."""
    prints = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = (byte for byte in range(256) if byte not in prints)
    return {chr(byte): byte for byte in prints} | {
        chr(0x100 + index): byte for index, byte in enumerate(others)
    }


ALPHABET = _alphabet()


def _library(data: TokenizerData) -> Callable[[str], Any]:
    try:
        from tokenizers import Tokenizer as Library
    except ImportError:
        raise UnsupportedError(
            f"the tokenizer has {data.unknown}, which is not known here",
            hint="the tokenizers library may know it: pip install 'pyrite-llm[tokenizers]'",
        ) from None
    made: Callable[[str], Any] = Library.from_str
    return made


def called(function: Callable[..., T], *arguments: Any, **options: Any) -> T:
    """The library raises plain exceptions, and panics that are none."""
    try:
        return function(*arguments, **options)
    except (KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError):
        raise
    except BaseException as error:
        raise FormatError(f"the tokenizers library: {str(error)[:200]}") from None


def plain(library: Any) -> Any:
    library.encode_special_tokens = True
    return library


def without_first_prefix(source: str) -> str:
    """The same tokenizer, but that it puts no space before what it takes for a text's beginning."""
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
