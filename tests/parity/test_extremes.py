"""Large activations and numbers that are not finite: what half precision would lose, stays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rows import Row, assert_close, prepare

from pyrite.formats.checkpoint import Checkpoint, Tensor
from pyrite.models.registry import open_model
from pyrite.quant.dequant import dequantize
from steps import Part, make_batch, sequence_logits

LARGE = 2.0**20  # a power of two: only exponents change


def scaled(checkpoint: Checkpoint, factors: dict[str, float]) -> Checkpoint:
    """Multiplies tensors whose names end so, as float32."""
    tensors = dict(checkpoint.tensors)
    for name, tensor in tensors.items():
        factor = next((f for ending, f in factors.items() if name.endswith(ending)), 1.0)
        values = dequantize(tensor.data, tensor.type, tensor.shape) * np.float32(factor)
        tensors[name] = Tensor(name, "F32", tensor.shape, values.reshape(-1).view(np.uint8))
    return replace(checkpoint, tensors=tensors)


@pytest.mark.parametrize("num_tokens", [31, 32, 33, 63, 64, 65])
@pytest.mark.parametrize(
    "factors",
    [
        {"ffn_up.weight": LARGE, "ffn_down.weight": 1 / LARGE},
        {"token_embd.weight": LARGE, "attn_output.weight": LARGE, "ffn_down.weight": LARGE},
    ],
    ids=["feed-forward", "residual"],
)
def test_activations_of_a_million(golden: Path, row: Row, factors, num_tokens):
    """Both scalings leave the mathematics as they are (norms divide by the scale)."""
    plain = scaled(open_model(golden / "tiny" / "llama"), {})
    ids = np.random.default_rng(73).integers(0, 384, num_tokens)
    expected = sequence_logits(prepare(row, plain, tokens=96), ids)
    logits = sequence_logits(prepare(row, scaled(plain, factors), tokens=96), ids)
    assert np.isfinite(logits).all()
    assert_close(logits, expected, 20 * row.tolerance)  # the norm's eps no longer counts


@pytest.mark.usefixtures("any_weights")
def test_what_is_not_finite_stays_in_its_sequence(golden: Path, row: Row):
    """A token whose embedding is NaN spoils the rows after it in its own sequence, and no other."""
    checkpoint = scaled(open_model(golden / "tiny" / "llama"), {})
    table = checkpoint.tensors["token_embd.weight"]
    values = table.data.view(np.float32).reshape(table.shape).copy()
    values[5] = np.nan
    spoiled = replace(table, data=values.reshape(-1).view(np.uint8))
    checkpoint = replace(checkpoint, tensors={**checkpoint.tensors, table.name: spoiled})
    good = [7, 8, 9, 10]
    runner = prepare(row, checkpoint, tokens=96)
    alone = sequence_logits(runner, good)
    logits = runner.run(make_batch([Part([1, 5, 2], [1]), Part(good, [0]), Part([3, 5], [2])]))
    assert np.isnan(logits[1:3]).all()
    assert_close(logits[3:7], alone, row.tolerance)
    assert np.isnan(logits[8]).all()
