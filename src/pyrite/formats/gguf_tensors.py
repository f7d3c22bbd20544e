"""Where the tensors of a GGUF file lie: the tensor table, checked against the file's size.

After this, every tensor's bytes are inside the file, aligned, and its own. Types that are known but
not executed are placed like any other, so that a file can be listed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pyrite.errors import FormatError, UnsupportedError
from pyrite.formats.cursor import TRUNCATED, Cursor
from pyrite.formats.metadata import Metadata, integer
from pyrite.quant.formats import FORMATS_BY_NUMBER, REMOVED, Format
from pyrite.records import dataclass

MAX_TENSORS = 1 << 16
MAX_DIMENSIONS = 4
MAX_ALIGNMENT = 1 << 24
DEFAULT_ALIGNMENT = 32


@dataclass(frozen=True, slots=True)
class TensorPlace:
    """Bytes start : start + size of the file. `shape` is row-major, the file's order reversed."""

    name: str
    type: str
    shape: tuple[int, ...]
    start: int
    size: int

    @property
    def end(self) -> int:
        return self.start + self.size


def read_tensors(cursor: Cursor, count: int, metadata: Metadata) -> tuple[TensorPlace, ...]:
    """Reads the table at the cursor and checks the layout of the data behind it.

    Raises FormatError naming the tensor and its bytes, UnsupportedError for an unknown type.
    """
    alignment = _alignment(cursor, metadata)
    entries = [_entry(cursor, index, count) for index in range(count)]
    data_start = _aligned(cursor.offset, alignment)
    places = tuple(_placed(cursor, entry, data_start, alignment) for entry in entries)
    _check_names(cursor, places)
    _check_layout(cursor, places, data_start, alignment)
    return places


def _alignment(cursor: Cursor, metadata: Metadata) -> int:
    key = "general.alignment"
    try:
        value = integer(metadata, key, 8, MAX_ALIGNMENT, default=DEFAULT_ALIGNMENT)
    except FormatError as error:
        raise FormatError(f"{cursor.name}: {error.message}") from None
    if value & (value - 1):
        raise cursor.fail(key, f"{value} is not a power of two")
    return value


def _aligned(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment


def _entry(cursor: Cursor, index: int, count: int) -> TensorPlace:
    """One row of the table; `start` is still relative to the data section."""
    name = cursor.identifier(f"name of tensor {index} of {count}")
    shape = _shape(cursor, name)
    row = _format(cursor, name)
    offset = int(cursor.number("Q", f"offset of tensor {name}"))
    if shape[-1] % row.block_columns:
        problem = f"rows of {shape[-1]} values; {row.name} stores blocks of {row.block_columns}"
        raise cursor.fail(f"tensor {name}", problem)
    size = math.prod(shape) // row.block_columns * row.block_bytes
    return TensorPlace(name, row.name, shape, offset, size)


def _shape(cursor: Cursor, name: str) -> tuple[int, ...]:
    rank = int(cursor.number("I", f"number of dimensions of tensor {name}"))
    if not 1 <= rank <= MAX_DIMENSIONS:
        problem = f"{rank}: must be 1 to {MAX_DIMENSIONS}"
        raise cursor.fail(f"number of dimensions of tensor {name}", problem)
    field = f"dimensions of tensor {name}"
    dimensions = tuple(int(cursor.number("Q", field)) for _ in range(rank))
    if not all(1 <= dimension < 1 << 63 for dimension in dimensions):
        raise cursor.fail(field, f"{list(dimensions)}: each must be 1 to 2^63 - 1")
    return dimensions[::-1]


def _format(cursor: Cursor, name: str) -> Format:
    number = int(cursor.number("I", f"type of tensor {name}"))
    if number in FORMATS_BY_NUMBER:
        return FORMATS_BY_NUMBER[number]
    removed = f" ({REMOVED[number]}, withdrawn from GGUF)" if number in REMOVED else ""
    raise UnsupportedError(
        f"{cursor.name}: tensor {name} has type number {number}{removed}, which is not known here",
        hint="convert the model again" if removed else "the file may be newer than this program",
    )


def _placed(cursor: Cursor, entry: TensorPlace, data_start: int, alignment: int) -> TensorPlace:
    start = data_start + entry.start
    field = f"tensor {entry.name}"
    if entry.start % alignment:
        raise cursor.fail(field, f"offset {entry.start} is not a multiple of {alignment}")
    if start + entry.size > len(cursor.data):
        problem = f"bytes {start} to {start + entry.size} run past the end at {len(cursor.data)}"
        raise cursor.fail(field, problem, TRUNCATED)
    return TensorPlace(entry.name, entry.type, entry.shape, start, entry.size)


def _check_names(cursor: Cursor, places: Sequence[TensorPlace]) -> None:
    seen: set[str] = set()
    for place in places:
        if place.name in seen:
            raise cursor.fail(f"tensor {place.name}", "occurs twice")
        seen.add(place.name)


def _check_layout(
    cursor: Cursor, places: Sequence[TensorPlace], data_start: int, alignment: int
) -> None:
    """No byte belongs to two tensors, and nothing but padding follows the last one."""
    end, before = data_start, ""
    for place in sorted(places, key=lambda place: place.start):
        if place.start < end:
            problem = f"bytes {place.start} to {place.end} overlap those of {before} to {end}"
            raise cursor.fail(f"tensor {place.name}", problem)
        end, before = place.end, place.name
    size = len(cursor.data)
    if size <= _aligned(end, alignment):
        return
    follower = cursor.data[_aligned(end, alignment) :][:4].tobytes()
    if follower == b"GGUF":
        raise cursor.fail(
            f"byte {_aligned(end, alignment)}",
            "another GGUF file starts: parts of a split model were joined by concatenation",
            "keep the parts as they were fetched and open any of them",
        )
    what = f"tensor {before}" if before else "the tensor table"
    raise cursor.fail(f"bytes {end} to {size}", f"nothing accounts for them after {what}")
