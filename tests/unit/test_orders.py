"""GPTQ's columns out of order: sorted by group for products, float16 for all else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_prequantized import GPTQ, Matrix, folder_of, gptq

from pyrite.export import as_gguf_file
from pyrite.formats import derived
from pyrite.formats.checkpoint import Tensor, open_checkpoint
from pyrite.formats.derived import values_of
from pyrite.formats.packed_integers import Parts, read_gptq
from pyrite.graph.ops import Pick
from pyrite.models.orders import orders_of, sorted_columns
from pyrite.models.registry import build_plan, open_model

SETTINGS = GPTQ | {"sym": False, "desc_act": True}


def shuffled(rows: int, columns: int, seed: int = 1) -> Matrix:
    random = np.random.default_rng(seed)
    matrix = Matrix(random, rows, columns, 4, False)
    random.shuffle(matrix.order)
    return matrix


def read(matrix: Matrix, name: str = "blk.0.attn_q.weight") -> Tensor:
    names = {"int32": "I32", "float16": "F16"}
    parts = {
        kind: Tensor(kind, names[data.dtype.name], data.shape, data.reshape(-1).view(np.uint8))
        for kind, data in ((kind, np.ascontiguousarray(x)) for kind, x in gptq(matrix, 4).items())
    }
    return read_gptq(Parts(name, parts), SETTINGS)


def restored(tensors: dict[str, Tensor], name: str) -> np.ndarray:
    """The values of a sorted matrix where their columns were."""
    order = values_of(tensors[orders_of(tensors)[name]]).reshape(-1).astype(np.int64)
    values = values_of(tensors[name])
    whole = np.empty_like(values)
    whole[:, order] = values
    return whole


def test_sorted_columns_are_the_same_matrix():
    matrix = shuffled(48, 128)
    tensor = read(matrix)
    assert tensor.type == "F16"  # for whoever does not know better
    tensors = sorted_columns({tensor.name: tensor})
    assert {one.type for one in tensors.values()} == {"Q5_0", "F32"}
    np.testing.assert_array_equal(restored(tensors, tensor.name), matrix.values())


def test_rows_that_move_take_the_order_along():
    """Rows of queries are picked, fused projections are cut."""
    matrix = shuffled(48, 128)
    rows = np.random.default_rng(2).permutation(48)
    picked = derived.picked_rows(read(matrix), rows)
    part = derived.rows_of(picked, picked.name, 7, 20)
    tensors = sorted_columns({part.name: part})
    np.testing.assert_array_equal(restored(tensors, part.name), matrix.values()[rows[7:27]])


@pytest.mark.parametrize(
    "change",
    [
        derived.transposed,
        lambda one: derived.stacked(one.name, [one, one]),
        lambda one: derived.reshaped(one, (2, 24, 128)),
    ],
)
def test_what_is_made_otherwise_stays_in_float16(change):
    tensor = change(read(shuffled(48, 128)))
    assert sorted_columns({tensor.name: tensor}) == {tensor.name: tensor}


def test_groups_of_several_sizes_stay_in_float16():
    matrix = shuffled(32, 128)
    matrix.order[np.flatnonzero(matrix.order == 0)[0]] = 1
    assert read(matrix).by_group is None


def test_projections_of_one_order_share_a_vector():
    """Those of one layer and one content."""
    same, other = shuffled(32, 128), shuffled(32, 128, seed=5)
    named = {"attn_q": same, "attn_k": same, "attn_v": other}
    tensors = [read(one, f"blk.0.{name}.weight") for name, one in named.items()]
    tensors.append(read(same, "blk.1.attn_q.weight"))
    orders = orders_of(sorted_columns({tensor.name: tensor for tensor in tensors}))
    assert list(orders.values()) == [
        "blk.0.attn_q.weight.order",
        "blk.0.attn_q.weight.order",
        "blk.0.attn_v.weight.order",
        "blk.1.attn_q.weight.order",
    ]


def test_a_model_picks_once_for_all_that_share_an_order(golden: Path, tmp_path: Path):
    """As GPTQ gives it: one order for all that read an input."""
    orders = {columns: shuffled(1, columns).order for columns in (64, 160)}

    def make(shape):
        matrix = Matrix(np.random.default_rng(3), *shape, 4, False)
        matrix.order = orders[shape[1]]
        return gptq(matrix, 4), matrix.values()

    folder_of(golden, tmp_path / "model", SETTINGS, make)
    model = open_model(tmp_path / "model")
    plan = build_plan(model)
    picks = [op for op in plan.ops if isinstance(op, Pick)]
    assert len(picks) == 4 * plan.num_layers  # for q, k and v; o; gate and up; down
    types = {one.type for name, one in model.tensors.items() if name.startswith("blk.")}
    assert types == {"Q5_0", "F32"}
    written, _ = as_gguf_file(open_checkpoint(tmp_path / "model"))
    assert not any(name.endswith(".order") for name in written.tensors)
    assert written.tensors["blk.0.attn_q.weight"].type == "F16"
