"""From an opened model to a quantized GGUF file, some rows at a time.

A recipe says which type each matrix gets; all else is kept. Memory holds two slabs of rows, however
large the model is. An interrupted run goes on where it was. The model's names and keys have to be
GGUF's; how its tensors are made is unknown here.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyrite.calibration import check_importance, importance_of
from pyrite.errors import ParameterError, TensorError
from pyrite.formats.checkpoint import Checkpoint, Tensor
from pyrite.formats.gguf_partial import PartialGguf
from pyrite.formats.gguf_writer import TensorSpec
from pyrite.formats.imatrix import Importance
from pyrite.formats.mapping import forget
from pyrite.quant import quantize
from pyrite.quant.dequant import dequantize
from pyrite.quant.formats import FLOATS_8, bytes_per_row, require_executed
from pyrite.quant.not_finite import NotFinite, find_in_floats, find_not_finite
from pyrite.quant.recipes import RECIPES, Model, Recipe, attention_layers, is_quantized, type_of
from pyrite.records import dataclass

Floats = NDArray[np.float32]
Progress = Callable[[int, int], None]  # values done, of values

SLAB_VALUES = 1 << 21  # read and quantized at a time: 8 MiB of float32
QUANTIZATION_VERSION = 2  # general.quantization_version: of ggml's block layouts
FLOATS = ("F32", "F16", "BF16", *FLOATS_8)  # GGUF has no floats of 8 bits


@dataclass(frozen=True, slots=True)
class Target:
    """One tensor of the file to be: `importance` is (matrices, columns), or None."""

    source: Tensor
    spec: TensorSpec
    importance: Floats | None = None


@dataclass(frozen=True, slots=True)
class Conversion:
    """What will be written. Made without reading a weight."""

    metadata: Mapping[str, Any]
    targets: tuple[Target, ...]
    fingerprint: str

    @property
    def num_values(self) -> int:
        return sum(target.source.num_rows * target.source.shape[-1] for target in self.targets)

    @property
    def num_bytes(self) -> int:
        return sum(target.spec.num_bytes for target in self.targets)


def find_recipe(name: str) -> Recipe:
    """Raises ParameterError for a name that is no recipe's, whatever its case."""
    if name.lower() not in RECIPES:
        raise ParameterError("type", name, f"one of {', '.join(RECIPES)}")
    return RECIPES[name.lower()]


def plan_conversion(
    checkpoint: Checkpoint,
    recipe: Recipe,
    importance: Importance | None = None,
    *,
    keeps_quantized: bool = False,
) -> Conversion:
    """`keeps_quantized`: the recipe is for floats alone.

    Raises FormatError, UnsupportedError for a type that is only listed.
    """
    model = model_of(checkpoint, importance is not None)
    targets = tuple(
        Target(tensor, TensorSpec(tensor.name, tensor.type, tensor.shape))
        if keeps_quantized and tensor.type not in FLOATS
        else _target(tensor, recipe, model, importance)
        for tensor in checkpoint.tensors.values()
    )
    if importance is not None:
        made = {one.spec.name for one in targets if one.spec.type not in (*FLOATS, one.source.type)}
        check_importance(importance, checkpoint.tensors.keys(), made)
    return Conversion(
        metadata_of(checkpoint, recipe, importance),
        targets,
        fingerprint_of(checkpoint, recipe, importance),
    )


def convert(
    conversion: Conversion,
    out: Path,
    num_threads: int,
    progress: Progress | None = None,
    warn: Callable[[str], None] | None = None,
) -> int:
    """Writes the file; gives the number of tensors that an earlier run had finished. `warn` is told
    what of it has changed since, and is written again.

    Raises TensorError for a value that has no place in its type, CapacityError for a full disk,
    OSError. What was finished is kept beside `out`, and not done again.
    """
    specs = [target.spec for target in conversion.targets]
    done, total = 0, conversion.num_values
    with (
        PartialGguf(out, conversion.metadata, specs, conversion.fingerprint) as file,
        ThreadPoolExecutor(1) as reader,
    ):
        resumed = set(file.finished)
        if file.changed and warn is not None:
            warn(_changed(file))
        for target in conversion.targets:
            for count in _written(file, target, num_threads, reader):
                done += count
                if progress is not None:
                    progress(done, total)
        file.complete()
    return len(resumed)


def _changed(file: PartialGguf) -> str:
    more = f" and {len(file.changed) - 1} more" if len(file.changed) > 1 else ""
    what = file.changed[0] + more
    again = "that is written again" if file.finished else "all is written again"
    return f"{file.partial} is not as it was written ({what} changed since): {again}"


def _written(
    file: PartialGguf, target: Target, num_threads: int, reader: ThreadPoolExecutor
) -> Iterator[int]:
    """Writes a tensor unless it is there; tells of the values of each slab."""
    name, columns = target.spec.name, target.spec.shape[-1]
    if name in file.finished:
        yield target.source.num_rows * columns
        return
    size = bytes_per_row(target.spec.type, columns)
    slabs = list(_slabs(target))
    ahead = reader.submit(_read, target, *slabs[0])
    for index, (first, count) in enumerate(slabs):
        rows = ahead.result()
        if index + 1 < len(slabs):  # is read while this one is quantized
            ahead = reader.submit(_read, target, *slabs[index + 1])
        file.write(name, first * size, _blocks(target, rows, first, num_threads))
        if target.source.make is None:
            forget(target.source.read(first, count))
        yield count * columns
    if target.source.make is not None:
        forget(target.source.data)
    file.finish(name)


