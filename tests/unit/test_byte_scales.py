"""Scales of one byte, all 256 of them: their meaning, unpacked rows, and products, which are exact
here on every instruction set."""

from __future__ import annotations

import numpy as np
import pytest

from pyrite._native import kernels
from pyrite.quant.dequant import dequantize
from pyrite.quant.formats import FORMATS

ISAS = kernels.isa_names()
SCALE_COLUMNS = {"MXFP4": 32, "NVFP4": 16}  # under one scale; a block has its scales first


def e8m0(byte: int) -> float:
    return 2.0 ** (byte - 127)


def e4m3(byte: int) -> float:
    """Without a sign: the highest bit is ignored, and what would be no number is 0."""
    exponent, fraction = byte >> 3 & 15, byte & 7
    if byte == 0x7F:
        return 0.0
    return fraction / 512 if exponent == 0 else (1 + fraction / 8) * 2.0 ** (exponent - 7)


MEANING = {"MXFP4": e8m0, "NVFP4": e4m3}
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def one_of_each(name: str) -> np.ndarray:
    """256 rows of a block; the first scale of row i is byte i. Its columns have all codes."""
    row = FORMATS[name]
    blocks = np.zeros((256, row.block_bytes), np.uint8)
    blocks[:, 0] = np.arange(256)
    start = row.block_columns // SCALE_COLUMNS[name]
    half = SCALE_COLUMNS[name] // 2
    blocks[:, start : start + half] = np.arange(half) % 8 * 0x11 + 0x80  # low: 0-7, high: 8-15
    return blocks.reshape(-1)


def packed(name: str, data: np.ndarray) -> np.ndarray:
    size = 16 * kernels.packed_panel_bytes(name, FORMATS[name].block_columns)
    buffer = np.zeros(size + 64, np.uint8)
    start = -buffer.ctypes.data % 64
    out = buffer[start : start + size]
    kernels.pack_panels(name, 256, FORMATS[name].block_columns, data, 0, 16, out)
    return out


def meant(name: str) -> np.ndarray:
    """Those rows' values, in float64: the largest of MXFP4 are past float32. (256, columns)"""
    scales = np.array([MEANING[name](byte) for byte in range(256)])
    first = np.concatenate([np.outer(scales, E2M1), np.outer(scales, -np.array(E2M1))], axis=1)
    half = SCALE_COLUMNS[name] // 2
    both = np.tile(first.reshape(256, 2, 8), half // 8).reshape(256, -1)
    return np.pad(both, ((0, 0), (0, FORMATS[name].block_columns - both.shape[1])))


def in_float32(values: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


@pytest.mark.parametrize("name", SCALE_COLUMNS)
def test_each_scale_has_its_meaning(name):
    values = dequantize(one_of_each(name), name, meant(name).shape)
    np.testing.assert_array_equal(values, in_float32(meant(name)))


@pytest.mark.parametrize("name", SCALE_COLUMNS)
def test_each_scale_is_unpacked_as_it_is_meant(name):
    columns = FORMATS[name].block_columns
    data = one_of_each(name)
    expected = dequantize(data, name, (256, columns))
    panels, out = packed(name, data), np.empty(columns, np.float32)
    for row in range(256):
        kernels.unpack_row(name, 256, columns, panels, row, out)
        np.testing.assert_array_equal(out, expected[row])


@pytest.mark.parametrize("planes", [1, 2])
@pytest.mark.parametrize("name", SCALE_COLUMNS)
@pytest.mark.parametrize("isa", ISAS)
def test_each_scale_is_multiplied_as_it_is_meant(name, isa, planes):
    """A row with one number that is not 0, the largest whole one: its scale is 1, a block's sum has
    20 bits at most, and nothing is rounded but what float32 cannot hold."""
    columns = FORMATS[name].block_columns
    data = one_of_each(name)
    largest = 32639 if planes == 2 else 127
    x = np.eye(columns, dtype=np.float32)[:16] * np.float32(largest)
    product = kernels.Product(isa, name, 256, columns, packed(name, data), x, planes)
    expected = in_float32(x.astype(np.float64) @ meant(name).T)
    for rows in (1, 4, 16):
        out = np.empty((rows, 256), np.float32)
        product.run(out, 0, 16)
        np.testing.assert_array_equal(out, expected[:rows])
