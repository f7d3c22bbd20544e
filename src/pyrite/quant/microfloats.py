"""The meaning of MXFP4: floats of four bits under a scale of one byte.

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
