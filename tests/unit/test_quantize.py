"""Quantizers: against plain definitions, against errors reached elsewhere, and as relations."""

from __future__ import annotations

import numpy as np
import pytest

from pyrite._native import kernels
from pyrite._native import quantize as native
from pyrite.errors import TensorError
from pyrite.quant.dequant import dequantize
from pyrite.quant.formats import bytes_per_row
from pyrite.quant.quantize import QUANTIZED, floored, quantize

BLOCKS = tuple(name for name in QUANTIZED if name not in ("F32", "F16", "BF16"))

# Root mean squared error over the standard deviation, of gaussian values, without importance: what
# llama.cpp's quantizers reach (by libgguf 0.2.2, 512 x 2048 values, seed 0), than which ours
# must not be worse. Theirs depends on the values by less than 1 %.
REACHED = {
    "Q4_0": 0.0859,
    "Q4_1": 0.0782,
    "Q5_0": 0.0427,
    "Q5_1": 0.0378,
    "Q8_0": 0.00535,
    "Q2_K": 0.2966,
    "Q3_K": 0.1507,
    "Q4_K": 0.0714,
    "Q5_K": 0.0361,
    "Q6_K": 0.01774,
    "IQ4_NL": 0.0761,
    "IQ4_XS": 0.0767,
}


def gaussian(rows=64, columns=2048, seed=0):
    return np.random.default_rng(seed).standard_normal((rows, columns), dtype=np.float32)


def back(blocks, name, columns):
    return dequantize(blocks.reshape(-1), name, (len(blocks), columns))


def error(values, name, importance=None, **options):
    found = back(quantize(values, name, importance, **options), name, values.shape[1])
    weights = 1.0 if importance is None else importance.astype(np.float64)
    return float(np.mean(weights * (found.astype(np.float64) - values) ** 2))


@pytest.mark.parametrize("name", BLOCKS)
def test_error_is_no_worse_than_what_is_reached_elsewhere(name):
    assert set(REACHED) == set(BLOCKS)
    assert np.sqrt(error(gaussian(), name)) <= REACHED[name]


@pytest.mark.parametrize("name", BLOCKS)
def test_importance_moves_error_to_where_it_counts_less(name):
    values = gaussian()
    importance = np.random.default_rng(1).lognormal(0, 1.5, values.shape[1]).astype(np.float32)
    plain = back(quantize(values, name), name, values.shape[1]).astype(np.float64)
    ignored = float(np.mean(importance * (plain - values) ** 2))
    assert error(values, name, importance) <= (1.0 if name == "Q8_0" else 0.97) * ignored


@pytest.mark.parametrize("name", QUANTIZED)
@pytest.mark.parametrize("weighted", [False, True])
def test_bytes_are_the_same_on_every_instruction_set_and_for_any_threads(
    name, weighted, monkeypatch
):
    values = gaussian(33, 768)
    importance = np.linspace(0, 2, 768, dtype=np.float32) if weighted else None
    expected = quantize(values, name, importance)
    for isa in kernels.isa_names():
        monkeypatch.setenv("PYRITE_ISA", isa)
        np.testing.assert_array_equal(quantize(values, name, importance, num_threads=3), expected)


@pytest.mark.parametrize("name", QUANTIZED)
def test_rows_alone_are_rows_together(name):
    """Tiles cross rows: what is beside a row changes nothing. 256 columns are half a tile."""
    values = gaussian(5, 256)
    importance = np.linspace(0.1, 2, 256, dtype=np.float32)
    together = quantize(values, name, importance)
    alone = [quantize(values[i : i + 1], name, importance)[0] for i in range(5)]
    np.testing.assert_array_equal(together, alone)


@pytest.mark.parametrize("name", QUANTIZED)
def test_values_that_a_type_holds_stay(name):
    """What was quantized once is quantized again with hardly another error."""
    once = back(quantize(gaussian(8, 512), name), name, 512)
    assert np.sqrt(error(once, name)) <= 0.35 * REACHED.get(name, 1e-9) + 1e-12