def _slabs(target: Target) -> Iterator[tuple[int, int]]:
    """First rows and numbers of rows; none holds rows of two matrices of a stack."""
    source = target.source
    each = source.shape[-2] if len(source.shape) > 1 else 1
    step = max(1, SLAB_VALUES // source.shape[-1])
    for start in range(0, source.num_rows, each):
        for first in range(start, start + each, step):
            yield first, min(step, start + each - first)


def _read(target: Target, first: int, count: int) -> NDArray[Any]:
    """Rows as float32; as they are stored where their type stays. (rows, columns or bytes)"""
    source = target.source
    data = source.read(first, count)
    if source.type == target.spec.type:
        return data.reshape(count, -1)
    return dequantize(data, source.type, (count, source.shape[-1]))


def _blocks(target: Target, rows: NDArray[Any], first: int, num_threads: int) -> NDArray[np.uint8]:
    kind = target.spec.type
    if target.source.type == kind or kind == "F32":
        _require_finite(target, rows, first)
        return rows if rows.dtype == np.uint8 else rows.view(np.uint8)
    importance = None
    if target.importance is not None:
        matrix = first // target.source.shape[-2]
        importance = target.importance[matrix]
    try:
        return quantize.quantize(rows, kind, importance, num_threads, first)
    except TensorError as error:
        _require_finite(target, rows, first)
        raise TensorError(f"tensor {target.spec.name}: {error.message}", hint=error.hint) from None


def _require_finite(target: Target, rows: NDArray[Any], first: int) -> None:
    """Of what was read from row `first` on. When it is broken, all that follows is counted too."""
    found = _not_finite(target, rows)
    if found is None:
        return
    later = [slab for slab in _slabs(target) if slab[0] > first]
    more = (_not_finite(target, _read(target, *slab)) for slab in later)
    count = found.count + sum(one.count for one in more if one is not None)
    raise replace(found, count=count, row=first + found.row).error(target.source.name)


def _not_finite(target: Target, rows: NDArray[Any]) -> NotFinite | None:
    if rows.dtype == np.float32:
        return find_in_floats(rows)
    return find_not_finite(rows, target.source.type, target.source.shape[-1])


def _target(tensor: Tensor, recipe: Recipe, model: Model, importance: Importance | None) -> Target:
    columns = tensor.shape[-1]
    if not is_quantized(tensor.name, tensor.shape):
        kind = "F32" if tensor.type in FLOATS else tensor.type
        return Target(tensor, TensorSpec(tensor.name, kind, tensor.shape))
    require_executed(tensor.type, tensor.name)
    kind = type_of(tensor.name, columns, recipe, model)
    weights = None if importance is None else importance_of(tensor, importance)
    return Target(tensor, TensorSpec(tensor.name, kind, tensor.shape), weights)


def model_of(checkpoint: Checkpoint, has_importance: bool) -> Model:
    """What the recipes look at, by the file's own keys."""
    tensors, metadata = checkpoint.tensors, checkpoint.metadata
    prefix = checkpoint.architecture
    layers = {int(name.split(".")[1]) for name in tensors if name.startswith("blk.")}
    query_heads = _first_of(metadata.get(f"{prefix}.attention.head_count"))
    key_heads = _first_of(metadata.get(f"{prefix}.attention.head_count_kv"))
    return Model(
        num_layers=_first_of(metadata.get(f"{prefix}.block_count")) or len(layers),
        attention_layers=attention_layers(list(tensors)),
        num_experts=_first_of(metadata.get(f"{prefix}.expert_count")),
        query_groups=query_heads // key_heads if key_heads else 1,
        tied="output.weight" not in tensors,
        has_importance=has_importance,
    )


def _first_of(value: Any) -> int:
    """A whole number; of one for each layer, the first that is not 0; else 0."""
    numbers = [value] if isinstance(value, int) else value
    if not isinstance(numbers, np.ndarray | list):
        return 0
    return next(
        (int(number) for number in numbers if isinstance(number, int | np.integer) and number > 0),
        0,
    )


def metadata_of(
    checkpoint: Checkpoint, recipe: Recipe, importance: Importance | None
) -> dict[str, Any]:
    """The model's keys, those of parts left out, with what the file has become."""
    found = {
        key: value
        for key, value in checkpoint.metadata.items()
        if not key.startswith(("split.", "quantize.imatrix."))
    }
    found["general.file_type"] = np.uint32(recipe.file_type)
    found["general.quantization_version"] = np.uint32(QUANTIZATION_VERSION)
    if importance is not None:
        found["quantize.imatrix.file"] = importance.path.name
        found["quantize.imatrix.dataset"] = ", ".join(importance.datasets)
        found["quantize.imatrix.entries_count"] = np.int32(len(importance.entries))
        found["quantize.imatrix.chunks_count"] = np.int32(importance.num_chunks)
    return found


def fingerprint_of(checkpoint: Checkpoint, recipe: Recipe, importance: Importance | None) -> str:
    """Of all that the bytes of the result depend on."""
    digest = hashlib.sha256(f"{quantize.VERSION} {recipe.file_type}\n".encode())
    for path in checkpoint.files:
        status = os.stat(path)
        digest.update(f"{path.name} {status.st_size} {status.st_mtime_ns}\n".encode())
    for tensor in checkpoint.tensors.values():
        digest.update(f"{tensor.name} {tensor.type} {tensor.shape} {tensor.recipe}\n".encode())
    for name, sums in importance.entries.items() if importance else ():
        digest.update(name.encode() + sums.squares.tobytes() + sums.counts.tobytes())
    return digest.hexdigest()
