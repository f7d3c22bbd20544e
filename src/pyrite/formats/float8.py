"""Weights in 8-bit floats (E4M3, E5M2) with a scale a tensor, a row or a block.

They keep their bits: blocks of 128 columns under a float32 scale (`quant.float8`). Where 128
neighbours have several scales, or rows are no multiple of them, products with the scales become
float16: it rounds to 11 bits, and the weights have 4. Scales of activations are left out, for these
are not rounded to 8 bits here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyrite.errors import FormatError, TensorError
from pyrite.formats.checkpoint import Tensor
from pyrite.formats.derived import LARGEST_HALF, encoded, values_of
from pyrite.formats.packed_integers import FLOATS, Parts
from pyrite.quant.float8 import COLUMNS, SCALE_BYTES, VALUES

Floats = NDArray[np.float32]
Scales = Callable[[int, int], Floats]  # first row and number of rows -> (count, 1 or groups)

# safetensors' names, and ours.
TYPES = {"F8_E4M3": "E4M3", "F8_E5M2": "E5M2"}


def read_fp8(parts: Parts, settings: Mapping[str, Any]) -> Tensor:
    """`weight_scale_inv` and `weight_scale` are both multiplied by."""
    weight = parts.matrix("weight", tuple(TYPES))
    names = [name for name in ("weight_scale_inv", "weight_scale") if name in parts.tensors]
    if not names:
        raise TensorError(f"{parts.name} has no scale: weight_scale_inv or weight_scale")
    scale = parts.get(names[0], FLOATS)
    size = settings.get("weight_block_size")
    return scaled(parts, weight, scale, None if size is None else pair(size))


def scaled(
    parts: Parts, weight: Tensor, scale: Tensor, block: tuple[int, int] | None = None
) -> Tensor:
    """`block`: rows and columns under one scale; without one, a scale a tensor or a row."""
    rows, columns = weight.shape
    values = values_of(scale).reshape(scale.shape)
    scales = _by_row(parts.name, values, (rows, columns), block)
    width = columns if block is None or values.size == 1 else min(block[1], columns)
    if columns % COLUMNS or width % COLUMNS:
        return _as_halves(parts, weight, scales, width)
    return _kept(parts, weight, scales, width)


def _kept(parts: Parts, weight: Tensor, scales: Scales, width: int) -> Tensor:
    """Codes behind the scale of their block; `width` columns have one scale in the file."""
    rows, columns = weight.shape
    type = TYPES[weight.type]
    largest = np.finfo(np.float32).max / VALUES[type][np.isfinite(VALUES[type])].max()
    groups = np.arange(columns // COLUMNS) * COLUMNS // width

    def make(first: int, count: int) -> NDArray[np.uint8]:
        codes = weight.read(first, count).reshape(count, -1, COLUMNS)
        own = scales(first, count)
        _require_below(parts.name, own, largest)
        made = np.empty((*codes.shape[:2], SCALE_BYTES + COLUMNS), np.uint8)
        made[..., :SCALE_BYTES] = own[:, groups, None].view(np.uint8)
        made[..., SCALE_BYTES:] = codes
        return made.reshape(-1)

    return parts.made(type, (rows, columns), make, "float8 kept")


def _require_below(name: str, scales: Floats, limit: np.float32) -> None:
    """With which the largest code is a float32."""
    beyond = np.abs(scales) > limit
    if beyond.any():
        raise FormatError(f"{name} has a scale of {scales[beyond][0]:g}: {limit:g} is the largest")


def _as_halves(parts: Parts, weight: Tensor, scales: Scales, width: int) -> Tensor:
    rows, columns = weight.shape
    table = VALUES[TYPES[weight.type]]

    def make(first: int, count: int) -> NDArray[np.uint8]:
        values = table[weight.read(first, count)].reshape(count, columns)
        wide = np.repeat(scales(first, count), width, axis=1)[:, :columns]
        with np.errstate(over="ignore", invalid="ignore"):
            product = values * wide
            beyond = ~(np.abs(product) <= LARGEST_HALF)
        if beyond.any():
            raise FormatError(f"{parts.name} holds {product[beyond][0]:g}, which float16 does not")
        return encoded(product, "F16")

    return parts.made("F16", (rows, columns), make, "float8")


def _by_row(
    name: str, scales: Floats, shape: tuple[int, int], block: tuple[int, int] | None
) -> Scales:
    """Scales of some rows, one for each group of columns."""
    rows, columns = shape
    if scales.size == 1:
        return lambda first, count: np.full((count, 1), scales.reshape(-1)[0])
    if block is None:
        if scales.size != rows:
            raise TensorError(f"{name} has {scales.size} scales for {rows} rows")
        of_rows = scales.reshape(rows, 1)
        return lambda first, count: of_rows[first : first + count]
    needed = (-(-rows // block[0]), -(-columns // block[1]))
    if scales.shape != needed:
        raise TensorError(f"{name} has scales {scales.shape}, and needs {needed}")
    return lambda first, count: scales[np.arange(first, first + count) // block[0]]


def pair(size: Any) -> tuple[int, int]:
    numbers = isinstance(size, list) and all(isinstance(one, int) and one > 0 for one in size)
    if not numbers or len(size) != 2:
        raise FormatError(f"the size of blocks is {str(size)[:40]}: must be two numbers above 0")
    return size[0], size[1]
