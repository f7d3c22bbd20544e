"""The meaning of E4M3 and E5M2: floats of a byte under a float32 scale for 128 columns.

A block is the scale, then the codes. No file has such blocks: folders have codes and scales apart,
and `formats.float8` puts them together.

Source of the codes: the OCP 8-bit floating point specification (E4M3 as FN: it has no infinity).
"""

from __future__ import annotations

import numpy as np

from pyrite.quant.fields import Blocks, Floats

COLUMNS = 128  # of a block
SCALE_BYTES = 4


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


VALUES = {"E4M3": _table(4, 7, True), "E5M2": _table(5, 15, False)}


def _scaled(values: Floats, blocks: Blocks, out: Floats) -> None:
    scales = np.ascontiguousarray(blocks[:, :SCALE_BYTES]).view(np.float32)
    np.multiply(values[blocks[:, SCALE_BYTES:]], scales, out=out)


def e4m3(blocks: Blocks, out: Floats) -> None:
    _scaled(VALUES["E4M3"], blocks, out)


def e5m2(blocks: Blocks, out: Floats) -> None:
    _scaled(VALUES["E5M2"], blocks, out)
