"""The meaning of MXFP4 and NVFP4: floats of four bits under scales of one byte.

Source: the OCP microscaling formats, and ggml's block structures.
"""

from __future__ import annotations

import numpy as np

from pyrite.quant.fields import Blocks, Floats, nibbles

# E2M1 doubled, so that all are whole; a block's scale is halved.
DOUBLED_E2M1 = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], np.float32)


def _half_of_e8m0(exponents: Blocks) -> Floats:
    """2^(exponent - 128). Exponents 0 and 1 give numbers below float32's normal ones."""
    return np.ldexp(np.float32(1), exponents.astype(np.int32) - 128)


def mxfp4(blocks: Blocks, out: Floats) -> None:
    quants = DOUBLED_E2M1[nibbles(blocks[:, 1:]).reshape(-1, 32)]
    np.multiply(quants, _half_of_e8m0(blocks[:, :1]), out=out)


def _halves_of_e4m3() -> Floats:
    """Half of each byte as an E4M3 without a sign: the highest bit is ignored, and 0x7F is 0."""
    byte = np.arange(256)
    exponent, fraction = byte >> 3 & 15, byte & 7
    whole = np.where(exponent > 0, 8 + fraction, fraction).astype(np.float32)
    scale = np.ldexp(whole, np.maximum(exponent, 1) - 11)
    return np.where(byte == 0x7F, np.float32(0), scale)


HALVES_OF_E4M3 = _halves_of_e4m3()


def nvfp4(blocks: Blocks, out: Floats) -> None:
    """Four groups of 16 columns: four scales, then eight bytes each, low halves first."""
    quants = DOUBLED_E2M1[nibbles(blocks[:, 4:].reshape(-1, 8))].reshape(-1, 4, 16)
    scales = HALVES_OF_E4M3[blocks[:, :4]]
    np.multiply(quants, scales[:, :, None], out=out.reshape(-1, 4, 16))
