"""Tensors made of others when they are read: stacked, cut, reordered, transposed, computed.

A folder stores what a GGUF file stores, in other pieces. Nothing is copied until rows are read, and
then only those rows. Which tensors need what is unknown here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyrite.errors import FormatError, TensorError, UnsupportedError
from pyrite.formats.checkpoint import Sorted, Tensor
from pyrite.quant.dequant import dequantize
from pyrite.quant.formats import FLOATS_8, FORMATS, require_executed

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]

MOVED = "columns picked"  # in the recipe of what picked_columns made
ITEMS = {"F32": np.uint32, "F16": np.uint16, "BF16": np.uint16}  # types whose values stand alone
LARGEST_HALF = np.float32(65504)  # of float16


def reshaped(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The same rows: all axes but the last may be cut otherwise."""
    assert np.prod(shape) == np.prod(tensor.shape), (tensor.name, tensor.shape, shape)
    if shape[-1] != tensor.shape[-1]:
        require_items(tensor)
        assert tensor.make is None, tensor.name
    return replace(tensor, shape=shape)


def flattened(tensor: Tensor) -> Tensor:
    """A vector of all values."""
    tensor = with_items(tensor)
    shape = (tensor.num_rows * tensor.shape[-1],)
    if tensor.make is None:
        return replace(tensor, shape=shape)
    return replace(
        tensor, shape=shape, make=lambda _, count: tensor.read(0, count * tensor.num_rows)
    )


def rows_of(tensor: Tensor, name: str, first: int, count: int) -> Tensor:
    """Some rows that follow one another: a view where the tensor is one."""
    shape = (count, tensor.shape[-1])
    if tensor.make is None:
        return Tensor(name, tensor.type, shape, tensor.read(first, count))
    make, recipe, twin = tensor.make, f"{tensor.recipe} rows {first}", tensor.by_group
    by_group = (
        None if twin is None else Sorted(rows_of(twin.tensor, name, first, count), twin.order)
    )

    def some(start: int, number: int) -> Bytes:
        return make(first + start, number)

    return Tensor(name, tensor.type, shape, tensor.data, some, recipe, by_group)


def rows_of_each(tensor: Tensor, name: str, first: int, count: int, step: int = 1) -> Tensor:
    """Of each matrix of a stack `count` rows: `first`, and every `step`-th after it."""
    stack, rows, columns = tensor.shape
    span = (count - 1) * step + 1
    assert 0 <= first < first + span <= rows, (tensor.name, tensor.shape, first, count, step)

    def make(start: int, wanted: int) -> Bytes:
        found = []
        while wanted:
            matrix, row = divmod(start, count)
            taken = min(wanted, count - row)
            begin = matrix * rows + first + row * step
            data = tensor.read(begin, (taken - 1) * step + 1)
            found.append(data.reshape((taken - 1) * step + 1, -1)[::step].reshape(-1))
            start, wanted = start + taken, wanted - taken
        whole: Bytes = _concatenated(found)
        return whole

    shape = (stack, count, columns)
    recipe = f"{tensor.recipe} rows {first} of each by {step}"
    return Tensor(name, tensor.type, shape, tensor.data, make, recipe)


def every_column(tensor: Tensor, first: int, step: int) -> Tensor:
    """Of each row column `first`, and every `step`-th after it."""
    tensor = with_items(tensor)
    item = ITEMS[tensor.type]

    def make(start: int, count: int) -> Bytes:
        values = tensor.read(start, count).view(item).reshape(count, tensor.shape[-1])
        return np.ascontiguousarray(values[:, first::step]).reshape(-1).view(np.uint8)

    shape = (*tensor.shape[:-1], len(range(first, tensor.shape[-1], step)))
    recipe = f"{tensor.recipe} columns {first} by {step}"
    return Tensor(tensor.name, tensor.type, shape, tensor.data, make, recipe)