@pytest.mark.parametrize("name", QUANTIZED)
@pytest.mark.parametrize("value", [0.0, -0.0, 1e-30, 0.5, -3.0])
def test_constant_rows(name, value):
    values = np.full((2, 256), value, np.float32)
    found = back(quantize(values, name), name, 256)
    # The scale is a float16 (11 bits), of superblocks times a whole number of 4 bits at least.
    np.testing.assert_allclose(found, values, rtol=0.035, atol=1e-7)


@pytest.mark.parametrize("name", QUANTIZED[1:])
def test_what_has_no_place_is_refused_by_its_row(name):
    for value in (np.nan, np.inf, -np.inf) + (() if name == "BF16" else (65536.0,)):
        values = gaussian(300, 256)
        values[257, 131] = values[299, 0] = value
        with pytest.raises(TensorError, match="row 257 holds"):
            quantize(values, name, num_threads=2)


def test_plain_floats_are_rounded_to_nearest_even():
    values = gaussian(7, 100) * np.float32(300)
    np.testing.assert_array_equal(
        quantize(values, "F16").view(np.float16), values.astype(np.float16)
    )
    found = quantize(values, "BF16").view(np.uint16).astype(np.uint32) << 16
    bits = values.view(np.uint32)
    rounded = (bits.astype(np.uint64) + 0x7FFF + (bits >> 16 & 1)).astype(np.uint32)
    np.testing.assert_array_equal(found, rounded & np.uint32(0xFFFF0000))
    np.testing.assert_array_equal(quantize(values, "F32").view(np.float32), values)


def test_q8_0_by_its_definition():
    values = gaussian(4, 96)
    groups = values.reshape(-1, 32)
    scale = (np.abs(groups).max(axis=1) * np.float32(1 / 127)).astype(np.float16)
    inverse = np.float32(1) / scale.astype(np.float32)
    codes = np.clip(np.rint(groups * inverse[:, None]), -127, 127).astype(np.int8)
    blocks = quantize(values, "Q8_0").reshape(-1, 34)
    np.testing.assert_array_equal(blocks[:, :2].copy().view(np.float16)[:, 0], scale)
    np.testing.assert_array_equal(blocks[:, 2:].view(np.int8), codes)


@pytest.mark.parametrize("name", ["Q4_0", "Q5_0", "Q4_1", "Q5_1", "IQ4_NL"])
def test_codes_are_the_nearest_for_their_scale(name):
    """No code of a block could be changed for a better one, whatever scale was found."""
    values = gaussian(4, 64, seed=5)
    blocks = quantize(values, name).reshape(-1, bytes_per_row(name, 32))
    found = back(blocks, name, 32)
    start = {"Q4_0": 2, "Q5_0": 6, "Q4_1": 4, "Q5_1": 8, "IQ4_NL": 2}[name]
    for change in range(1, 16):
        other = blocks.copy()
        other[:, start:] ^= change | change << 4  # of the low bits of all codes
        off = np.abs(back(other, name, 32) - values.reshape(-1, 32))
        # Half a unit of float32 in a quotient decides between neighbours as good as each other.
        assert (np.abs(found - values.reshape(-1, 32)) <= off + 1e-6).all()


def test_no_column_is_worth_nothing():
    assert floored(np.zeros(32, np.float32)) is None
    weights = floored(np.array([0, 0, 4], np.float32))
    assert weights is not None
    assert weights.min() > 0
    assert weights.max() == 3


def test_the_binding_checks_what_it_is_given():
    out = np.empty((2, 18), np.uint8)
    values = np.zeros((2, 32), np.float32)
    for name, rows, importance, target, threads, words in (
        ("Q9", values, None, out, 1, "not a type"),
        ("Q4_K", values, None, out, 1, "multiple of 256"),
        ("Q4_0", values[:1], None, out, 1, "18 bytes"),
        ("Q4_0", values, np.zeros(31, np.float32), out, 1, "each column"),
        ("Q4_0", values, None, out, 0, "num_threads"),
    ):
        with pytest.raises(ValueError, match=words):
            native.quantize_rows("", name, rows, importance, target, threads, 1.0)
    with pytest.raises(ValueError, match="abacus"):
        native.quantize_rows("abacus", "Q4_0", values, None, out, 1, 1.0)
