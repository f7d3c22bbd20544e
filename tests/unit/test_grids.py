"""Grids of IQ1, IQ2 and IQ3: every point, as the gguf library has it and as packing reads it."""

from __future__ import annotations

import numpy as np
import pytest

from pyrite._native import kernels
from pyrite.quant.dequant import dequantize
from pyrite.quant.formats import FORMATS
from pyrite.quant.grids import GRIDS, points

ROWS = 1024
SIZES = {"IQ1_S": 2048, "IQ2_XXS": 256, "IQ2_XS": 512, "IQ2_S": 1024, "IQ3_XXS": 256, "IQ3_S": 512}


@pytest.mark.parametrize("name", GRIDS)
def test_a_grid_has_points_without_repetition(name):
    grid = points(name)
    assert grid.shape == (SIZES[name], GRIDS[name].columns)
    assert len(np.unique(grid, axis=0)) == len(grid)
    assert set(np.unique(grid)) == set(GRIDS[name].coordinates)


@pytest.mark.parametrize("name", GRIDS)
def test_points_are_those_of_the_gguf_library(name):
    quants = pytest.importorskip("gguf").quants
    theirs = getattr(quants, name)
    theirs.init_grid()
    np.testing.assert_array_equal(points(name), theirs.grid.reshape(SIZES[name], -1))


def random_blocks(name: str) -> np.ndarray:
    """So many that a point of 2048 is missed with a probability of e^-16, and the seed is fixed;
    scales are finite."""
    blocks = np.random.default_rng(5).integers(0, 256, (ROWS, FORMATS[name].block_bytes), np.uint8)
    blocks[:, 55 if name == "IQ1_M" else 1] &= 0x3F
    return blocks.reshape(-1)


@pytest.mark.parametrize("name", [*GRIDS, "IQ1_M"])
def test_each_point_is_packed_as_it_is_meant(name):
    data = random_blocks(name)
    expected = dequantize(data, name, (ROWS, 256))
    size = ROWS // 16 * kernels.packed_panel_bytes(name, 256)
    buffer = np.zeros(size + 64, np.uint8)
    start = -buffer.ctypes.data % 64
    packed = buffer[start : start + size]
    kernels.pack_panels(name, ROWS, 256, data, 0, ROWS // 16, packed)
    out = np.empty((ROWS, 256), np.float32)
    for row in range(ROWS):
        kernels.unpack_row(name, ROWS, 256, packed, row, out[row])
    np.testing.assert_array_equal(out, expected)
