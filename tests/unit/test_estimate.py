"""Memory estimates: the arithmetic, and the refusal that says what is needed and what is there."""

from __future__ import annotations

import pytest

from pyrite.errors import CapacityError
from pyrite.formats.checkpoint import open_checkpoint
from pyrite.models.estimate import estimate_memory, kv_bytes_per_token, require_memory
from pyrite.models.registry import build_plan


@pytest.fixture(scope="module")
def llama(golden):
    checkpoint = open_checkpoint(golden / "tiny" / "llama")
    plan = build_plan(checkpoint)
    return plan, estimate_memory(plan, checkpoint.tensors, kv_tokens=10000, max_tokens=100)


def test_parts_are_what_the_configuration_says(llama):
    plan, estimate = llama
    assert kv_bytes_per_token(plan) == 3 * 2 * (2 * 16) * 2  # layers, k and v, heads, 16 bits
    assert estimate.keys_and_values == 10000 * 384
    assert estimate.weights == 178624 * 2  # parameters in bfloat16
    assert estimate.activations == 4 * (100 * plan.arena_columns + 384)


def test_refusal_states_both_sides(llama):
    _, estimate = llama
    require_memory(estimate, estimate.total)
    require_memory(estimate, None)
    with pytest.raises(CapacityError, match=r"needs 5 MiB .* 0 MiB are available") as caught:
        require_memory(estimate, 0)
    assert "smaller context" in caught.value.hint