def picked_rows(tensor: Tensor, order: Sequence[int] | NDArray[np.int64]) -> Tensor:
    """Row i is row order[i] of the tensor; of a vector, value i."""
    rows = np.asarray(order, np.int64)
    if len(tensor.shape) == 1:
        return _picked_values(tensor, rows)

    def make(first: int, count: int) -> Bytes:
        wanted = rows[first : first + count]
        if not count:
            return tensor.read(0, 0)
        low, high = int(wanted.min()), int(wanted.max()) + 1
        found = tensor.read(low, high - low).reshape(high - low, -1)
        return found[wanted - low].reshape(-1)

    shape = (len(rows), tensor.shape[-1])
    recipe, twin = f"{tensor.recipe} picked", tensor.by_group
    by_group = None if twin is None else Sorted(picked_rows(twin.tensor, order), twin.order)
    return Tensor(tensor.name, tensor.type, shape, tensor.data, make, recipe, by_group)


def _picked_values(vector: Tensor, order: NDArray[np.int64]) -> Tensor:
    vector = with_items(vector)
    item = ITEMS[vector.type]

    def make(first: int, count: int) -> Bytes:
        return vector.read().view(item)[order].view(np.uint8)[: count * vector.num_bytes]

    recipe = f"{vector.recipe} picked"
    return Tensor(vector.name, vector.type, order.shape, vector.data, make, recipe)


def spread(tensor: Tensor, count: int) -> Tensor:
    """A vector of so many, all the one value that the tensor holds."""
    require_items(tensor)
    assert tensor.shape == (1,), (tensor.name, tensor.shape)

    def make(_: int, rows: int) -> Bytes:
        return np.tile(tensor.read(), count * rows)

    recipe = f"{tensor.recipe} spread"
    return Tensor(tensor.name, tensor.type, (count,), tensor.data, make, recipe)


def picked_columns(tensor: Tensor, order: NDArray[np.int64], width: int) -> Tensor:
    """Runs of `width` columns in another order. Of rows of another length nothing moves: whoever
    takes them compares shapes, or asks `moves_columns`. Raises UnsupportedError where a block of
    the type is longer."""
    fits = tensor.shape[-1] == len(order) * width
    block = FORMATS[tensor.type].block_columns
    if width % block and tensor.type in FLOATS_8:
        tensor, block = with_items(tensor), 1
    if fits and width % block:
        raise UnsupportedError(
            f"tensor {tensor.name} has type {tensor.type}: {width} columns are moved together, and"
            f" blocks are of {block}",
            hint="take the model in F16, BF16 or F32",
        )

    run_bytes = width // block * FORMATS[tensor.type].block_bytes

    def make(first: int, count: int) -> Bytes:
        if not fits:
            return tensor.read(first, count)
        runs = tensor.read(first, count).reshape(-1, len(order), run_bytes)
        return runs[:, order].reshape(-1)

    recipe = f"{tensor.recipe} {MOVED}"
    return Tensor(tensor.name, tensor.type, tensor.shape, tensor.data, make, recipe)


def moves_columns(tensor: Tensor) -> bool:
    """Whether it was made by `picked_columns`."""
    return MOVED in tensor.recipe


def stacked(name: str, parts: Sequence[Tensor]) -> Tensor:
    """(count, *shape): tensors of one shape and type. Raises TensorError where they differ."""
    first_part = parts[0]
    for part in parts:
        if (part.type, part.shape) != (first_part.type, first_part.shape):
            raise TensorError(
                f"{part.name} is {part.type} {part.shape}, but {first_part.name} is"
                f" {first_part.type} {first_part.shape}: they make one tensor, {name}"
            )
    shape = (len(parts), *first_part.shape)
    return _in_order(name, shape, parts)


def joined(name: str, parts: Sequence[Tensor]) -> Tensor:
    """The rows of several matrices one after the other."""
    shape = (sum(part.num_rows for part in parts), parts[0].shape[-1])
    return _in_order(name, shape, parts)


def _in_order(name: str, shape: tuple[int, ...], parts: Sequence[Tensor]) -> Tensor:
    ends = np.cumsum([part.num_rows for part in parts])

    def make(first: int, count: int) -> Bytes:
        found = []
        while count:
            index = int(np.searchsorted(ends, first, side="right"))
            start = int(ends[index]) - parts[index].num_rows
            taken = min(count, int(ends[index]) - first)
            found.append(parts[index].read(first - start, taken))
            first, count = first + taken, count - taken
        data: Bytes = found[0] if len(found) == 1 else _concatenated(found)
        return data

    recipe = f"{len(parts)} in order" + "".join(part.recipe for part in parts)
    return Tensor(name, parts[0].type, shape, parts[0].data, make, recipe)


