"""From a stored type to float32, in NumPy: the meaning of every executed type.

Rows are taken block by block as the file has them; files and tensors are unknown here. The order
of the float operations is ggml's, so results equal its reference code bit for bit. Blocks are done
in slices that stay in the processor's cache.

Source of the layouts: ggml's block structures (k-quants have blocks of 256 in 8 or 16 groups).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pyrite.quant import codebooks, few_bits, float8, microfloats
from pyrite.quant.fields import Blocks, Floats, bits, half, nibbles, pairs_of_bits
from pyrite.quant.formats import FORMATS, bytes_per_row

SLICE_VALUES = 1 << 17  # values converted at a time: a slice and its float32 result fit in 1 MiB

# The sixteen values of IQ4_NL and IQ4_XS.
NONLINEAR = np.array(
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.float32
)


def dequantize(data: NDArray[np.uint8], name: str, shape: tuple[int, ...]) -> Floats:
    """The values of a tensor of type `name`, in float32. (shape)

    `data` holds the rows one after the other. F32 data that is aligned is returned as it is, not
    copied: treat the result as read-only.
    """
    rows, columns = int(np.prod(shape[:-1], dtype=np.int64)), shape[-1]
    assert data.nbytes == rows * bytes_per_row(name, columns), (name, shape, data.nbytes)
    if name == "F32":
        return np.require(data.view(np.float32), requirements="A").reshape(shape)
    row = FORMATS[name]
    blocks = np.ascontiguousarray(data).reshape(-1, row.block_bytes)  # (blocks, block_bytes)
    values = np.empty((len(blocks), row.block_columns), np.float32)
    step = max(1, SLICE_VALUES // row.block_columns)
    with np.errstate(over="ignore", invalid="ignore"):  # a file may hold infinite scales
        for start in range(0, len(blocks), step):
            _DECODERS[name](blocks[start : start + step], values[start : start + step])
    return values.reshape(shape)


def _f16(blocks: Blocks, out: Floats) -> None:
    out[:] = blocks.view(np.float16)


def _bf16(blocks: Blocks, out: Floats) -> None:
    out.view(np.uint32)[:] = blocks.view(np.uint16)
    out.view(np.uint32)[:] <<= 16


def _q4_0(blocks: Blocks, out: Floats) -> None:
    quants = nibbles(blocks[:, 2:]).view(np.int8).reshape(-1, 32) - np.int8(8)
    np.multiply(quants, half(blocks, 0), out=out, dtype=np.float32)


def _q4_1(blocks: Blocks, out: Floats) -> None:
    quants = nibbles(blocks[:, 4:]).reshape(-1, 32)
    np.multiply(quants, half(blocks, 0), out=out, dtype=np.float32)
    out += half(blocks, 2)


def _fifth_bits(blocks: Blocks, start: int) -> NDArray[np.uint8]:
    """Quants of Q5_0 and Q5_1: nibbles, with bit 4 from a field of 32 bits before them."""
    high = bits(blocks[:, start : start + 4], 32)
    return nibbles(blocks[:, start + 4 :]).reshape(-1, 32) | (high << np.uint8(4))


def _q5_0(blocks: Blocks, out: Floats) -> None:
    quants = _fifth_bits(blocks, 2).view(np.int8) - np.int8(16)
    np.multiply(quants, half(blocks, 0), out=out, dtype=np.float32)


def _q5_1(blocks: Blocks, out: Floats) -> None:
    np.multiply(_fifth_bits(blocks, 4), half(blocks, 0), out=out, dtype=np.float32)
    out += half(blocks, 2)


def _q8_0(blocks: Blocks, out: Floats) -> None:
    quants = blocks[:, 2:].view(np.int8)
    np.multiply(quants, half(blocks, 0), out=out, dtype=np.float32)


def _q2_k(blocks: Blocks, out: Floats) -> None:
    scales = blocks[:, :16]
    quants = pairs_of_bits(blocks[:, 16:80]).reshape(-1, 16, 16)
    step = (half(blocks, 80) * (scales & 15))[:, :, None]
    least = (half(blocks, 82) * (scales >> 4))[:, :, None]
    grouped = out.reshape(-1, 16, 16)
    np.multiply(quants, step, out=grouped, dtype=np.float32)
    grouped -= least


def _q3_k_scales(packed: Blocks) -> NDArray[np.int8]:
    """Sixteen 6-bit scales, low four bits in 8 bytes and high two in 4. (blocks, 12) -> (.., 16)"""
    low = nibbles(packed[:, :8]).reshape(-1, 16)
    shifts = np.array([0, 2, 4, 6], np.uint8).reshape(1, 4, 1)
    high = ((packed[:, None, 8:] >> shifts) & np.uint8(3)).reshape(-1, 16)
    return (low | (high << np.uint8(4))).view(np.int8) - np.int8(32)


def _q3_k(blocks: Blocks, out: Floats) -> None:
    low = pairs_of_bits(blocks[:, 32:96])
    shifts = np.arange(8, dtype=np.uint8).reshape(1, 8, 1)
    high = ((blocks[:, None, :32] >> shifts) & np.uint8(1)).reshape(-1, 256)
    quants = (low | (high << np.uint8(2))).view(np.int8).reshape(-1, 16, 16) - np.int8(4)
    step = half(blocks, 108) * _q3_k_scales(blocks[:, 96:108])
    np.multiply(quants, step[:, :, None], out=out.reshape(-1, 16, 16), dtype=np.float32)


def _six_bit_scales(packed: Blocks) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Eight 6-bit scales and eight 6-bit minima of Q4_K and Q5_K. (blocks, 12) -> 2 x (blocks, 8)

    The first four of each fill the low 6 bits of a byte; the last four have their low nibbles
    together in bytes 8 to 11 and their high pairs on top of the first four's bytes.
    """
    first, second, third = packed[:, 0:4], packed[:, 4:8], packed[:, 8:12]
    scales = np.concatenate((first & 63, (third & 15) | ((first >> 6) << 4)), axis=1)
    minima = np.concatenate((second & 63, (third >> 4) | ((second >> 6) << 4)), axis=1)
    return scales, minima


