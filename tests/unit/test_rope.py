"""Rotary frequencies where the golden models do not reach."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pyrite.backends.meaning import rotate
from pyrite.formats.checkpoint import open_checkpoint
from pyrite.graph.rope import attention_factor, cos_sin, inverse_frequencies
from pyrite.graph.values import Rope, RopeScaling
from pyrite.models.fields import Fields
from pyrite.models.hub_rope import read_ropes
from pyrite.models.llama import LLAMA


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
def test_attention_factor_of_yarn(keys, factor):
    scaling = {"rope_type": "yarn", "factor": 4.0, **keys}
    rope = read_ropes(Fields({"rope_scaling": scaling}), LLAMA, 16, 256).whole
    assert attention_factor(rope) == pytest.approx(factor)
    cos, _ = cos_sin(rope, np.zeros(1, np.int32))
    np.testing.assert_allclose(cos, factor, rtol=1e-6)


def test_yarn_of_gguf_is_yarn_of_the_hub(golden):
    """The same model under both formats' keys."""
    hub = open_checkpoint(golden / "tiny" / "llama_yarn").metadata["rope_scaling"]
    rope = read_ropes(Fields({"rope_scaling": hub, "rope_theta": 1e4}), LLAMA, 16, 256).whole
    assert rope.scaling == RopeScaling(
        "yarn", 4.0, original_context=64, attention_factor=0.1 * math.log(4.0) + 1.0
    )
