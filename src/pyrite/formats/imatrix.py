"""Importance of columns: the mean square of each matrix's inputs over a text, from and to files.

Files are llama.cpp's: GGUF with the tensors NAME.in_sum2 (sums of squares, a row for each matrix
of a stack) and NAME.counts (tokens of each); the older binary layout is read too. Which columns
matter, and what is done with it, is unknown here.

Source: llama.cpp's `imatrix.cpp` and `quantize.cpp`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pyrite.errors import FormatError
from pyrite.formats.cursor import Cursor
from pyrite.formats.gguf import GgufFile, read_gguf
from pyrite.formats.gguf_tensors import TensorPlace
from pyrite.formats.gguf_writer import TensorSpec, write_gguf
from pyrite.formats.mapping import map_file
from pyrite.formats.metadata import integer, strings
from pyrite.records import dataclass

Floats = NDArray[np.float32]

SUMS, COUNTS = ".in_sum2", ".counts"
MAX_ENTRIES = 1 << 16
MAX_COLUMNS = 1 << 28  # of an entry, all matrices of a stack together


@dataclass(frozen=True, slots=True)
class Sums:
    """Of one tensor's inputs: sums of squares, and how many tokens went in."""

    squares: Floats  # (matrices, columns)
    counts: Floats  # (matrices,)

    def means(self) -> Floats:
        """What is known of no token counts 1 for every column. (matrices, columns)"""
        counts = self.counts[:, None]
        means: Floats = np.where(counts > 0, self.squares / np.maximum(counts, 1), np.float32(1))
        return means


@dataclass(frozen=True, slots=True)
class Importance:
    path: Path
    datasets: tuple[str, ...]
    num_chunks: int
    chunk_tokens: int
    entries: Mapping[str, Sums]  # by the name of the matrix


def read_importance(path: Path) -> Importance:
    """Raises FormatError for what is neither layout, or holds numbers that cannot be."""
    data = map_file(path)
    if data[:4].tobytes() != b"GGUF":
        return _read_binary(path, data)
    file = read_gguf(path)
    if file.metadata.get("general.type") != "imatrix":
        raise FormatError(
            f"{path.name} is a GGUF file, but of no importance matrix: general.type is "
            f"{file.metadata.get('general.type')!r}",
            hint="pyrite imatrix MODEL TEXT -o FILE makes one",
        )
    table = strings(file.metadata, "imatrix.datasets")
    return Importance(
        path,
        tuple(table[index].decode(errors="replace") for index in range(len(table))),
        integer(file.metadata, "imatrix.chunk_count", 0, 2**32 - 1),
        integer(file.metadata, "imatrix.chunk_size", 0, 2**32 - 1),
        _entries(file),
    )


def write_importance(found: Importance) -> None:
    """Writes to `found.path`, by way of another name."""
    specs, values = [], {}
    for name, sums in found.entries.items():
        matrices, columns = sums.squares.shape
        specs.append(TensorSpec(name + SUMS, "F32", (matrices, columns)))
        specs.append(TensorSpec(name + COUNTS, "F32", (matrices, 1)))
        values[name + SUMS], values[name + COUNTS] = sums.squares, sums.counts
    metadata = {
        "general.type": "imatrix",
        "imatrix.datasets": list(found.datasets),
        "imatrix.chunk_count": np.uint32(found.num_chunks),
        "imatrix.chunk_size": np.uint32(found.chunk_tokens),
    }
    partial = found.path.with_name(found.path.name + ".partial")
    try:
        write_gguf(
            partial,
            metadata,
            specs,
            lambda spec: np.ascontiguousarray(values[spec.name], np.float32).view(np.uint8).ravel(),
        )
        partial.replace(found.path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _entries(file: GgufFile) -> dict[str, Sums]:
    places = {place.name: place for place in file.tensors}
    entries = {}
    for name, place in places.items():
        if not name.endswith(SUMS):
            continue
        bare = name.removesuffix(SUMS)
        if bare + COUNTS not in places:
            raise FormatError(f"{file.path.name}: {name} has no {bare + COUNTS} beside it")
        squares = _floats(file, place).reshape(-1, place.shape[-1])
        counts = _floats(file, places[bare + COUNTS]).reshape(-1)
        entries[bare] = _checked(file.path, bare, squares, counts)
    if not entries:
        raise FormatError(f"{file.path.name} holds no importance of any tensor")
    return entries


def _floats(file: GgufFile, place: TensorPlace) -> Floats:
    if place.type != "F32":
        raise FormatError(f"{file.path.name}: {place.name} has type {place.type}: must be F32")
    return file.data[place.start : place.end].view(np.float32)


def _checked(path: Path, name: str, squares: Floats, counts: Floats) -> Sums:
    if len(counts) != len(squares):
        problem = f"{len(squares)} rows of sums, and {len(counts)} counts"
        raise FormatError(f"{path.name}: {name} has {problem}")
    for values in (squares, counts):
        if not np.isfinite(values).all() or (values < 0).any():
            problem = "is no importance: it holds a number that is negative or not finite"
            raise FormatError(f"{path.name}: {name} {problem}")
    return Sums(squares, counts)


def _read_binary(path: Path, data: NDArray[np.uint8]) -> Importance:
    """Count, then for each tensor: name, calls, number of values, sums over calls; then a trailer
    of the number of chunks and the name of the text, which the oldest files lack."""
    cursor = Cursor(data, path.name)
    count = int(cursor.number("i", "number of entries"))
    if not 1 <= count <= MAX_ENTRIES:
        raise FormatError(
            f"{path.name} is no importance matrix: it would hold {count} entries",
            hint="pyrite imatrix MODEL TEXT -o FILE makes one",
        )
    entries = dict(_binary_entry(path, cursor, index) for index in range(count))
    if cursor.offset == len(data):
        return Importance(path, (), 0, 0, entries)
    chunks = int(cursor.number("i", "number of chunks"))
    size = _bounded(path, "length of the text's name", cursor.number("i", "length"), 0, 1 << 16)
    text = _text(cursor, size, "name of the text")
    return Importance(path, (text,), max(0, chunks), 0, entries)


def _binary_entry(path: Path, cursor: Cursor, index: int) -> tuple[str, Sums]:
    field = f"entry {index}"
    size = _bounded(path, f"length of {field}", cursor.number("i", field), 1, 1 << 10)
    name = _text(cursor, size, f"name of {field}")
    calls = _bounded(path, f"calls of {name}", cursor.number("i", field), 0, 2**31 - 1)
    columns = _bounded(path, f"columns of {name}", cursor.number("i", field), 1, MAX_COLUMNS)
    values = np.array(cursor.array("f", columns, f"values of {name}"), np.float32)
    return name, _checked(path, name, values[None], np.array([calls], np.float32))


def _text(cursor: Cursor, size: int, field: str) -> str:
    start = cursor.take(size, field)
    return cursor.data[start : start + size].tobytes().decode(errors="replace")


def _bounded(path: Path, what: str, number: int | float, low: int, high: int) -> int:
    if not low <= number <= high:
        raise FormatError(f"{path.name}: {what} is {number}: must be {low} to {high}")
    return int(number)
