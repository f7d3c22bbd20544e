"""Reader of one GGUF file: its metadata, and where each tensor lies.

The file is mapped, and every count, length and offset in it is compared with the bytes that remain
before it is used. Versions 2 and 3 are read, little and big endian. What keys and tensors mean is
unknown here; parts of a split file are joined by `shards`.

Source: the GGUF specification. It differs from the `gguf` library's reader in that strings stay
where they are, so that 262 thousand tokens cost a millisecond.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyrite._native import text as native
from pyrite.errors import FormatError, UnsupportedError
from pyrite.formats.checkpoint import StringTable
from pyrite.formats.cursor import TRUNCATED, Cursor
from pyrite.formats.foreign import advice, appearance
from pyrite.formats.gguf_tensors import MAX_TENSORS, TensorPlace, read_tensors
from pyrite.formats.mapping import map_file
from pyrite.records import dataclass

VERSIONS = (2, 3)
MAX_KEYS = 1 << 16
MAX_STRING_BYTES = 1 << 24  # of one string value; arrays of strings are not decoded
MAX_DEPTH = 4  # arrays in arrays
MAX_NESTED = 1 << 16  # arrays inside arrays, together

STRING, ARRAY, BOOL = 8, 9, 7
NUMBERS = {  # value type -> struct code, which is NumPy's too
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    BOOL: "B",
    10: "Q",
    11: "q",
    12: "d",
}
LEAST_KEY_BYTES = 8 + 1 + 4 + 1  # length, one character, type, smallest value
LEAST_TENSOR_BYTES = 8 + 1 + 4 + 8 + 4 + 8


@dataclass(frozen=True, slots=True)
class GgufFile:
    """Scalars are Python's, numeric arrays NumPy's, arrays of strings StringTables.

    A string that is not UTF-8 is left as bytes: `metadata.string` refuses it when it is asked for.
    """

    path: Path
    data: NDArray[np.uint8]  # (bytes,) the mapped file
    version: int
    big_endian: bool
    metadata: Mapping[str, Any]
    tensors: tuple[TensorPlace, ...]


def read_gguf(path: Path) -> GgufFile:
    """Reads everything but the tensors' values. Raises FormatError, UnsupportedError."""
    data = map_file(path)
    cursor = Cursor(data, path.name)
    version = _version(cursor)
    num_tensors = cursor.count(
        "Q", "number of tensors", least_bytes=LEAST_TENSOR_BYTES, limit=MAX_TENSORS
    )
    num_keys = cursor.count("Q", "number of keys", least_bytes=LEAST_KEY_BYTES, limit=MAX_KEYS)
    metadata = _Values(cursor).pairs(num_keys)
    tensors = read_tensors(cursor, num_tensors, metadata)
    return GgufFile(path, data, version, cursor.order == ">", metadata, tensors)


def _version(cursor: Cursor) -> int:
    """Checks the magic and finds the byte order: a version's high half is zero in the right one."""
    start = cursor.data[:512].tobytes()
    if not start.startswith(b"GGUF"):
        looks_like = appearance(start, len(cursor.data))
        raise FormatError(
            f"{cursor.name}: not a GGUF file: it looks like {looks_like}", hint=advice(looks_like)
        )
    cursor.take(4, "magic")
    version = int(cursor.number("I", "version"))
    if version & 0xFFFF == 0:
        cursor.order = ">"
        version = int.from_bytes(version.to_bytes(4, "little"), "big")
    if version not in VERSIONS:
        raise UnsupportedError(
            f"{cursor.name}: GGUF version {version}: versions 2 and 3 are read",
            hint="convert the model again with a current converter" if version < 2 else "",
        )
    return version


class _Values:
    """Reads metadata values; counts the nested arrays of the whole file."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.num_nested = 0

    def pairs(self, count: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for index in range(count):
            key = self.cursor.identifier(f"key {index} of {count}")
            if key in found:
                raise self.cursor.fail(f"key {key}", "occurs twice")
            kind = int(self.cursor.number("I", f"type of {key}"))
            found[key] = self.value(kind, key)
        return found

    def value(self, kind: int, key: str) -> Any:
        if kind == STRING:
            return self.text(f"value of {key}")
        if kind == ARRAY:
            return self.array(key, 1)
        code = self.code(kind, key)
        number = self.cursor.number(code, f"value of {key}")
        if kind == BOOL:
            return self.truth(np.array([number]), key)[0].item()
        return number

    def text(self, field: str) -> str | bytes:
        start, size = self.cursor.span(field, MAX_STRING_BYTES)
        data = self.cursor.data[start : start + size].tobytes()
        try:
            return data.decode()
        except UnicodeDecodeError:
            return data

    def array(self, key: str, depth: int) -> Any:
        field = f"array {key}"
        kind = int(self.cursor.number("I", f"type of the items of {key}"))
        if kind == STRING:
            return self.string_table(field)
        if kind == ARRAY:
            return self.nested(key, depth)
        code = self.code(kind, key)
        size = np.dtype(code).itemsize
        count = self.cursor.count("Q", field, least_bytes=size, limit=len(self.cursor.data))
        values = self.cursor.array(code, count, field)
        return self.truth(values, key) if kind == BOOL else values

    def nested(self, key: str, depth: int) -> list[Any]:
        if depth == MAX_DEPTH:
            raise self.cursor.fail(f"array {key}", f"nested more than {MAX_DEPTH} deep")
        left = MAX_NESTED - self.num_nested
        count = self.cursor.count("Q", f"array {key}", least_bytes=12, limit=left)
        self.num_nested += count
        return [self.array(key, depth + 1) for _ in range(count)]

    def string_table(self, field: str) -> StringTable:
        cursor = self.cursor
        count = cursor.count("Q", field, least_bytes=8, limit=len(cursor.data))
        starts, lengths = np.empty(count, np.int64), np.empty(count, np.int32)
        if cursor.order == ">":
            for index in range(count):
                starts[index], lengths[index] = cursor.span(f"string {index} of {field}")
            return StringTable(cursor.data, starts, lengths)
        end = native.scan_strings(cursor.data, cursor.offset, starts, lengths)
        if end < 0:
            problem = f"one of {count} strings from byte {cursor.offset} on runs past the end"
            raise cursor.fail(field, f"{problem} at {len(cursor.data)}", TRUNCATED)
        cursor.offset = end
        return StringTable(cursor.data, starts, lengths)

    def code(self, kind: int, key: str) -> str:
        if kind not in NUMBERS:
            raise self.cursor.fail(f"type of {key}", f"{kind}: value types are 0 to 12")
        return NUMBERS[kind]

    def truth(self, values: NDArray[Any], key: str) -> NDArray[np.bool_]:
        if values.size and values.max() > 1:
            raise self.cursor.fail(f"value of {key}", "a truth value is neither 0 nor 1")
        return values.astype(np.bool_)
