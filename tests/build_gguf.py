"""GGUF files for tests: small ones, ones made from a golden file, and ones with a field changed."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pyrite.formats.gguf import read_gguf
from pyrite.formats.gguf_writer import ALIGNMENT, Field, TensorSpec, header_fields

METADATA: dict[str, Any] = {"general.architecture": "llama", "llama.block_count": 2, "x.name": "n"}
TENSORS = (TensorSpec("first", "F32", (2, 8)), TensorSpec("second", "Q8_0", (3, 32)))
VOCABULARY = {
    "tokenizer.ggml.model": "llama",
    "tokenizer.ggml.tokens": ["<unk>", "<s>", "</s>", "a"],
    "tokenizer.ggml.scores": np.zeros(4, np.float32),
    "tokenizer.ggml.token_type": np.array([2, 3, 3, 1], np.int32),
}
ABSENT = object()

Edit = Callable[[list[Field]], list[Field]]


def join(fields: Sequence[Field]) -> bytes:
    return b"".join(field.data for field in fields)


def tensor_data(tensors: Sequence[TensorSpec]) -> bytes:
    """Zeros, with one byte in each tensor that tells it from the others."""
    parts = []
    for index, tensor in enumerate(tensors):
        data = bytes([index + 1]) + bytes(tensor.num_bytes - 1)
        parts.append(data + bytes(-len(data) % ALIGNMENT))
    return b"".join(parts)


def build(
    metadata: dict[str, Any] | None = None,
    tensors: Sequence[TensorSpec] = TENSORS,
    edit: Edit = list,
) -> bytes:
    """A file with METADATA and `metadata` (ABSENT takes a key out), its header edited."""
    merged = METADATA | (metadata or {})
    keys = {key: value for key, value in merged.items() if value is not ABSENT}
    return join(edit(header_fields(keys, tensors))) + tensor_data(tensors)


def write(path: Path, *arguments: Any, **named: Any) -> Path:
    path.write_bytes(build(*arguments, **named))
    return path


def put(name: str, kind: str, value: int | bytes, index: int = 0) -> Edit:
    """Replaces the `index`-th field of this name and kind; a number keeps the field's width."""

    def edit(fields: list[Field]) -> list[Field]:
        at = [i for i, f in enumerate(fields) if (f.name, f.kind) == (name, kind)][index]
        width = {4: "<I", 8: "<Q"}.get(len(fields[at].data), "")
        data = value if isinstance(value, bytes) else struct.pack(width, value % (1 << 64))
        return [*fields[:at], Field(name, fields[at].kind, data), *fields[at + 1 :]]

    return edit


def golden_fields(path: Path) -> tuple[list[Field], bytes]:
    """The header of a file, field by field, and the data behind it."""
    file = read_gguf(path)
    specs = [TensorSpec(place.name, place.type, place.shape) for place in file.tensors]
    fields = header_fields(file.metadata, specs)
    whole = path.read_bytes()
    assert whole.startswith(join(fields)), "the writer gives the very bytes of the golden file"
    return fields, whole[len(join(fields)) :]


def copy_with(
    source: Path,
    target: Path,
    *,
    keys: dict[str, Any] | None = None,
    rename: dict[str, str] | None = None,
    shapes: dict[str, tuple[int, ...]] | None = None,
    extra: Sequence[TensorSpec] = (),
) -> Path:
    """Writes a model again with other keys (ABSENT: without), tensor names and shapes."""
    file = read_gguf(source)
    merged = {**file.metadata, **(keys or {})}
    specs, data = [], []
    for place in file.tensors:
        name = (rename or {}).get(place.name, place.name)
        specs.append(TensorSpec(name, place.type, (shapes or {}).get(place.name, place.shape)))
        data.append(file.data[place.start : place.end])
    specs += extra
    data += [np.zeros(spec.num_bytes, np.uint8) for spec in extra]
    kept = {key: value for key, value in merged.items() if value is not ABSENT}
    with target.open("wb") as output:
        output.write(join(header_fields(kept, specs)))
        for values in data:
            output.write(values.tobytes() + bytes(-len(values) % ALIGNMENT))
    return target


def split(source: Path, folder: Path, sizes: Sequence[int], stem: str = "model") -> list[Path]:
    """Writes a model in parts of so many tensors; only the first holds the metadata."""
    file = read_gguf(source)
    paths, start = [], 0
    for number, size in enumerate(sizes):
        places = file.tensors[start : start + size]
        start += size
        keys = {
            "split.no": np.uint16(number),
            "split.count": np.uint16(len(sizes)),
            "split.tensors.count": np.int32(len(file.tensors)),
        }
        specs = [TensorSpec(place.name, place.type, place.shape) for place in places]
        metadata = {**file.metadata, **keys} if number == 0 else keys
        data = [file.data[place.start : place.end].tobytes() for place in places]
        body = b"".join(part + bytes(-len(part) % ALIGNMENT) for part in data)
        path = folder / f"{stem}-{number + 1:05d}-of-{len(sizes):05d}.gguf"
        path.write_bytes(join(header_fields(metadata, specs)) + body)
        paths.append(path)
    return paths
