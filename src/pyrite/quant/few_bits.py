"""The meaning of types with two bits a weight or less: TQ1_0, TQ2_0, Q2_0 and Q1_0.

Source of the layouts: ggml's block structures.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyrite.quant.fields import Blocks, Floats, bits, half, pairs_of_bits


def _trits(packed: Blocks, count: int) -> NDArray[np.uint8]:
    """Digits 0 to 2, the first of all bytes before the second. (blocks, n) -> (blocks, count * n)

    A byte is its digits as a fraction in base 3, of 256 and rounded up: multiplied by 3 it shows
    the first in the ninth bit, and goes on with the rest.
    """
    powers = np.array([1, 3, 9, 27, 81], np.uint8)[:count, None]
    rest = packed[:, None, :] * powers  # (blocks, count, n), modulo 256
    return (rest.astype(np.uint16) * 3 >> 8).astype(np.uint8).reshape(len(packed), -1)


def _put_less_one(digits: NDArray[np.uint8], scale: Floats, out: Floats) -> None:
    np.multiply(digits.view(np.int8) - np.int8(1), scale, out=out, dtype=np.float32)


def tq1_0(blocks: Blocks, out: Floats) -> None:
    parts = (_trits(blocks[:, :32], 5), _trits(blocks[:, 32:48], 5), _trits(blocks[:, 48:52], 4))
    _put_less_one(np.concatenate(parts, axis=1), half(blocks, 52), out)


def tq2_0(blocks: Blocks, out: Floats) -> None:
    _put_less_one(pairs_of_bits(blocks[:, :64]), half(blocks, 64), out)


def q2_0(blocks: Blocks, out: Floats) -> None:
    shifts = np.array([0, 2, 4, 6], np.uint8)
    digits = (blocks[:, 2:, None] >> shifts) & np.uint8(3)
    _put_less_one(digits.reshape(-1, 64), half(blocks, 0), out)


def q1_0(blocks: Blocks, out: Floats) -> None:
    """A bit that is set means the scale, one that is not means less the scale."""
    signs = bits(blocks[:, 2:], 128).view(np.int8) * np.int8(2) - np.int8(1)
    np.multiply(signs, half(blocks, 0), out=out, dtype=np.float32)
