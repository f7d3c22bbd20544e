"""Reader of a hub folder: config.json, and safetensors files as mapped views.

The reader is our own, because the `safetensors` library gives NumPy no bfloat16 and copies every
tensor it gives; here a tensor is a view of the mapped file, like GGUF's. Checked before use: the
header's length, that the tensors' bytes follow one another and fill the file, and that each has the
size of its shape. What an architecture does with its tensors is unknown here.

Source: the safetensors format description.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyrite.errors import FormatError, UnsupportedError
from pyrite.formats.checkpoint import INDEX, POOLING, Checkpoint, Tensor
from pyrite.formats.cursor import TRUNCATED
from pyrite.formats.folder import inside, optional_json, weight_files
from pyrite.formats.folder_text import read_text
from pyrite.formats.foreign import advice, appearance
from pyrite.formats.json_file import parse_object, read_json
from pyrite.formats.mapping import map_file
from pyrite.formats.metadata import string
from pyrite.formats.sampling_hints import folder_hints
from pyrite.formats.sentence import read_pooling

MAX_HEADER_BYTES = 1 << 24
MAX_DIMENSIONS = 8
ITEM_BYTES = {  # types that the format knows; FORMATS spells the ones it has the same way
    "BOOL": 1,
    "U8": 1,
    "I8": 1,
    "F8_E5M2": 1,
    "F8_E4M3": 1,
    "I16": 2,
    "U16": 2,
    "F16": 2,
    "BF16": 2,
    "I32": 4,
    "U32": 4,
    "F32": 4,
    "I64": 8,
    "U64": 8,
    "F64": 8,
}


@dataclass(frozen=True, slots=True)
class Entry:
    """Bytes start : end of the file, which are those of the shape and type."""

    name: str
    type: str
    shape: tuple[int, ...]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class SafetensorsFile:
    path: Path
    data: NDArray[np.uint8]  # (bytes,) the mapped file
    entries: tuple[Entry, ...]


def open_safetensors(folder: Path) -> Checkpoint:
    """Opens a folder of the hub's layout. Raises FormatError, UnsupportedError.

    `metadata` is config.json's, with generation_config.json's object under "generation_config"
    (empty when there is none): both may state stop tokens; and POOLING in a folder for vectors.
    """
    metadata = read_json(inside(folder, "config.json"))
    architecture = _architecture(metadata)
    metadata["generation_config"] = optional_json(folder, "generation_config.json") or {}
    if (pooling := read_pooling(folder)) is not None:
        metadata[POOLING] = pooling
    paths, index = weight_files(folder)
    files = tuple(read_safetensors(path) for path in paths)
    if index is not None:
        _check_index(files, index)
    text = read_text(folder, metadata)
    return Checkpoint(
        path=folder,
        format="safetensors",
        architecture=architecture,
        metadata=metadata,
        tensors=tensors_of(files),
        tokenizer=text.tokenizer,
        chat_template=text.templates.get("default"),
        chat_templates=text.templates,
        sampling=folder_hints(metadata["generation_config"]),
        files=paths,
        num_bytes=sum(len(file.data) for file in files),
    )


def read_safetensors(path: Path) -> SafetensorsFile:
    """Reads and checks one file's header. Raises FormatError, UnsupportedError."""
    data = map_file(path)
    data_start = _data_start(path, data)
    header = parse_object(data[8:data_start].tobytes(), f"{path.name}: the header")
    header.pop("__metadata__", None)
    entries = tuple(_entry(path, name, fields, data_start) for name, fields in header.items())
    _check_layout(path, entries, data_start, len(data))
    return SafetensorsFile(path, data, entries)


def _architecture(metadata: Mapping[str, Any]) -> str:
    try:
        return string(metadata, "model_type")
    except FormatError as error:
        hint = "it is no model's, or was changed: take the one that came with the weights"
        raise FormatError(f"config.json: {error.message}", hint=hint) from None


