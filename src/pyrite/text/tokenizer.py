"""Text to token ids and back, for one vocabulary.

Built from what the model's file says (`TokenizerData`), by the native core: nothing here makes an
object per token. Knows no chat template and no request; what a token does to a model is not its
business either.

Which text may become which ids:

* control tokens (GGUF type 3, and the unknown token) only when the caller passes `special=True`;
* user-defined tokens (type 4) in either case, for they are ordinary text with an id of its own;
* of markers that begin at one place the longest wins, and the leftmost place goes first.
"""

from __future__ import annotations

import logging
import operator
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pyrite.errors import ParameterError, UnsupportedError
from pyrite.formats.checkpoint import Normalization, TokenizerData
from pyrite.text.fingerprint import fingerprint_of
from pyrite.text.native_tokenizer import (
    CONTROL,
    UNKNOWN,
    UNUSED,
    USER,
    Made,
    check_ids,
    make,
)
from pyrite.text.stops import stop_names

logger = logging.getLogger("pyrite")


class Tokenizer:
    """Made by `from_data`. Threads may share one; long texts are encoded without Python's lock.

    `has_texts`: tokens have texts, and texts become tokens.
    `warnings` are sentences about this vocabulary that its user should read; they are logged once.
    """

    has_texts = True

    def __init__(self, made: Made, data: TokenizerData) -> None:
        self._native = made.native
        self._data = data
        self._kinds = made.kinds
        self.pre = made.pre
        self.warnings = made.warnings
        for warning in self.warnings:
            logger.warning(warning)

    @classmethod
    def from_data(cls, data: TokenizerData, *, pre: str | None = None) -> Tokenizer:
        """`pre` is a pre-tokenizer's name, in place of the one that the file gives.

        Raises FormatError for data that contradicts itself, UnsupportedError for an unknown
        pre-tokenizer, and for what is left to the `tokenizers` library where that is missing.
        """
        if data.model == "library" and data.source is None:
            hint = "AutoTokenizer.from_pretrained and save_pretrained of transformers write one"
            raise UnsupportedError(
                f"the folder has {data.unknown}, and no tokenizer.json", hint=hint
            )
        check_ids(data)
        if data.model == "library":
            from pyrite.text.library_tokenizer import LibraryTokenizer

            return LibraryTokenizer(data)
        return cls(make(data, pre), data)

    @property
    def vocab_size(self) -> int:
        return len(self._kinds)

    @property
    def bos_id(self) -> int | None:
        return self._data.bos_id

    @property
    def eos_ids(self) -> tuple[int, ...]:
        return self._data.eos_ids

    @cached_property
    def stop_ids(self) -> tuple[int, ...]:
        """Ids that end an answer: the file's eos, eot and eom, and control tokens known by name."""
        names = stop_names(in_channels=self.control_id("<|channel|>") is not None)
        named = (self.control_id(name) for name in names)
        return tuple(sorted({*self.eos_ids, *(found for found in named if found is not None)}))

    @cached_property
    def fingerprint(self) -> str:
        """Hexadecimal digest of everything that decides which ids a text has."""
        return fingerprint_of(self._data, self._kinds, self.pre)

    def control_id(self, name: str) -> int | None:
        """The id of the control token that is written `name`, if there is one."""
        ids = self._native.encode(name.encode(), True)
        return int(ids[0]) if len(ids) == 1 and self._kinds[ids[0]] == CONTROL else None

    def marker_id(self, name: str) -> int | None:
        """The id of the control or user-defined token that is written `name`, if there is one."""
        ids = self._native.encode(name.encode(), True)
        found = len(ids) == 1 and self._kinds[ids[0]] in (CONTROL, USER)
        return int(ids[0]) if found else None

    @cached_property
    def special_ids(self) -> list[int]:
        """Ids that no text stands for: control tokens, the unknown one, and unused ones."""
        found: list[int] = np.flatnonzero(np.isin(self._kinds, (CONTROL, UNKNOWN, UNUSED))).tolist()
        return found

    def encode(self, text: str, *, special: bool = False, bos: bool = False) -> NDArray[np.int32]:
        """Ids of `text`. (tokens,)

        `special`: control tokens written in the text become their ids; leave it off for what a
        user typed. `bos`: the ids begin with the beginning-of-text token if the model wants one
        (tokenizer.ggml.add_bos_token), and with only one, should the text bring its own.

        Raises ParameterError for a lone surrogate, which no encoding of text can carry.
        """
        return self.encode_bytes(utf8(text), special=special, bos=bos)

    def encode_whole(self, text: str, *, special: bool = False) -> NDArray[np.int32]:
        """Ids of a text that is complete, as one to be embedded is: begun and ended as the model
        wants it. (tokens,)"""
        data = self._data
        end = data.end_ids or (data.eos_ids[:1] if data.add_eos else ())
        ids = self.encode(text, special=special, bos=True)
        return np.concatenate([ids, np.array(end, np.int32)])

    def encode_bytes(
        self, text: bytes, *, special: bool = False, bos: bool = False
    ) -> NDArray[np.int32]:
        """As `encode`; bytes that are not UTF-8 become the tokens of bytes. (tokens,)"""
        edges = np.array([0, len(text)] if special else [], np.int64)
        return self._begun(self._encode(text, edges), bos)

    def encode_segments(
        self, segments: Sequence[tuple[str, bool]], *, bos: bool = False
    ) -> NDArray[np.int32]:
        """Ids of the joined text of (text, trusted) segments. (tokens,)

        As `encode` of the whole, but a control token must lie wholly in trusted text: one that a
        user typed, or began to, stays text. `bos` as in `encode`.
        """
        edges: list[int] = []  # begin, end, begin, end, ... in bytes
        whole = bytearray()
        for text, trusted in segments:
            begin = len(whole)
            whole += utf8(text)
            if trusted and edges[-1:] == [begin]:
                edges[-1] = len(whole)
            elif trusted:
                edges += [begin, len(whole)]
        return self._begun(self._encode(bytes(whole), np.array(edges, np.int64)), bos)

    def _encode(self, text: bytes, edges: NDArray[np.int64]) -> NDArray[np.int32]:
        form = self._data.normalization
        if form is None or text.isascii():
            return self._native.encode_within(text, edges)
        if unicodedata.is_normalized(form, text.decode(errors="surrogateescape")):
            return self._native.encode_within(text, edges)
        return self._encode_normalized(form, text, edges)

    def _encode_normalized(
        self, form: Normalization, text: bytes, edges: NDArray[np.int64]
    ) -> NDArray[np.int32]:
        """Markers are found in the text as it stands; what lies between them is normalised."""
        parts: list[NDArray[np.int32]] = []
        at = 0
        marked = self._native.find_markers(text, edges).tolist()
        for begin, end, token_id in (*_triples(marked), (len(text), len(text), None)):
            if at < begin:
                between = text[at:begin].decode(errors="surrogateescape")
                changed = unicodedata.normalize(form, between).encode(errors="surrogateescape")
                parts.append(self._native.encode_between(changed, at == 0))
            if token_id is not None:
                parts.append(np.array([token_id], np.int32))
            at = end
        return np.concatenate(parts)

    def _begun(self, ids: NDArray[np.int32], bos: bool) -> NDArray[np.int32]:
        begin = self._begin
        if not bos or not begin or tuple(ids[: len(begin)].tolist()) == begin:
            return ids
        return np.concatenate([np.array(begin, np.int32), ids])

    @cached_property
    def _begin(self) -> tuple[int, ...]:
        """What a text begins with."""
        data = self._data
        alone = (data.bos_id,) if data.add_bos and data.bos_id is not None else ()
        return data.begin_ids or alone

    def decode(self, ids: Sequence[int] | NDArray[np.integer], *, skip_special: bool = True) -> str:
        """Text of `ids`; what is not UTF-8 becomes U+FFFD. See `decode_bytes`."""
        return self.decode_bytes(ids, skip_special=skip_special).decode(errors="replace")

    def decode_bytes(
        self, ids: Sequence[int] | NDArray[np.integer], *, skip_special: bool = True
    ) -> bytes:
        """The tokens' bytes, joined, without control and unknown tokens unless asked for.

        Undoes `encode`: the space that some models put before a text, and after a marker, is
        taken away again. Raises ParameterError for an id outside the vocabulary.
        """
        return self._native.decode(self._checked(ids), skip_special)

    def token_bytes(self, token_id: int) -> bytes:
        """What one token stands for inside a text, a control token for its name."""
        return self._native.token_bytes(self._checked_id(token_id))

    def token_text(self, token_id: int) -> str:
        """As `token_bytes`, for showing: incomplete characters become U+FFFD."""
        return self.token_bytes(token_id).decode(errors="replace")

    def is_special(self, token_id: int) -> bool:
        """Whether `decode` hides it: a control token, or the unknown one."""
        return bool(self._kinds[self._checked_id(token_id)] in (CONTROL, UNKNOWN))

    def _checked_id(self, token_id: int) -> int:
        index = operator.index(token_id)
        if not 0 <= index < self.vocab_size:
            raise ParameterError("token id", index, f"from 0 to {self.vocab_size - 1}")
        return index

    def _checked(self, ids: Sequence[int] | NDArray[np.integer]) -> NDArray[np.int32]:
        given = np.asarray(ids)
        if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
            raise ParameterError("token ids", ids, "a flat sequence of integers")
        if given.size:
            self._checked_id(int(given.min()))
            self._checked_id(int(given.max()))
        return np.ascontiguousarray(given, np.int32)


def utf8(text: str) -> bytes:
    if not isinstance(text, str):
        raise ParameterError("text", text, "a string")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ParameterError(
            "text",
            text[error.start : error.start + 1],
            f"whole characters: half of a surrogate pair stands at position {error.start}",
            hint="a string was cut inside a character",
        ) from None


def _triples(flat: list[int]) -> Iterator[tuple[int, int, int]]:
    return zip(flat[::3], flat[1::3], flat[2::3], strict=True)
