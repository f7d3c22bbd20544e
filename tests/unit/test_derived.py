"""Derived tensors: the rows that are read are those of the tensor that they describe."""

from __future__ import annotations

import numpy as np
import pytest

from pyrite.errors import TensorError, UnsupportedError
from pyrite.formats import derived
from pyrite.formats.checkpoint import Tensor
from pyrite.quant.dequant import dequantize


def tensor(values, name: str = "t", kind: str = "F32") -> Tensor:
    data = derived.encoded(np.ascontiguousarray(values, np.float32), kind)
    return Tensor(name, kind, values.shape, data)


def matrix(rows: int, columns: int, seed: int = 0):
    return np.random.default_rng(seed).standard_normal((rows, columns)).astype(np.float32)


def check(found: Tensor, expected) -> None:
    """The whole, and every run of rows."""
    assert found.shape == expected.shape
    flat = expected.reshape(-1, expected.shape[-1])
    assert found.num_bytes == found.read().nbytes
    for first in range(found.num_rows + 1):
        for count in range(found.num_rows - first + 1):
            data = found.read(first, count)
            values = dequantize(data, found.type, (count, expected.shape[-1]))
            np.testing.assert_array_equal(values, flat[first : first + count])


def test_moved_columns():
    values = matrix(5, 12)
    moved = values.reshape(5, 3, 4)[:, [2, 0, 1]].reshape(5, 12)
    order = np.array([2, 0, 1])
    for kind in ("F32", "BF16"):
        whole = tensor(values, kind=kind)
        held = dequantize(whole.read(), kind, (5, 12))
        expected = held.reshape(5, 3, 4)[:, order].reshape(5, 12)
        check(derived.picked_columns(whole, order, 4), expected)
    assert not np.array_equal(moved, values)
    blocks = Tensor("t", "Q8_0", (2, 96), np.arange(2 * 102, dtype=np.uint8))
    expected = dequantize(blocks.read(), "Q8_0", (2, 96)).reshape(2, 3, 32)[:, order]
    check(derived.picked_columns(blocks, order, 32), expected.reshape(2, 96))
    with pytest.raises(UnsupportedError, match=r"t has type Q8_0: 16 columns"):
        derived.picked_columns(blocks, np.arange(6), 16)


def test_picked_values_of_what_is_made():
    vector = derived.computed(tensor(matrix(1, 6)[0]), lambda x, _: x + 1, "one more")
    check(derived.picked_rows(vector, [4, 1, 1]), (matrix(1, 6)[0] + 1)[[4, 1, 1]])


def test_pieces():
    values = matrix(6, 4)
    check(derived.rows_of(tensor(values), "r", 2, 3), values[2:5])
    check(derived.picked_rows(tensor(values), [5, 0, 0, 3]), values[[5, 0, 0, 3]])
    check(derived.transposed(tensor(values)), values.T)
    check(derived.reshaped(tensor(values), (2, 3, 4)), values.reshape(2, 3, 4))
    check(derived.rows_of(derived.transposed(tensor(values)), "r", 1, 2), values.T[1:3])


def test_rows_of_each_matrix():
    parts = np.stack([matrix(6, 4, seed) for seed in range(3)])
    stack = tensor(parts)
    check(derived.rows_of_each(stack, "r", 2, 3), parts[:, 2:5])
    check(derived.rows_of_each(stack, "r", 1, 3, step=2), parts[:, 1::2])
    check(
        derived.rows_of_each(derived.transposed(stack), "r", 1, 2, 2), parts.swapaxes(1, 2)[:, 1::2]
    )


def test_all_values_as_a_vector():
    values = matrix(3, 4)
    check(derived.flattened(tensor(values)), values.reshape(-1))
    check(derived.flattened(derived.stacked("s", [tensor(values)])), values.reshape(-1))


def test_a_vector_is_picked_by_its_values():
    values = matrix(1, 6)[0]
    found = derived.picked_rows(tensor(values), [3, 1, 0, 2, 5, 4])
    np.testing.assert_array_equal(found.read().view(np.float32), values[[3, 1, 0, 2, 5, 4]])


def test_parts_in_order():
    parts = [matrix(3, 4, seed) for seed in range(4)]
    check(derived.stacked("s", [tensor(part) for part in parts]), np.stack(parts))
    uneven = [matrix(rows, 4, rows) for rows in (1, 3, 2)]
    check(derived.joined("j", [tensor(part) for part in uneven]), np.concatenate(uneven))
    stack = derived.transposed(derived.stacked("s", [tensor(part) for part in parts]))
    check(stack, np.stack(parts).transpose(0, 2, 1))


def test_computed_values_know_their_rows():
    values = matrix(5, 3)
    found = derived.computed(tensor(values), lambda x, first: x + np.float32(first), "test")
    np.testing.assert_array_equal(found.read(2, 2).view(np.float32).reshape(2, 3), values[2:4] + 2)


@pytest.mark.parametrize("kind", ["F16", "BF16"])
def test_rounding_is_to_nearest_even(kind):
    values = np.array([[1, 1 + 2**-9, 1 + 3 * 2**-9, 1 + 2**-12, -65504, 1e-8]], np.float32)
    found = dequantize(derived.encoded(values, kind), kind, values.shape)
    halves = 2.0**-8 if kind == "BF16" else 2.0**-11
    assert np.abs(found - values).max() <= np.abs(values).max() * halves
    if kind == "BF16":
        assert found[0, 1] == 1  # a tie, to even
        assert found[0, 2] == 1 + 2**-7


def test_parts_that_differ_are_refused():
    with pytest.raises(TensorError, match="make one tensor"):
        derived.stacked("s", [tensor(matrix(2, 3)), tensor(matrix(3, 3), "other")])


def test_blocks_cannot_be_transposed():
    blocks = Tensor("b", "Q8_0", (4, 32), np.zeros(4 * 34, np.uint8))
    with pytest.raises(UnsupportedError, match="Q8_0"):
        derived.transposed(blocks)