def _data_start(path: Path, data: NDArray[np.uint8]) -> int:
    start = data[:512].tobytes()
    if start[8:9] != b"{":
        looks_like = appearance(start, len(data))
        raise FormatError(
            f"{path.name}: not a safetensors file: it looks like {looks_like}",
            hint=advice(looks_like),
        )
    length = int.from_bytes(start[:8], "little")
    if length > len(data) - 8:
        problem = f"the header says it has {length} bytes, and {len(data) - 8} follow"
        raise FormatError(f"{path.name}: {problem}", hint=TRUNCATED)
    if length > MAX_HEADER_BYTES:
        problem = f"the header has {length} bytes: at most {MAX_HEADER_BYTES} are read"
        raise FormatError(f"{path.name}: {problem}")
    return 8 + length


def _entry(path: Path, name: str, fields: Any, data_start: int) -> Entry:
    """One row of the header. The offsets in it count from `data_start`."""
    field = f"{path.name}: tensor {name!r}"
    if not isinstance(fields, dict) or not fields.keys() >= {"dtype", "shape", "data_offsets"}:
        raise FormatError(f"{field}: needs dtype, shape and data_offsets")
    kind, shape = fields["dtype"], fields["shape"]
    if not isinstance(kind, str) or kind not in ITEM_BYTES:
        raise UnsupportedError(f"{field} has the unknown type {str(kind)[:40]!r}")
    if not _naturals(shape) or len(shape) > MAX_DIMENSIONS or 0 in shape:
        raise FormatError(
            f"{field}: shape {str(shape)[:80]}: must be up to {MAX_DIMENSIONS} sizes above 0"
        )
    offsets = fields["data_offsets"]
    if not _naturals(offsets) or len(offsets) != 2:
        raise FormatError(f"{field}: data_offsets {str(offsets)[:80]}: must be two positions")
    start, end = offsets
    size = math.prod(shape) * ITEM_BYTES[kind]
    if end - start != size:
        problem = f"bytes {start} to {end} are not the {size} of {kind} {shape}"
        raise FormatError(f"{field}: {problem}")
    return Entry(name, kind, tuple(shape) or (1,), data_start + start, data_start + end)


def _naturals(value: Any) -> bool:
    return isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)


def _check_layout(path: Path, entries: Sequence[Entry], data_start: int, size: int) -> None:
    """The tensors' bytes follow one another and fill the file, as the format demands."""
    end, before = data_start, "the header"
    for entry in sorted(entries, key=lambda entry: (entry.start, entry.end)):
        if entry.start != end:
            relation = "overlap" if entry.start < end else "leave a gap after"
            problem = f"bytes {entry.start} to {entry.end} {relation} {before}, which ends at {end}"
            raise FormatError(f"{path.name}: tensor {entry.name!r}: {problem}")
        if entry.end > size:
            problem = f"bytes {entry.start} to {entry.end} run past the end at {size}"
            raise FormatError(f"{path.name}: tensor {entry.name!r}: {problem}", hint=TRUNCATED)
        end, before = entry.end, f"tensor {entry.name!r}"
    if end != size:
        raise FormatError(f"{path.name}: bytes {end} to {size}: nothing accounts for them")


def _check_index(files: Sequence[SafetensorsFile], index: Mapping[str, str]) -> None:
    """Each tensor lies in the file that the index names, and in no other."""
    found = {(entry.name, file.path.name) for file in files for entry in file.entries}
    for name, file_name in index.items():
        if (name, file_name) not in found:
            raise FormatError(f"{INDEX} names tensor {name!r} in {file_name}, which lacks it")
    for name, file_name in sorted(found):
        if index.get(name) != file_name:
            raise FormatError(f"{file_name} holds tensor {name!r}, and {INDEX} does not say so")


def tensors_of(files: Sequence[SafetensorsFile]) -> dict[str, Tensor]:
    """Under the file's own names and types: which are executed is the architecture's business."""
    found: dict[str, Tensor] = {}
    for file in files:
        for entry in file.entries:
            if entry.name in found:
                raise FormatError(f"{file.path.name}: tensor {entry.name} occurs twice")
            data = file.data[entry.start : entry.end]
            found[entry.name] = Tensor(entry.name, entry.type, entry.shape, data)
    return found
