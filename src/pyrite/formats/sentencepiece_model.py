"""Reader of SentencePiece's tokenizer.model: a protocol buffer of pieces, scores and some switches.

BPE models become `TokenizerData`. What the native tokenizer does not do (Unigram models, texts that
are normalised by a table) is named, and the folder then needs a tokenizer.json. Lengths are bounded
by the file before they are used.

Source: sentencepiece_model.proto, and the encoding of protocol buffers.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from pyrite.errors import FormatError
from pyrite.formats.checkpoint import TokenizerData
from pyrite.formats.json_file import content_of
from pyrite.formats.token_table import (
    BYTE,
    CONTROL,
    MAX_TOKENS,
    NORMAL,
    UNUSED,
    USER,
    string_table,
)
from pyrite.formats.tokenizer_json import TokenizerFile

NAME = "tokenizer.model"
VARINT, WIDE, BYTES, NARROW = 0, 1, 2, 5  # kinds of fields
PIECES, TRAINER, NORMALIZER = 1, 2, 3  # fields of the model
BPE = 2  # of the trainer's model types: Unigram, BPE, Word, Char
TYPE_NAMES = {1: "Unigram", 3: "Word", 4: "Char"}

Value = int | bytes


def read_sentencepiece(path: Path, added: Mapping[int, tuple[str, bool]]) -> TokenizerFile:
    """`added`: text, and whether it is special, by id; of tokens that other files add.

    Raises FormatError. What is not known is named in the data, which has no tokens then.
    """
    content = content_of(path)
    if not content.startswith(b"\n"):  # the first piece
        return _unknown("a tokenizer.model that is not SentencePiece's")
    pieces: list[bytes] = []
    trainer: dict[int, Value] = {}
    normalizer: dict[int, Value] = {}
    for field, value in fields(content):
        if field == PIECES and isinstance(value, bytes):
            pieces.append(value)
        elif field == TRAINER and isinstance(value, bytes):
            trainer = dict(fields(value))
        elif field == NORMALIZER and isinstance(value, bytes):
            normalizer = dict(fields(value))
    if not 0 < len(pieces) <= MAX_TOKENS:
        raise FormatError(f"{NAME} has {len(pieces)} pieces: must be 1 to {MAX_TOKENS}")
    unknown = _unknown_part(trainer, normalizer)
    if unknown:
        return _unknown(unknown)
    table = Table(pieces)
    for token_id, (text, special) in sorted(added.items()):
        table.add(token_id, text, special=special)
    return _file(table, trainer, bool(normalizer.get(3, 1)))


def _unknown_part(trainer: Mapping[int, Value], normalizer: Mapping[int, Value]) -> str:
    kind = trainer.get(3, 1)
    if kind != BPE:
        return f"a SentencePiece model of type {TYPE_NAMES.get(int(kind or 0), kind)}"
    if normalizer.get(2):
        return "a SentencePiece model that normalizes text by a table"
    if normalizer.get(4, 1):
        return "a SentencePiece model that leaves spaces away"
    return "" if normalizer.get(5, 1) else "a SentencePiece model that keeps spaces as they are"


class Table:
    """Pieces by id: text, score and type."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self.texts: list[str] = []
        self.scores: list[float] = []
        self.types: list[int] = []
        for index, content in enumerate(pieces):
            piece = dict(fields(content))
            self.texts.append(_text(piece.get(1, b""), index))
            self.scores.append(_score(piece.get(2, b"\0\0\0\0"), index))
            self.types.append(_number(piece.get(3, NORMAL), "type", NORMAL, BYTE))

    def add(self, token_id: int, text: str, *, special: bool) -> None:
        _number(token_id, "the id of an added token", 0, MAX_TOKENS - 1)
        missing = token_id + 1 - len(self.texts)
        self.texts += [""] * missing
        self.scores += [0.0] * missing
        self.types += [UNUSED] * missing
        if self.texts[token_id] not in ("", text):
            known = f"which is {self.texts[token_id][:40]!r} there"
            raise FormatError(f"{NAME}: the added token {text[:40]!r} has id {token_id}, {known}")
        self.texts[token_id] = text
        if self.types[token_id] in (NORMAL, UNUSED):
            self.types[token_id] = CONTROL if special else USER


def _file(table: Table, trainer: Mapping[int, Value], add_space_prefix: bool) -> TokenizerFile:
    ids = {name: _id(trainer, field, unset, len(table.texts)) for name, field, unset in NAMED}
    bos_id, eos_id = ids["bos"], ids["eos"]
    data = TokenizerData(
        model="spm",
        pre=None,
        tokens=string_table(table.texts),
        types=np.array(table.types, np.int32),
        scores=np.array(table.scores, np.float32),
        merges=None,
        bos_id=bos_id,
        eos_ids=() if eos_id is None else (eos_id,),
        unknown_id=ids["unknown"],
        padding_id=ids["padding"],
        add_space_prefix=add_space_prefix,
    )
    named = {text: token_id for token_id, text in enumerate(table.texts)}
    return TokenizerFile(data, named.get, () if bos_id is None else (bos_id,))


NAMED = (("unknown", 40, 0), ("bos", 41, 1), ("eos", 42, 2), ("padding", 43, -1))


def _id(trainer: Mapping[int, Value], field: int, unset: int, count: int) -> int | None:
    """A negative number, as a protocol buffer has it, means that there is none."""
    value = trainer.get(field, unset)
    if value == -1 or (isinstance(value, int) and value >= 1 << 31):
        return None
    return _number(value, "token id", 0, count - 1)


def _number(value: Value, name: str, low: int, high: int) -> int:
    if not isinstance(value, int) or not low <= value <= high:
        raise FormatError(f"{NAME}: {name} {str(value)[:40]}: must be {low} to {high}")
    return value


def _text(value: Value, index: int) -> str:
    try:
        if isinstance(value, bytes):
            return value.decode()
    except UnicodeDecodeError:
        pass
    raise FormatError(f"{NAME}: piece {index} is not text in UTF-8")


def _score(value: Value, index: int) -> float:
    if isinstance(value, bytes) and len(value) == 4:
        score: float = struct.unpack("<f", value)[0]
        if math.isfinite(score):
            return score
    raise FormatError(f"{NAME}: the score of piece {index} is no finite number")


def fields(content: bytes) -> Iterator[tuple[int, Value]]:
    """(number, value) of a message's fields; numbers of fixed size are given as their bytes."""
    at, end = 0, len(content)
    while at < end:
        key, at = varint(content, at)
        kind = key & 7
        if kind == VARINT:
            value, at = varint(content, at)
            yield key >> 3, value
            continue
        if kind == BYTES:
            size, at = varint(content, at)
        elif kind in (WIDE, NARROW):
            size = 8 if kind == WIDE else 4
        else:
            raise FormatError(f"{NAME}: a field of kind {kind} at byte {at}")
        if size > end - at:
            raise FormatError(f"{NAME}: a field of {size} bytes, and {end - at} follow")
        yield key >> 3, content[at : at + size]
        at += size


def varint(content: bytes, at: int) -> tuple[int, int]:
    """The number at a place, and the place after it."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(content):
            break
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise FormatError(f"{NAME}: a number without an end at byte {at}")


def _unknown(what: str) -> TokenizerFile:
    data = TokenizerData(
        model="library",
        pre=None,
        tokens=string_table([]),
        types=np.zeros(0, np.int32),
        scores=None,
        merges=None,
        unknown=what,
    )
    return TokenizerFile(data, lambda _: None)
