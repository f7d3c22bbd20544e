"""MXFP4 tensors of a hub folder as GGUF's: the same numbers, in another order of bytes.

A folder keeps the codes of 32 columns in 16 bytes, two neighbours in each, the first of them low;
and the exponents of all in a tensor of their own. GGUF's block is the exponent, then 16 bytes of
which the low halves are the first 16 columns. Nothing is read until rows are.

Source: the published code of GPT-OSS, the GGUF specification.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyrite.errors import TensorError
from pyrite.formats.checkpoint import Tensor
from pyrite.quant.formats import FORMATS

Bytes = NDArray[np.uint8]

HALF = 16  # columns in the low, and in the high halves of a block's bytes


def repacked(blocks: Tensor, scales: Tensor) -> Tensor:
    """(..., rows, columns) of type MXFP4 from (..., rows, columns / 32, 16) and (..., rows,
    columns / 32) of bytes. Raises TensorError where they do not fit."""
    is_fit = len(blocks.shape) > 2 and blocks.shape == (*scales.shape, HALF)
    if not is_fit or (blocks.type, scales.type) != ("U8", "U8"):
        raise TensorError(
            f"{blocks.name} is {blocks.type} {blocks.shape} and {scales.name} {scales.type}"
            f" {scales.shape}: must be U8 (..., blocks, {HALF}) and U8 (..., blocks)"
        )
    *stack, num_blocks = scales.shape
    shape = (*stack, 2 * HALF * num_blocks)

    def make(first: int, count: int) -> Bytes:
        codes = blocks.read(first * num_blocks, count * num_blocks).reshape(-1, HALF)
        exponents = scales.read(first, count).reshape(-1, 1)
        return np.concatenate([exponents, _in_halves(codes)], axis=1).reshape(-1)

    return Tensor(blocks.name, FORMATS["MXFP4"].name, shape, blocks.data, make, "repacked")


def _in_halves(codes: Bytes) -> Bytes:
    """Byte i of the result has column i low and column i + 16 high. (blocks, 16)"""
    columns = np.stack([codes & 0xF, codes >> 4], axis=2).reshape(-1, 2 * HALF)
    packed: Bytes = columns[:, :HALF] | (columns[:, HALF:] << 4)
    return packed
