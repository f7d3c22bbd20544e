"""Dequantisation against the golden floats: every executed type, bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pyrite.errors import UnsupportedError
from pyrite.quant.dequant import dequantize
from pyrite.quant.formats import EXECUTED, FORMATS, bytes_per_row, require_executed
from stored_types import Stored, expected_values, stored_tensors

SUFFIXES = [(name, suffix) for name in EXECUTED for suffix in ("", ".random")]
PLAIN = ("F32", "F16", "BF16")  # the fixture has no random bits of these


@pytest.fixture(scope="module")
def stored(golden: Path) -> dict[str, Stored]:
    return stored_tensors(golden)


@pytest.fixture(scope="module")
def expected(golden: Path) -> dict[str, np.ndarray]:
    return expected_values(golden)


@pytest.mark.parametrize(
    "name", [n + s for n, s in SUFFIXES if not (s and n in PLAIN)], ids=lambda name: name
)
def test_equals_the_reference_bit_for_bit(stored, expected, name):
    values = dequantize(*stored[name])
    assert values.dtype == np.float32
    np.testing.assert_array_equal(values, expected[name])


@pytest.mark.parametrize("name", EXECUTED)
def test_slices_join_without_a_seam(stored, name):
    """A tensor longer than one slice equals its rows one by one."""
    data, kind, shape = stored[name]
    repeats = 200  # 200 * 4 * 512 values are more than three slices
    many = dequantize(np.tile(data, repeats), kind, (repeats * shape[0], shape[1]))
    once = dequantize(data, kind, shape)
    np.testing.assert_array_equal(many, np.tile(once, (repeats, 1)))


def test_infinite_scale_is_carried_without_a_warning():
    block = np.zeros(18, np.uint8)
    block[:2] = np.array([np.inf], np.float16).view(np.uint8)
    assert not np.isfinite(dequantize(block, "Q4_0", (1, 32))).any()


def test_table_agrees_with_the_gguf_library():
    constants = pytest.importorskip("gguf").constants
    for kind, (columns, size) in constants.GGML_QUANT_SIZES.items():
        if kind.name == "Q8_1":  # some releases count its two scales as 4 bytes each; they are 2
            continue
        row = FORMATS[kind.name]
        assert (row.number, row.block_columns, row.block_bytes) == (int(kind), columns, size)


def test_row_bytes_and_refusal():
    assert bytes_per_row("Q4_K", 512) == 288
    assert require_executed("Q6_K", "w").block_bytes == 210
    with pytest.raises(UnsupportedError, match=r"blk\.0\.attn_q.* type F64"):
        require_executed("F64", "blk.0.attn_q.weight")
