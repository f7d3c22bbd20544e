"""Writer of GGUF files: metadata, the table of tensors, and their data, which comes one at a time.

The header is made as a list of fields, so that tests can change one of them. Whether a model makes
sense is unknown here.

Source: the GGUF specification, version 3.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pyrite.formats.checkpoint import StringTable
from pyrite.quant.formats import FORMATS, bytes_per_row

ALIGNMENT = 32
LARGE_TABLE = 4096  # strings: with fewer, tests change one of them
STRING, ARRAY, BOOL = 8, 9, 7
NUMBER_TYPES = {  # NumPy's type -> value type in the file
    "uint8": 0,
    "int8": 1,
    "uint16": 2,
    "int16": 3,
    "uint32": 4,
    "int32": 5,
    "float32": 6,
    "bool": BOOL,
    "uint64": 10,
    "int64": 11,
    "float64": 12,
}

Kind = Literal[
    "magic",
    "version",
    "count",
    "length",
    "type",
    "text",
    "number",
    "rank",
    "size",
    "offset",
    "pad",
    "table",
]


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a header: what it is of, what it says, and its bytes."""

    name: str
    kind: Kind
    data: bytes


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """`shape` is row-major; the last size is a multiple of the type's block."""

    name: str
    type: str
    shape: tuple[int, ...]

    @property
    def num_bytes(self) -> int:
        return int(np.prod(self.shape[:-1], dtype=np.int64)) * bytes_per_row(
            self.type, self.shape[-1]
        )


def write_gguf(
    path: Path,
    metadata: Mapping[str, Any],
    tensors: Sequence[TensorSpec],
    values: Callable[[TensorSpec], NDArray[np.uint8]],
) -> None:
    """Writes a file; `values` gives each tensor's bytes when its turn comes.

    Python's numbers are written as uint32 (int32 when negative, 64 bits wide where they must be)
    and as float32; NumPy's keep their type.
    """
    with path.open("wb") as file:
        file.write(b"".join(field.data for field in header_fields(metadata, tensors)))
        for tensor in tensors:
            data = values(tensor)
            assert data.nbytes == tensor.num_bytes, tensor
            file.write(data.data)
            file.write(bytes(-data.nbytes % ALIGNMENT))


def header_fields(metadata: Mapping[str, Any], tensors: Sequence[TensorSpec]) -> list[Field]:
    """Everything before the data, in order, padding included."""
    fields = [
        Field("magic", "magic", b"GGUF"),
        Field("version", "version", struct.pack("<I", 3)),
        Field("number of tensors", "count", struct.pack("<Q", len(tensors))),
        Field("number of keys", "count", struct.pack("<Q", len(metadata))),
    ]
    for key, value in metadata.items():
        fields += _string(key, key.encode())
        fields += _value(key, value)
    offset = 0
    for tensor in tensors:
        fields += _table_row(tensor, offset)
        offset += -(-tensor.num_bytes // ALIGNMENT) * ALIGNMENT
    size = sum(len(field.data) for field in fields)
    fields.append(Field("padding", "pad", bytes(-size % ALIGNMENT)))
    return fields


def _table_row(tensor: TensorSpec, offset: int) -> list[Field]:
    name = tensor.name
    sizes = tensor.shape[::-1]
    return [
        *_string(name, name.encode()),
        Field(name, "rank", struct.pack("<I", len(sizes))),
        *(Field(name, "size", struct.pack("<Q", size)) for size in sizes),
        Field(name, "type", struct.pack("<I", _number(tensor.type))),
        Field(name, "offset", struct.pack("<Q", offset)),
    ]


def _number(name: str) -> int:
    number = FORMATS[name].number
    assert number is not None, f"GGUF has no {name}"
    return number


def _value(key: str, value: Any) -> list[Field]:
    number, body = _typed(key, value)
    return [Field(key, "type", struct.pack("<I", number)), *body]


def _typed(key: str, value: Any) -> tuple[int, list[Field]]:
    """A value's type number, and its fields without it."""
    if isinstance(value, str | bytes):
        return STRING, _string(key, value if isinstance(value, bytes) else value.encode())
    if isinstance(value, list | StringTable):
        return ARRAY, _list(key, value)
    if isinstance(value, np.ndarray):
        count = Field(key, "count", struct.pack("<Q", len(value)))
        return ARRAY, [
            *_item_type(key, NUMBER_TYPES[value.dtype.name]),
            count,
            _numbers(key, value),
        ]
    item = _as_numpy(value)
    return NUMBER_TYPES[item.dtype.name], [_numbers(key, item)]


def _list(key: str, items: list[Any] | StringTable) -> list[Field]:
    """An array of strings, or of arrays. A large table that lies as in a file is one field."""
    if isinstance(items, StringTable) and (stored := _as_stored(items)) is not None:
        count = Field(key, "count", struct.pack("<Q", len(items)))
        return [*_item_type(key, STRING), count, Field(key, "table", stored)]
    bodies = [_typed(key, items[index]) for index in range(len(items))]
    number = bodies[0][0] if bodies else STRING
    count = Field(key, "count", struct.pack("<Q", len(bodies)))
    return [*_item_type(key, number), count, *(field for _, body in bodies for field in body)]


def _as_stored(table: StringTable) -> bytes | None:
    """The bytes of a large table in whose buffer each string follows its length, as in a file."""
    if len(table) < LARGE_TABLE or table.starts[0] < 8:
        return None
    ends = table.starts + table.lengths
    if not np.array_equal(table.starts[1:], ends[:-1] + 8):
        return None
    places = (table.starts - 8)[:, None] + np.arange(8)
    told = np.ascontiguousarray(table.data[places]).view("<u8")[:, 0]
    if not np.array_equal(told, table.lengths.astype(np.uint64)):
        return None
    return table.data[table.starts[0] - 8 : ends[-1]].tobytes()


def _item_type(key: str, number: int) -> list[Field]:
    return [Field(key, "type", struct.pack("<I", number))]


def _string(name: str, data: bytes) -> list[Field]:
    return [
        Field(name, "length", struct.pack("<Q", len(data))),
        Field(name, "text", data),
    ]


def _numbers(key: str, values: NDArray[Any] | np.generic) -> Field:
    return Field(key, "number", values.tobytes())


def _as_numpy(value: Any) -> np.generic:
    if isinstance(value, np.generic):
        return value
    if isinstance(value, bool):
        return np.bool_(value)
    if isinstance(value, float):
        return np.float32(value)
    if value < 0:
        return np.int32(value) if value >= -(1 << 31) else np.int64(value)
    return np.uint32(value) if value < 1 << 32 else np.uint64(value)
