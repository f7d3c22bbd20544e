"""The native tokenizer of what a model's file says: `TokenizerData` checked, and handed over.

Nothing here makes an object per token. What a tokenizer is asked is unknown here.
"""

from __future__ import annotations

import re
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pyrite._native import text as native
from pyrite.errors import FormatError, UnsupportedError
from pyrite.formats.checkpoint import StringTable, TokenizerData
from pyrite.records import dataclass

NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = range(1, 7)  # tokenizer.ggml.token_type

# Without tokenizer.ggml.pre: what llama.cpp takes then, and warns about too.
DEFAULT_PRE = "default"
SPACE_PREFIXES = {"always": 1, "unless spaced": 2, "first unless spaced": 3}  # native SpacePrefix

Number = TypeVar("Number", np.int32, np.float32, np.uint8)

_BYTE_PIECE = re.compile(rb"<0x[0-9A-F]{2}>")


@dataclass(frozen=True, slots=True)
class Made:
    """`kinds` has a type a token; `pre` is the pre-tokenizer's name, empty where there is none."""

    native: native.Tokenizer
    kinds: NDArray[np.int32]  # (vocab_size,)
    pre: str
    warnings: tuple[str, ...]


def make(data: TokenizerData, pre: str | None) -> Made:
    """`pre` is a pre-tokenizer's name, in place of the one that the file gives.

    Raises FormatError for data that contradicts itself, UnsupportedError for an unknown
    pre-tokenizer.
    """
    kinds = kinds_of(data)
    name = _pre_name(data, pre) if data.model == "bpe" else ""
    try:
        if data.model == "bpe":
            made = _whole(_byte_pair(data, kinds, name), data)
            name = name or DEFAULT_PRE
        elif data.model == "spm":
            made = _whole(_sentence_piece(data, kinds), data)
        else:
            made = _greedy(data, kinds)
    except ValueError as error:
        raise FormatError(f"tokenizer data: {error}") from None
    return Made(made, kinds, name or "", tuple(_warnings(made, data, name or "")))


def _pre_name(data: TokenizerData, override: str | None) -> str | None:
    name = override or data.pre
    known = native.splitter_names()
    if name and name not in known.split(", "):
        raise UnsupportedError(
            f"unknown pre-tokenizer {name!r}; known are {known}",
            hint="name the one that fits with pre=...",
        )
    return name


def _byte_pair(data: TokenizerData, kinds: NDArray[np.int32], pre: str | None) -> native.Tokenizer:
    if data.merges is None:
        raise FormatError("a byte-level tokenizer without merges (tokenizer.ggml.merges)")
    return native.Tokenizer.byte_pair(
        _table(data.tokens),
        _kinds(data, kinds),
        _table(data.merges),
        pre or DEFAULT_PRE,
        data.whole_words,
        data.marks is not None and data.add_space_prefix,
    )


def _greedy(data: TokenizerData, kinds: NDArray[np.int32]) -> native.Tokenizer:
    return native.Tokenizer.greedy(_table(data.tokens), _kinds(data, kinds))


def _whole(made: native.Tokenizer, data: TokenizerData) -> native.Tokenizer:
    """GGUF files with dead merges are about, and work; a tokenizer.json with one is no whole."""
    if data.marks is not None and made.num_dead_merges:
        count = made.num_dead_merges
        problem = (
            f"{count} merge{'s name' if count > 1 else ' names'} pieces outside the vocabulary"
        )
        raise FormatError(f"tokenizer.json: {problem}")
    return made


def _sentence_piece(data: TokenizerData, kinds: NDArray[np.int32]) -> native.Tokenizer:
    prefix = SPACE_PREFIXES[data.space_prefix] if data.add_space_prefix else 0
    strips = data.add_space_prefix if data.strips_space is None else data.strips_space
    common = (_table(data.tokens), _kinds(data, kinds))
    if data.merges is not None:
        merges = _table(data.merges)
        return native.Tokenizer.merged_pieces(*common, merges, prefix, strips, data.cuts_at_spaces)
    if data.scores is None:
        raise FormatError("a SentencePiece tokenizer without scores (tokenizer.ggml.scores)")
    scores = _aligned(data.scores, np.float32)
    return native.Tokenizer.scored_pieces(*common, scores, prefix, strips)


def _table(strings: StringTable) -> native.Table:
    return strings.data, strings.starts, strings.lengths


def _kinds(data: TokenizerData, kinds: NDArray[np.int32]) -> native.Kinds:
    return kinds, marks_of(data), -1 if data.unknown_id is None else data.unknown_id


def marks_of(data: TokenizerData) -> NDArray[np.uint8]:
    """Empty where markers are told by their types."""
    return np.zeros(0, np.uint8) if data.marks is None else _aligned(data.marks, np.uint8)


def _aligned(values: NDArray[Any], kind: type[Number]) -> NDArray[Number]:
    """As the native core reads them; in a file they may begin at any byte."""
    return np.require(values, kind, ["C_CONTIGUOUS", "ALIGNED"])


def check_ids(data: TokenizerData) -> None:
    count = len(data.tokens)
    if count == 0:
        raise FormatError("the tokenizer has no tokens (tokenizer.ggml.tokens)")
    named = {"bos": data.bos_id, "unknown": data.unknown_id, "padding": data.padding_id}
    named |= {f"eos {index}": token_id for index, token_id in enumerate(data.eos_ids)}
    for name, token_id in named.items():
        if token_id is not None and not 0 <= token_id < count:
            raise FormatError(f"the {name} token has id {token_id}, of a vocabulary of {count}")


def kinds_of(data: TokenizerData) -> NDArray[np.int32]:
    """The file's token types; without them, what the pieces' names and the named ids tell."""
    if data.types is not None:
        return _aligned(data.types, np.int32)
    kinds = np.full(len(data.tokens), NORMAL, np.int32)
    if data.model == "spm":
        pieces = (data.tokens[index] for index in range(len(data.tokens)))
        kinds[[_BYTE_PIECE.fullmatch(piece) is not None for piece in pieces]] = BYTE
    for token_id in (data.bos_id, data.padding_id, *data.eos_ids):
        if token_id is not None:
            kinds[token_id] = CONTROL
    if data.unknown_id is not None:
        kinds[data.unknown_id] = UNKNOWN
    return kinds


def _warnings(encoder: native.Tokenizer, data: TokenizerData, pre: str) -> list[str]:
    found = []
    if data.model == "bpe" and not data.pre and pre == DEFAULT_PRE:
        found.append(
            "the model file names no pre-tokenizer (tokenizer.ggml.pre): token ids may differ from "
            "those that the model was trained on; name the right one with pre=..."
        )
    if encoder.num_dead_merges:
        found.append(f"{encoder.num_dead_merges} merges name pieces outside the vocabulary")
    if encoder.num_missing_bytes and data.unknown_id is None:
        found.append(
            f"{encoder.num_missing_bytes} of 256 bytes have no token: text with them loses them"
        )
    return found
