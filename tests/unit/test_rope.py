"""Rotary frequencies where the golden models do not reach."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from pyrite.backends.meaning import rotate
from pyrite.formats.checkpoint import open_checkpoint
from pyrite.graph.rope import attention_factor, cos_sin, inverse_frequencies
from pyrite.graph.values import Rope, RopeScaling
from pyrite.models.registry import as_model, read_config


def test_plain_frequencies():
    found = inverse_frequencies(Rope(10000.0, 4, "halves"))
    np.testing.assert_array_equal(found, np.array([1.0, 0.01], np.float32))


def test_pairs_are_halves_in_another_order():
    x = np.random.default_rng(1).normal(size=(5, 2, 8)).astype(np.float32)
    positions = np.arange(3, 8, dtype=np.int32)
    order = np.array([0, 4, 1, 5, 2, 6, 3, 7])  # column of the halves at each place of the pairs
    halves = rotate(x, Rope(100.0, 8, "halves"), positions)
    pairs = rotate(x[..., order], Rope(100.0, 8, "pairs"), positions)
    np.testing.assert_array_equal(pairs, halves[..., order])


def test_columns_past_the_width_stay():
    x = np.ones((1, 1, 8), np.float32)
    turned = rotate(x, Rope(100.0, 4, "halves"), np.array([9], np.int32))
    assert (turned[..., 4:] == 1).all()
    assert (turned[..., :4] != 1).all()


def test_yarn_without_truncation():
    """Pairs are even in the logarithm of their turns, so the ramp is one of that logarithm."""
    scaling = RopeScaling("yarn", 8.0, original_context=4096, truncate=False)
    found = inverse_frequencies(Rope(10000.0, 64, "halves", scaling)).astype(np.float64)
    plain = inverse_frequencies(Rope(10000.0, 64, "halves")).astype(np.float64)
    turns = 4096 * plain / (2 * math.pi)
    kept = np.clip(np.log(turns) / math.log(32.0), 0, 1)  # from beta_slow 1 to beta_fast 32
    np.testing.assert_allclose(found, plain * (kept + (1 - kept) / 8.0), rtol=1e-5)


@pytest.mark.parametrize(
    ("keys", "factor"),
    [
        ({}, 0.1 * math.log(4) + 1),
        ({"attention_factor": 0.5}, 0.5),
        ({"mscale": 1.0, "mscale_all_dim": 1.0}, 1.0),
        ({"mscale": 2.0, "mscale_all_dim": 1.0}, (0.2 * math.log(4) + 1) / (0.1 * math.log(4) + 1)),
    ],
)
def test_attention_factor_of_yarn(golden, keys, factor):
    rope = rope_of(golden, {"rope_type": "yarn", "factor": 4.0, **keys})
    assert attention_factor(rope) == pytest.approx(factor)
    cos, _ = cos_sin(rope, np.zeros(1, np.int32))
    np.testing.assert_allclose(cos, factor, rtol=1e-6)


def rope_of(golden, scaling: dict, length: int | None = None, **changes) -> Rope:
    """Of a Llama folder with this `rope_scaling`."""
    checkpoint = open_checkpoint(golden / "tiny" / "llama_yarn")
    config = {**checkpoint.metadata, "rope_scaling": scaling, **changes}
    model = as_model(replace(checkpoint, metadata=config))
    return read_config(model, length).layers[0].rope


def test_a_folders_yarn(golden):
    scaling = open_checkpoint(golden / "tiny" / "llama_yarn").metadata["rope_scaling"]
    assert rope_of(golden, scaling).scaling == RopeScaling(
        "yarn", 4.0, original_context=64, attention_factor=0.1 * math.log(4.0) + 1.0
    )


def test_dynamic_scaling_starts_beyond_the_original_length(golden):
    scaling = {"type": "dynamic", "factor": 2.0}
    assert rope_of(golden, scaling, 256) == Rope(10000.0, 16, "pairs")
    grown = rope_of(golden, scaling, 512)
    assert grown.theta == pytest.approx(10000.0 * 3 ** (16 / 14))
    assert grown.scaling is None


def test_llama3_slows_the_slow_pairs_alone(golden):
    """Source: the definition in Llama 3.1's rope_scaling, worked out for each pair."""
    scaling = {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32,
    }
    found = inverse_frequencies(rope_of(golden, scaling)).astype(np.float64)
    plain = 10000.0 ** (-np.arange(0, 16, 2) / 16)
    smooth = np.clip((32 * plain / (2 * math.pi) - 1) / 3, 0, 1)
    np.testing.assert_allclose(found, plain * (smooth + (1 - smooth) / 8), rtol=1e-6)
