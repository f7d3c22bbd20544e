"""MXFP4 tensors of a hub folder as GGUF's: the same numbers, in another order of bytes.

A folder keeps the codes of 32 columns in 16 bytes, two neighbours in each, the first of them low;
and the exponents of all in a tensor of their own. GGUF's block is the exponent, then 16 bytes of
which the low halves are the first 16 columns. Nothing is read until rows are.

Source: the published code of GPT-OSS, the GGUF specification.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pyrite.errors import TensorError
from pyrite.formats.checkpoint import Tensor
from pyrite.quant.formats import FORMATS

Bytes = NDArray[np.uint8]

HALF = 16  # bytes of a block's codes: columns in their low, and in their high halves
LOW = np.uint64(0x0F0F0F0F0F0F0F0F)
FOUR = np.uint64(4)


def flat(blocks: Tensor) -> Tensor:
    """(..., rows, columns / 2) of a folder's (..., rows, columns / 32, 16) bytes."""
    if len(blocks.shape) < 3 or blocks.shape[-1] != HALF or blocks.type != "U8":
        raise TensorError(
            f"{blocks.name} is {blocks.type} {blocks.shape}: must be U8 (..., rows, blocks, {HALF})"
        )
    *stack, num_blocks, _ = blocks.shape
    return replace(blocks, shape=(*stack, num_blocks * HALF))


def repacked(codes: Tensor, scales: Tensor) -> Tensor:
    """(..., rows, columns) of type MXFP4 from `flat` blocks, and scales (..., rows, columns / 32).

    Raises TensorError where they do not fit.
    """
    *stack, num_blocks = scales.shape
    if scales.type != "U8" or codes.shape != (*stack, num_blocks * HALF):
        raise TensorError(
            f"{scales.name} is {scales.type} {scales.shape}: must be U8, one for each {HALF} of"
            f" {codes.name} {codes.shape}"
        )

    def make(first: int, count: int) -> Bytes:
        packed = _in_halves(codes.read(first, count).reshape(-1, HALF))
        exponents = scales.read(first, count).reshape(-1, 1)
        return np.concatenate([exponents, packed], axis=1).reshape(-1)

    shape = (*stack, 2 * HALF * num_blocks)
    recipe = f"{codes.recipe} repacked"
    return Tensor(codes.name, FORMATS["MXFP4"].name, shape, codes.data, make, recipe)


def _in_halves(codes: Bytes) -> Bytes:
    """Byte i of the result has column i low and column i + 16 high. (blocks, 16)

    Eight bytes at a time: a word of a block's first half and one of its second make a word of even
    columns and one of odd ones.
    """
    words = np.ascontiguousarray(codes).view(np.uint64)
    first, second = words[:, 0], words[:, 1]
    even = (first & LOW) | ((second & LOW) << FOUR)
    odd = ((first >> FOUR) & LOW) | (second & ~LOW)
    packed = np.empty((len(codes), HALF // 2, 2), np.uint8)
    packed[:, :, 0] = even.view(np.uint8).reshape(-1, HALF // 2)
    packed[:, :, 1] = odd.view(np.uint8).reshape(-1, HALF // 2)
    return packed.reshape(-1, HALF)
