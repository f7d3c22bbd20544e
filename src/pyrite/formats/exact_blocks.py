"""Codes and scales of other formats as blocks of ours, value for value.

A block has 32 columns of a row under one float16: see `quant.dequant` for the layouts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyrite.errors import FormatError

Codes = NDArray[np.int16]  # (rows, columns), less their zeros
Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]

BLOCK = 32
CLOSE = 2.0**-10  # how far a scale may be from its float16, as a part of it
RANGES = {"Q4_0": (-8, 7), "Q5_0": (-16, 15), "Q8_0": (-128, 127)}


def blocks(name: str, type: str, codes: Codes, scales: Floats) -> Bytes:
    """`scales` (rows, groups): groups are equal numbers of columns, a multiple of 32.

    Raises FormatError, with the tensor's name, for a value that the type cannot hold.
    """
    low, high = RANGES[type]
    if codes.size and not low <= codes.min() <= codes.max() <= high:
        raise FormatError(
            f"{name} has codes from {codes.min()} to {codes.max()}: from {low} to {high} are"
            " expected with its zeros"
        )
    rows, columns = codes.shape
    halves = _halves(name, np.repeat(scales, columns // BLOCK // scales.shape[1], axis=1))
    packed = _PACKED[type](codes.reshape(rows, -1, BLOCK))
    data = np.concatenate([halves[..., None].view(np.uint8), packed], axis=2)
    return np.ascontiguousarray(data).reshape(-1)


def _halves(name: str, scales: Floats) -> NDArray[np.float16]:
    with np.errstate(over="ignore", invalid="ignore"):
        halves = scales.astype(np.float16)
        lost = ~(np.abs(halves.astype(np.float32) - scales) <= CLOSE * np.abs(scales))
    if lost.any():
        raise FormatError(
            f"{name} has a scale of {scales[lost][0]:g}, which float16 does not hold",
            hint="take the model unquantized, or its GGUF file",
        )
    return halves


def _q4_0(codes: Codes) -> Bytes:
    nibbles = (codes + 8).astype(np.uint8)
    data: Bytes = nibbles[..., :16] | (nibbles[..., 16:] << np.uint8(4))
    return data


def _q5_0(codes: Codes) -> Bytes:
    raised = (codes + 16).astype(np.uint8)
    high = np.packbits(raised >> 4, axis=-1, bitorder="little")
    low = raised & 15
    return np.concatenate([high, low[..., :16] | (low[..., 16:] << 4)], axis=-1)


def _q8_0(codes: Codes) -> Bytes:
    data: Bytes = codes.astype(np.int8).view(np.uint8)
    return data


_PACKED = {"Q4_0": _q4_0, "Q5_0": _q5_0, "Q8_0": _q8_0}
