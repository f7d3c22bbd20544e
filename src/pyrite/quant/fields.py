"""Numbers of a few bits in blocks of bytes, as the block formats lay them out.

Which format has which field where, others know.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Blocks = NDArray[np.uint8]  # (blocks, block_bytes)
Floats = NDArray[np.float32]


def half(blocks: Blocks, start: int) -> Floats:
    """The float16 at byte `start` of each block. (blocks, 1)"""
    return blocks[:, start : start + 2].copy().view(np.float16).astype(np.float32)


def nibbles(packed: Blocks) -> NDArray[np.uint8]:
    """Low halves of the bytes, then high halves. (blocks, n) -> (blocks, 2, n)"""
    return np.stack((packed & 15, packed >> 4), axis=1)


def bits(packed: Blocks, columns: int) -> NDArray[np.uint8]:
    """Bit j of a little-endian bit field, for each j. (blocks, columns / 8) -> (blocks, columns)"""
    return np.unpackbits(packed, axis=1, count=columns, bitorder="little")


def pairs_of_bits(packed: Blocks) -> NDArray[np.uint8]:
    """Two-bit fields in a k-quant's order: 128 columns take 32 bytes, 2 bits higher each 32.

    (blocks, 64) -> (blocks, 256)
    """
    shifts = np.array([0, 2, 4, 6], np.uint8).reshape(1, 1, 4, 1)
    return ((packed.reshape(-1, 2, 1, 32) >> shifts) & np.uint8(3)).reshape(-1, 256)