def transposed(tensor: Tensor) -> Tensor:
    """The last two axes change places. Raises UnsupportedError for types of blocks, TensorError
    for vectors."""
    tensor = with_items(tensor)
    if len(tensor.shape) < 2:
        raise TensorError(f"{tensor.name} is {tensor.shape}: must be a matrix")
    *stack, rows, columns = tensor.shape
    item = ITEMS[tensor.type]

    def make(first: int, count: int) -> Bytes:
        found = []
        while count:
            matrix, row = divmod(first, columns)
            taken = min(count, columns - row)
            values = tensor.read(matrix * rows, rows).view(item).reshape(rows, columns)
            found.append(values[:, row : row + taken].T.reshape(-1))
            first, count = first + taken, count - taken
        data: Bytes = _concatenated(found).view(np.uint8)
        return data

    shape = (*stack, columns, rows)
    return Tensor(tensor.name, tensor.type, shape, tensor.data, make, f"{tensor.recipe} transposed")


def _concatenated(parts: Sequence[Any]) -> Any:
    return np.concatenate(parts) if parts else np.empty(0, np.uint8)


def values_of(tensor: Tensor, first: int = 0, count: int | None = None) -> Floats:
    """Rows as float32. (count, columns)

    Raises UnsupportedError for a type that is no number here: safetensors has integers and more.
    """
    require_executed(tensor.type, tensor.name)
    count = tensor.num_rows - first if count is None else count
    return dequantize(tensor.read(first, count), tensor.type, (count, tensor.shape[-1]))


def computed(
    tensor: Tensor, compute: Callable[[Floats, int], Floats], recipe: str, type: str = "F32"
) -> Tensor:
    """Values made row by row: `compute` gets rows (count, columns) and the number of the first one.

    The type is one of ITEMS; values are rounded to it. Raises UnsupportedError as `values_of` does.
    """
    require_executed(tensor.type, tensor.name)

    def make(first: int, count: int) -> Bytes:
        values = values_of(tensor, first, count)
        return encoded(np.ascontiguousarray(compute(values, first), np.float32), type)

    recipe = f"{tensor.recipe} {recipe}"
    return Tensor(tensor.name, type, tensor.shape, tensor.data, make, recipe)


def one_more(tensor: Tensor) -> Tensor:
    """Of norms whose weights are kept less one."""
    return computed(tensor, lambda values, _: values + np.float32(1), "plus one")


def as_float32(tensor: Tensor) -> Tensor:
    return tensor if tensor.type == "F32" else computed(tensor, lambda x, _: x, "float32")


def held(name: str, values: Floats) -> Tensor:
    """A tensor of values that are here already."""
    data = np.ascontiguousarray(values, np.float32)
    return Tensor(name, "F32", values.shape, data.view(np.uint8).reshape(-1))


def encoded(values: Floats, type: str) -> Bytes:
    """Rounded to nearest, halves to even."""
    if type == "F32":
        return values.reshape(-1).view(np.uint8)
    if type == "F16":
        return values.astype(np.float16).reshape(-1).view(np.uint8)
    assert type == "BF16", type
    bits = values.reshape(-1).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return rounded.astype(np.uint16).view(np.uint8)


def with_items(tensor: Tensor) -> Tensor:
    """In a type whose values can be moved one by one: 8-bit floats become F16.

    Raises UnsupportedError for other types of blocks.
    """
    if tensor.type in FLOATS_8:
        return _as_halves(tensor)
    require_items(tensor)
    return tensor


def _as_halves(tensor: Tensor) -> Tensor:
    """Rounded to 11 bits; the weights have 3 or 4. Raises FormatError for what is too large."""

    def checked(values: Floats, _: int) -> Floats:
        beyond = ~(np.abs(values) <= LARGEST_HALF)
        if beyond.any():
            raise FormatError(f"{tensor.name} holds {values[beyond][0]:g}, which float16 does not")
        return values

    return computed(tensor, checked, "float16", "F16")


def require_items(tensor: Tensor) -> None:
    if tensor.type not in ITEMS:
        raise UnsupportedError(
            f"tensor {tensor.name} has type {tensor.type}, whose values cannot be moved one by one",
            hint=f"a tensor of this use must be one of {', '.join(ITEMS)}",
        )
