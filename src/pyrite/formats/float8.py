"""Weights in 8-bit floats (E4M3, E5M2) with a scale a tensor, a row or a block.

Their products with scales become float16: it rounds to 11 bits, and the weights have 4. Scales of
activations are left out: activations are not rounded to 8 bits here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyrite.errors import FormatError, TensorError
from pyrite.formats.checkpoint import Tensor
from pyrite.formats.derived import encoded, values_of
from pyrite.formats.packed_integers import FLOATS, Parts

Floats = NDArray[np.float32]

LARGEST = np.float32(65504)  # of float16


def read_fp8(parts: Parts, settings: Mapping[str, Any]) -> Tensor:
    """`weight_scale_inv` and `weight_scale` are both multiplied by."""
    weight = parts.matrix("weight", tuple(TABLES))
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
    table = TABLES[weight.type]
    scales = values_of(scale).reshape(scale.shape)
    wide = _spread(parts.name, scales, (rows, columns), block)

    def make(first: int, count: int) -> NDArray[np.uint8]:
        values = table[weight.read(first, count)].reshape(count, columns)
        with np.errstate(over="ignore", invalid="ignore"):
            product = values * wide(first, count)
            beyond = ~(np.abs(product) <= LARGEST)
        if beyond.any():
            raise FormatError(f"{parts.name} holds {product[beyond][0]:g}, which float16 does not")
        return encoded(product, "F16")

    return parts.made("F16", (rows, columns), make, "float8")


def _spread(
    name: str, scales: Floats, shape: tuple[int, int], block: tuple[int, int] | None
) -> Any:
    """Scales of some rows, as (count, columns) or what broadcasts to it."""
    rows, columns = shape
    if scales.size == 1:
        return lambda first, count: scales.reshape(1, 1)
    if block is None:
        if scales.size != rows:
            raise TensorError(f"{name} has {scales.size} scales for {rows} rows")
        by_row = scales.reshape(rows, 1)
        return lambda first, count: by_row[first : first + count]
    needed = (-(-rows // block[0]), -(-columns // block[1]))
    if scales.shape != needed:
        raise TensorError(f"{name} has scales {scales.shape}, and needs {needed}")

    def by_block(first: int, count: int) -> Floats:
        own = scales[np.arange(first, first + count) // block[0]]
        return np.repeat(own, block[1], axis=1)[:, :columns]

    return by_block


def pair(size: Any) -> tuple[int, int]:
    numbers = isinstance(size, list) and all(isinstance(one, int) and one > 0 for one in size)
    if not numbers or len(size) != 2:
        raise FormatError(f"the size of blocks is {str(size)[:40]}: must be two numbers above 0")
    return size[0], size[1]


def _table(exponent_bits: int, bias: int, is_finite: bool) -> Floats:
    """The values of all 256 codes. `is_finite`: the largest exponent has numbers (E4M3)."""
    mantissa_bits = 7 - exponent_bits
    codes = np.arange(128)
    exponents, mantissas = codes >> mantissa_bits, codes & ((1 << mantissa_bits) - 1)
    parts = mantissas / (1 << mantissa_bits)
    normal = (1 + parts) * 2.0 ** (exponents - bias)
    values = np.where(exponents == 0, parts * 2.0 ** (1 - bias), normal)
    if is_finite:
        values[127] = np.nan
    else:
        top = exponents == (1 << exponent_bits) - 1
        values[top] = np.where(mantissas[top] == 0, np.inf, np.nan)
    return np.concatenate([values, -values]).astype(np.float32)


TABLES = {"F8_E4M3": _table(4, 7, True), "F8_E5M2": _table(5, 15, False)}
