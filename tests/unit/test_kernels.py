"""Products with packed weights: every type, every instruction set present, against NumPy.

Weights come from the golden file (quantised values, and random bit patterns), their meaning from
the golden floats. Tolerances are derived where they are used.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from pyrite._native import kernels
from pyrite.quant.dequant import dequantize
from pyrite.quant.float8 import VALUES
from pyrite.quant.formats import EXECUTED, FLOATS, FLOATS_8, FORMATS, bytes_per_row
from stored_types import Stored, expected_values, stored_tensors

ISAS = kernels.isa_names()
WIDE = (*FLOATS, *FLOATS_8)  # multiplied with activations that are not rounded
QUANTISED = tuple(name for name in EXECUTED if name not in WIDE)
CASES = [*EXECUTED, *(f"{name}.random" for name in (*QUANTISED, *FLOATS_8))]
EPS = 2.0**-24  # half the distance between float32 numbers at 1


@dataclass(frozen=True)
class Weights:
    """A matrix as a file stores it, and its panels."""

    type: str
    rows: int
    columns: int
    data: np.ndarray  # (bytes,)
    packed: np.ndarray  # (bytes,) 64-byte aligned

    @property
    def values(self) -> np.ndarray:
        return dequantize(self.data, self.type, (self.rows, self.columns))


def aligned(size: int) -> np.ndarray:
    """Bytes on a boundary of 64, filled with a pattern that packing has to overwrite."""
    buffer = np.full(size + 64, 0xA5, np.uint8)
    start = -buffer.ctypes.data % 64
    return buffer[start : start + size]


def pack(name: str, rows: int, columns: int, data: np.ndarray) -> Weights:
    panels = -(-rows // 16)
    packed = aligned(panels * kernels.packed_panel_bytes(name, columns))
    kernels.pack_panels(name, rows, columns, data, 0, panels, packed)
    return Weights(name, rows, columns, data, packed)


def multiply(
    weights: Weights,
    x: np.ndarray,
    isa: str,
    planes: int = 2,
    panels: tuple[int, int] | None = None,
) -> np.ndarray:
    first, last = panels or (0, -(-weights.rows // 16))
    product = kernels.Product(
        isa, weights.type, weights.rows, weights.columns, weights.packed, x, planes
    )
    outputs = min(weights.rows - first * 16, (last - first) * 16)
    out = np.full((len(x), outputs), np.nan, np.float32)
    product.run(out, first, last - first)
    return out


@pytest.fixture(scope="module")
def stored(golden: Path) -> dict[str, Stored]:
    return stored_tensors(golden)


@pytest.fixture(scope="module")
def golden_values(golden: Path) -> dict[str, np.ndarray]:
    return expected_values(golden)


def repeated(stored, case: str, rows: int) -> Weights:
    """`rows` rows made of the golden ones, cycled."""
    data, name, (have, columns) = stored[case]
    source = np.ascontiguousarray(data).reshape(have, -1)
    return pack(name, rows, columns, source[np.arange(rows) % have].reshape(-1))


def activations(rows: int, columns: int, seed: int = 1) -> np.ndarray:
    """Gaussian, with a few columns ten times as large, a zero block and a tiny one."""
    random = np.random.default_rng(seed)
    x = random.standard_normal((rows, columns)).astype(np.float32)
    x[:, ::37] *= 10
    x[0, :32] = 0
    x[-1, :16] *= 1e-20
    return x


def rounded(x: np.ndarray, planes: int) -> np.ndarray:
    """The activations that the kernels use: q * s in float64, block by block. See activations.h."""
    limit = np.float32(32639 if planes == 2 else 127)
    blocks = x.reshape(len(x), -1, 32)
    largest = np.abs(blocks).max(axis=2, keepdims=True)
    inverse = np.divide(limit, largest, out=np.zeros_like(largest), where=largest > 0)
    q = np.rint(blocks * inverse)
    return (q.astype(np.float64) * (largest / limit)).reshape(x.shape)


def tolerance(weights: Weights, x: np.ndarray) -> np.ndarray:
    """Bound of the float32 error of a product with exact integers inside of a block.

    A step's integer is rounded once, its factor once (the type's own step, d times an integer, is
    exact), and each of n fused additions rounds a partial sum that the sum of magnitudes bounds.
    With an offset, sum and offset part are each as large as |offset| * sum of |x|, and there are
    twice as many additions. Float types add column by column; those of 8 bits within 32 columns,
    then these sums, and a value of `weights.values` is rounded itself.
    """
    values = np.abs(weights.values.astype(np.float64))
    size = np.abs(x) @ values.T
    if weights.type in FLOATS:
        return (weights.columns + 1) * EPS * size
    if weights.type in FLOATS_8:
        return (32 + weights.columns / 32 + 2) * EPS * size
    spread = np.abs(weights.values).max(axis=1).astype(np.float64)  # (rows,)
    size = size + 4 * np.abs(x).sum(axis=1, keepdims=True) * spread
    return (2 * weights.columns / 16 + 4) * EPS * size


@pytest.mark.parametrize("case", CASES)
def test_unpacking_gives_the_golden_floats(stored, golden_values, case):
    weights = repeated(stored, case, 19)
    expected = golden_values[case]
    out = np.empty(weights.columns, np.float32)
    for row in range(19):
        kernels.unpack_row(weights.type, 19, weights.columns, weights.packed, row, out)
        np.testing.assert_array_equal(out, expected[row % len(expected)])


@pytest.mark.parametrize("planes", [1, 2])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("isa", ISAS)
def test_product_equals_numpy(stored, isa, case, planes):
    weights = repeated(stored, case, 18)
    x = activations(5, weights.columns)
    used = x.astype(np.float64) if weights.type in WIDE else rounded(x, planes)
    expected = used @ weights.values.astype(np.float64).T
    error = np.abs(multiply(weights, x, isa, planes) - expected)
    assert (error <= tolerance(weights, used)).all()


@pytest.mark.parametrize("case", CASES)
def test_default_precision_keeps_fifteen_bits(stored, case):
    """Rounding moves an activation by at most half a step, its block's largest / (2 * 32639)."""
    weights = repeated(stored, case, 18)
    x = activations(5, weights.columns)
    blocks = np.abs(x).reshape(5, -1, 32).max(axis=2, keepdims=True)
    step = np.broadcast_to(blocks / 32639 / 2, (5, x.shape[1] // 32, 32)).reshape(x.shape)
    values = weights.values.astype(np.float64)
    allowed = step.astype(np.float64) @ np.abs(values).T + tolerance(weights, x)
    error = np.abs(multiply(weights, x, "") - x.astype(np.float64) @ values.T)
    assert (error <= allowed * 1.001).all()


@pytest.mark.parametrize("planes", [1, 2])
@pytest.mark.parametrize("case", CASES)
def test_every_instruction_set_gives_the_same_bits(stored, case, planes):
    weights = repeated(stored, case, 33)
    x = activations(41, weights.columns)
    first = multiply(weights, x, ISAS[0], planes)
    for isa in ISAS[1:]:
        np.testing.assert_array_equal(multiply(weights, x, isa, planes), first)


# The bytes that make a block's scales 1, and where they stand, if not one float16 at its start; and
# where it has its steps.
ONE = np.float16(1).tobytes()
SCALES = {
    **dict.fromkeys(("Q4_1", "Q5_1", "Q4_K", "Q5_K"), (0, ONE * 2)),
    "Q2_K": (80, ONE * 2),
    "Q3_K": (108, ONE),
    "Q6_K": (208, ONE),
    "IQ1_M": (48, np.array([0x0FFF, 0x0FFF, 0xCFFF, 0x3FFF], "<u2").tobytes()),  # and steps of 15
    "TQ1_0": (52, ONE),
    "TQ2_0": (64, ONE),
    "MXFP4": (0, bytes([128])),
    "NVFP4": (0, b""),
}
STEPS = {
    "Q2_K": slice(0, 16),
    "Q3_K": slice(96, 108),
    "Q4_K": slice(4, 16),
    "Q5_K": slice(4, 16),
    "Q6_K": slice(192, 208),
    "IQ4_XS": slice(2, 8),
    "NVFP4": slice(0, 4),
}


def filled(name: str, codes: int, steps: int) -> Weights:
    """16 rows of 256 columns: all bytes of codes the same, and those of steps; scales of 1."""
    columns = FORMATS[name].block_columns
    blocks = np.full((16 * 256 // columns, bytes_per_row(name, columns)), codes, np.uint8)
    blocks[:, STEPS.get(name, slice(0))] = steps
    start, scales = SCALES.get(name, (0, ONE))
    blocks[:, start : start + len(scales)] = np.frombuffer(scales, np.uint8)
    return pack(name, 16, 256, blocks.reshape(-1))


@pytest.mark.parametrize("planes", [1, 2])
@pytest.mark.parametrize("codes", [0x00, 0x7F, 0x80, 0xFF])
@pytest.mark.parametrize("name", QUANTISED)
def test_no_sum_overflows(name, codes, planes):
    """Codes, steps and activations are all at their ends, with signs that add up or cancel."""
    x = np.ones((12, 256), np.float32)
    x[1::4] = -1
    x[2::4, ::2] = -1
    x[3::4, 16:] = -1
    for steps in (0x00, 0x7F, 0x80, 0xFF) if name in STEPS else (0,):
        weights = filled(name, codes, steps)
        expected = rounded(x, planes) @ weights.values.astype(np.float64).T
        for isa in ISAS:
            found = multiply(weights, x, isa, planes)
            assert (np.abs(found - expected) <= tolerance(weights, x)).all()
            np.testing.assert_array_equal(multiply(weights, x[:4], isa, planes), found[:4])


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("isa", ISAS)
def test_rows_and_panels_do_not_depend_on_company(stored, isa, case):
    weights = repeated(stored, case, 50)
    x = activations(67, weights.columns)
    for planes in (1, 2):
        whole = multiply(weights, x, isa, planes)
        for rows in (*range(1, 10), 16, 31):
            np.testing.assert_array_equal(multiply(weights, x[:rows], isa, planes), whole[:rows])
        np.testing.assert_array_equal(multiply(weights, x[66:], isa, planes), whole[66:])
        part = multiply(weights, x[:3], isa, planes, panels=(1, 3))
        np.testing.assert_array_equal(part, whole[:3, 16:48])


@pytest.mark.parametrize("rows", [1, 15, 16, 17, 384])
@pytest.mark.parametrize("name", ["Q4_1", "Q6_K", "F16"])
@pytest.mark.parametrize("isa", ISAS)
def test_any_number_of_outputs(stored, isa, name, rows):
    """The rest of a panel is neither read as weights nor written: `out` is exactly as wide."""
    weights = repeated(stored, name, rows)
    x = activations(3, weights.columns)
    np.testing.assert_array_equal(
        multiply(weights, x, isa), multiply(repeated(stored, name, 400), x, isa)[:, :rows]
    )


@pytest.mark.parametrize("columns", [24, 96, 160])
@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("isa", ISAS)
def test_float_types_take_any_number_of_columns(isa, name, columns):
    random = np.random.default_rng(2)
    data = random.standard_normal((20, columns)).astype(np.float32)
    if name == "F16":
        stored = data.astype(np.float16).view(np.uint8)
    else:
        stored = (
            data.view(np.uint8) if name == "F32" else (data.view(np.uint32) >> 16).astype("<u2")
        )
    weights = pack(name, 20, columns, np.ascontiguousarray(stored).view(np.uint8).reshape(-1))
    x = random.standard_normal((6, columns)).astype(np.float32)
    expected = x.astype(np.float64) @ weights.values.astype(np.float64).T
    error = np.abs(multiply(weights, x, isa) - expected)
    assert (error <= tolerance(weights, x.astype(np.float64))).all()


@pytest.mark.parametrize("columns", [128, 384, 640])
@pytest.mark.parametrize("name", FLOATS_8)
@pytest.mark.parametrize("isa", ISAS)
def test_half_a_unit_of_eight_bit_floats(stored, isa, name, columns):
    """Units have two blocks of 128 columns, and the last one may have one."""
    blocks = stored[f"{name}.random"][0].reshape(-1, 132)
    order = np.random.default_rng(4).integers(len(blocks), size=(37, columns // 128))
    weights = pack(name, 37, columns, blocks[order].reshape(-1))
    x = activations(15, columns)
    expected = x.astype(np.float64) @ weights.values.astype(np.float64).T
    found = multiply(weights, x, isa)
    assert (np.abs(found - expected) <= tolerance(weights, x.astype(np.float64))).all()
    np.testing.assert_array_equal(multiply(weights, x[:1], isa), found[:1])


@pytest.mark.parametrize("name", FLOATS_8)
@pytest.mark.parametrize("isa", ISAS)
def test_every_code_is_what_it_means(isa, name):
    """One column has a weight: the sum is exact, with subnormal codes too."""
    numbers = [code for code in range(256) if np.isfinite(VALUES[name][code])]
    blocks = np.zeros((len(numbers), 132), np.uint8)
    blocks[:, :4] = np.array([0.75], np.float32).view(np.uint8)
    blocks[:, 4 + 77] = numbers
    x = np.zeros((3, 128), np.float32)
    x[:, 77] = [1, -3, 0.5]
    found = multiply(pack(name, len(numbers), 128, blocks.reshape(-1)), x, isa)
    np.testing.assert_array_equal(found, x[:, 77:78] * 0.75 * VALUES[name][numbers])


@pytest.mark.parametrize("columns", [256, 768, 2304])
@pytest.mark.parametrize("name", ["Q4_K", "Q3_K", "Q2_K"])
def test_long_rows(stored, name, columns):
    """Rows of one, three and nine blocks: areas of a panel are found by their number of blocks."""
    data = stored[f"{name}.random"][0]
    per_block = bytes_per_row(name, 256)
    blocks = np.ascontiguousarray(data).reshape(-1, per_block)
    order = np.random.default_rng(3).integers(len(blocks), size=(17, columns // 256))
    weights = pack(name, 17, columns, blocks[order].reshape(-1))
    x = activations(2, columns)
    used = rounded(x, 2)
    expected = used @ weights.values.astype(np.float64).T
    assert (np.abs(multiply(weights, x, "") - expected) <= tolerance(weights, used)).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["Q4_0", "Q4_1", "Q8_0", "F32", "E4M3", "E5M2"])
@pytest.mark.parametrize("isa", ISAS)
def test_a_bad_activation_stays_in_sight_and_in_its_row(stored, isa, name, bad):
    weights = repeated(stored, name, 16)
    x = activations(4, weights.columns)
    clean = multiply(weights, x, isa)
    x[2, 100] = bad
    dirty = multiply(weights, x, isa)
    used = weights.values[:, 100] != 0 if name in WIDE else slice(None)
    assert not np.isfinite(dirty[2, used]).any()
    np.testing.assert_array_equal(np.delete(dirty, 2, 0), np.delete(clean, 2, 0))


def test_packed_panels_do_not_depend_on_how_they_are_cut(stored):
    for name in EXECUTED:
        weights = repeated(stored, name, 40)
        panel = kernels.packed_panel_bytes(name, weights.columns)
        one = aligned(panel)
        for first in range(3):
            kernels.pack_panels(name, 40, weights.columns, weights.data, first, 1, one)
            np.testing.assert_array_equal(one, weights.packed[first * panel : (first + 1) * panel])


# Points of a grid become digits and signs, of 3 bits or 4; five digits in a byte have 2 bits each.
UNFOLDED = {
    "IQ1_S": 1.48,
    "IQ1_M": 2.04,
    "IQ2_XXS": 1.61,
    "IQ2_XS": 1.55,
    "IQ2_S": 1.4,
    "IQ3_XXS": 1.41,
    "IQ3_S": 1.26,
    "TQ1_0": 1.23,
}


@pytest.mark.parametrize("name", EXECUTED)
def test_packing_keeps_the_size(name):
    """Decode is bound by memory: packed weights may be 4 % larger than the file's at most."""
    columns = 2048
    packed = kernels.packed_panel_bytes(name, columns)
    stored = 16 * bytes_per_row(name, columns)
    assert stored <= packed <= stored * UNFOLDED.get(name, 1.04)


def test_instruction_sets_are_chosen_by_name():
    assert ISAS[0] == "scalar"
    assert kernels.chosen_isa() == ISAS[-1]
    assert kernels.chosen_isa("scalar") == "scalar"


def test_an_absent_instruction_set_is_an_error_that_lists_the_others():
    here = f"has {', '.join(ISAS)}$"
    with pytest.raises(ValueError, match=rf"^mmx: .*known \(scalar, .*avx2.*neon.*\).*{here}"):
        kernels.chosen_isa("mmx")
    absent = "avx2" if "neon" in ISAS else "neon"
    with pytest.raises(ValueError, match=f"^{absent}: this processor or build lacks.*{here}"):
        kernels.chosen_isa(absent)


def test_wrong_sizes_are_refused(stored):
    weights = repeated(stored, "Q4_0", 20)
    with pytest.raises(ValueError, match="multiple of 256"):
        kernels.packed_panel_bytes("Q4_K", 96)
    with pytest.raises(ValueError, match="Q8_K"):
        kernels.packed_panel_bytes("Q8_K", 256)
    with pytest.raises(ValueError, match="source must have"):
        kernels.pack_panels("Q4_0", 20, 512, weights.data[1:], 0, 2, weights.packed)
    with pytest.raises(ValueError, match="panels are out of range"):
        kernels.pack_panels("Q4_0", 20, 512, weights.data, 1, 2, weights.packed)
    product = kernels.Product(
        "", "Q4_0", 20, 512, weights.packed, np.zeros((2, 512), np.float32), 2
    )
    with pytest.raises(ValueError, match="rows are out of range"):
        product.run(np.zeros((2, 20), np.float32), 0, 2, first_row=1)
    with pytest.raises(ValueError, match="column for each output"):
        product.run(np.zeros((2, 19), np.float32), 0, 2)