def _scaled_groups(blocks: Blocks, quants: NDArray[np.uint8], out: Floats) -> None:
    scales, minima = _six_bit_scales(blocks[:, 4:16])
    step = (half(blocks, 0) * scales)[:, :, None]
    least = (half(blocks, 2) * minima)[:, :, None]
    grouped = out.reshape(-1, 8, 32)
    np.multiply(quants.reshape(-1, 8, 32), step, out=grouped, dtype=np.float32)
    grouped -= least


def _nibble_groups(packed: Blocks) -> NDArray[np.uint8]:
    """Groups of 32 columns, low nibbles of 32 bytes before their high ones. (blocks, 256)"""
    return nibbles(packed.reshape(-1, 32)).reshape(-1, 256)


def _q4_k(blocks: Blocks, out: Floats) -> None:
    _scaled_groups(blocks, _nibble_groups(blocks[:, 16:]), out)


def _q5_k(blocks: Blocks, out: Floats) -> None:
    shifts = np.arange(8, dtype=np.uint8).reshape(1, 8, 1)
    high = ((blocks[:, None, 16:48] >> shifts) & np.uint8(1)).reshape(-1, 256)
    _scaled_groups(blocks, _nibble_groups(blocks[:, 48:]) | (high << np.uint8(4)), out)


def _q6_k(blocks: Blocks, out: Floats) -> None:
    low = nibbles(blocks[:, :128].reshape(-1, 64)).reshape(-1, 256)
    quants = (low | (pairs_of_bits(blocks[:, 128:192]) << 4)).view(np.int8) - np.int8(32)
    step = half(blocks, 208) * blocks[:, 192:208].view(np.int8)
    grouped = out.reshape(-1, 16, 16)
    np.multiply(quants.reshape(-1, 16, 16), step[:, :, None], out=grouped, dtype=np.float32)


def _iq4_nl(blocks: Blocks, out: Floats) -> None:
    np.multiply(NONLINEAR[nibbles(blocks[:, 2:]).reshape(-1, 32)], half(blocks, 0), out=out)


def _iq4_xs(blocks: Blocks, out: Floats) -> None:
    shifts = np.arange(0, 16, 2, dtype=np.uint16)
    high = (blocks[:, 2:4].copy().view(np.uint16) >> shifts) & 3  # (blocks, 8)
    low = np.stack((blocks[:, 4:8] & 15, blocks[:, 4:8] >> 4), axis=2).reshape(-1, 8)
    scales = (low | (high << 4)).astype(np.int8) - np.int8(32)
    step = (half(blocks, 0) * scales)[:, :, None]
    values = NONLINEAR[_nibble_groups_of_16(blocks[:, 8:])].reshape(-1, 8, 32)
    np.multiply(values, step, out=out.reshape(-1, 8, 32))


def _nibble_groups_of_16(packed: Blocks) -> NDArray[np.uint8]:
    """As `_nibble_groups`, with 16 bytes to a group. (blocks, 128) -> (blocks, 256)"""
    return nibbles(packed.reshape(-1, 16)).reshape(-1, 256)


_DECODERS: dict[str, Callable[[Blocks, Floats], None]] = {
    "F16": _f16,
    "BF16": _bf16,
    "Q4_0": _q4_0,
    "Q4_1": _q4_1,
    "Q5_0": _q5_0,
    "Q5_1": _q5_1,
    "Q8_0": _q8_0,
    "Q2_K": _q2_k,
    "Q3_K": _q3_k,
    "Q4_K": _q4_k,
    "Q5_K": _q5_k,
    "Q6_K": _q6_k,
    "IQ4_NL": _iq4_nl,
    "IQ4_XS": _iq4_xs,
    "IQ1_S": codebooks.iq1_s,
    "IQ1_M": codebooks.iq1_m,
    "IQ2_XXS": codebooks.iq2_xxs,
    "IQ2_XS": codebooks.iq2_xs,
    "IQ2_S": codebooks.iq2_s,
    "IQ3_XXS": codebooks.iq3_xxs,
    "IQ3_S": codebooks.iq3_s,
    "TQ1_0": few_bits.tq1_0,
    "TQ2_0": few_bits.tq2_0,
    "MXFP4": microfloats.mxfp4,
    "NVFP4": microfloats.nvfp4,
    "Q1_0": few_bits.q1_0,
    "Q2_0": few_bits.q2_0,
    "E4M3": float8.e4m3,
    "E5M2": float8.e5m2,
}
