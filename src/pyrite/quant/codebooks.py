"""The meaning of IQ1, IQ2 and IQ3, whose codes are the numbers of points in a grid.

A block of 256 columns has one float16 scale, and odd numbers as steps. 32 columns are four points
of eight columns, or eight points of four. Signs of eight columns are a byte, or seven bits of it
with an even number of ones.

Source of the layouts: ggml's block structures.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyrite.quant.fields import Blocks, Floats, half
from pyrite.quant.grids import points

Indices = NDArray[np.integer[Any]]
Signs = NDArray[np.int8]

_OF_EIGHT = np.arange(8, dtype=np.uint8)
_SEVENS = np.array([0, 7, 14, 21], np.uint32)


def _words16(blocks: Blocks, start: int, end: int) -> NDArray[np.uint16]:
    return blocks[:, start:end].copy().view(np.uint16)


def _words32(blocks: Blocks, start: int, end: int) -> NDArray[np.uint32]:
    return blocks[:, start:end].copy().view(np.uint32)


def _two_nibbles(packed: Blocks) -> NDArray[np.uint8]:
    """The low half of each byte, then its high one. (blocks, n) -> (blocks, 2 n)"""
    return np.stack((packed & 15, packed >> 4), axis=2).reshape(len(packed), -1)


def _signs(ones: NDArray[np.uint8]) -> Signs:
    """-1 for each bit that is set, the lowest first, else 1. (...) -> (..., 8)"""
    return np.int8(1) - ((ones[..., None] >> _OF_EIGHT) & np.uint8(1)).view(np.int8) * np.int8(2)


def _even_signs(sevens: Indices) -> Signs:
    """The same of the low seven bits; an eighth makes the number of ones even."""
    low = (sevens & 127).astype(np.uint8)
    odd = low ^ (low >> np.uint8(4))
    odd ^= odd >> np.uint8(2)
    odd ^= odd >> np.uint8(1)
    return _signs(low | (odd << np.uint8(7)))


def _odd_steps(scale: Floats, numbers: Indices) -> Floats:
    return scale * (2 * numbers.astype(np.float32) + 1)


def _put(values: NDArray[np.int8] | Floats, step: Floats, out: Floats) -> None:
    """step * value. `values`: of all columns, (blocks, ...); `step`: (blocks, steps)"""
    shape = (*step.shape, -1)
    np.multiply(values.reshape(shape), step[:, :, None], out=out.reshape(shape))


def _put_signed(name: str, indices: Indices, signs: Signs, step: Floats, out: Floats) -> None:
    """`indices`: of points, in the order of columns; `signs`: (..., 8)"""
    _put(points(name)[indices].reshape(-1, 8) * signs.reshape(-1, 8), step, out)


def iq2_xxs(blocks: Blocks, out: Floats) -> None:
    words = _words32(blocks, 2, 66).reshape(-1, 8, 2)
    indices = words[:, :, :1].copy().view(np.uint8)  # (blocks, 8, 4)
    signs = _even_signs(words[:, :, 1:] >> _SEVENS)
    step = _odd_steps(half(blocks, 0) * np.float32(0.125), words[:, :, 1] >> 28)
    _put_signed("IQ2_XXS", indices, signs, step, out)


def iq2_xs(blocks: Blocks, out: Floats) -> None:
    words = _words16(blocks, 2, 66)
    step = _odd_steps(half(blocks, 0) * np.float32(0.125), _two_nibbles(blocks[:, 66:]))
    _put_signed("IQ2_XS", words & 511, _even_signs(words >> 9), step, out)


def iq2_s(blocks: Blocks, out: Floats) -> None:
    shifts = np.array([0, 2, 4, 6], np.uint8)
    high = ((blocks[:, 66:74, None] >> shifts) & np.uint8(3)).reshape(-1, 32)
    indices = blocks[:, 2:34] | (high.astype(np.uint16) << 8)
    step = _odd_steps(half(blocks, 0) * np.float32(0.125), _two_nibbles(blocks[:, 74:]))
    _put_signed("IQ2_S", indices, _signs(blocks[:, 34:66]), step, out)


def iq3_xxs(blocks: Blocks, out: Floats) -> None:
    words = _words32(blocks, 66, 98)
    signs = _even_signs(words[:, :, None] >> _SEVENS)
    step = _odd_steps(half(blocks, 0) * np.float32(0.25), words >> 28)
    _put_signed("IQ3_XXS", blocks[:, 2:66], signs, step, out)


def iq3_s(blocks: Blocks, out: Floats) -> None:
    high = ((blocks[:, 66:74, None] >> _OF_EIGHT) & np.uint8(1)).reshape(-1, 64)
    indices = blocks[:, 2:66] | (high.astype(np.uint16) << 8)
    step = _odd_steps(half(blocks, 0), _two_nibbles(blocks[:, 106:]))
    _put_signed("IQ3_S", indices, _signs(blocks[:, 74:106]), step, out)


def _put_shifted(indices: Indices, above: NDArray[np.bool_], step: Floats, out: Floats) -> None:
    """Coordinates and 1/8, or less 1/8 where not `above`: of eight columns each. (blocks, 32)"""
    shift = np.where(above, np.float32(0.125), np.float32(-0.125))
    _put(points("IQ1_S")[indices] + shift[:, :, None], step, out)


def iq1_s(blocks: Blocks, out: Floats) -> None:
    high = _words16(blocks, 34, 50)  # (blocks, 8)
    shifts = np.array([0, 3, 6, 9], np.uint16)
    indices = blocks[:, 2:34] | (((high[:, :, None] >> shifts) & 7).reshape(-1, 32) << 8)
    above = np.repeat(high < 0x8000, 4, axis=1)
    step = _odd_steps(half(blocks, 0), (high >> 12) & 7)
    _put_shifted(indices, above, step, out)


def iq1_m(blocks: Blocks, out: Floats) -> None:
    """The highest four bits of four words are the float16; the steps are below."""
    words = _words16(blocks, 48, 56)  # (blocks, 4)
    parts = (words >> 12) << np.array([0, 4, 8, 12], np.uint16)
    whole = parts.sum(axis=1, dtype=np.uint16, keepdims=True)
    scale = whole.view(np.float16).astype(np.float32)
    steps = (words[:, :, None] >> np.array([0, 3, 6, 9], np.uint16)) & 7
    high = _two_nibbles(blocks[:, 32:48])  # (blocks, 32)
    indices = blocks[:, :32] | ((high & 7).astype(np.uint16) << 8)
    _put_shifted(indices, high < 8, _odd_steps(scale, steps.reshape(-1, 16)), out)
