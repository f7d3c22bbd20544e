"""Memory estimates: the arithmetic, and the refusal that says what is needed and what is there."""

from __future__ import annotations

import pytest
from benchmarks.models import write_model

from pyrite._native import kernels
from pyrite.backends.base import PAGE_TOKENS
from pyrite.backends.lowering import layer_offsets
from pyrite.errors import CapacityError
from pyrite.models.estimate import estimate_memory, kv_bytes_per_token, require_memory
from pyrite.models.registry import build_plan, open_model


@pytest.fixture(scope="module")
def llama(golden):
    checkpoint = open_model(golden / "tiny" / "llama")
    plan = build_plan(checkpoint)
    return plan, estimate_memory(plan, checkpoint.tensors, kv_tokens=10000, max_tokens=100)


def test_parts_are_what_the_configuration_says(llama):
    plan, estimate = llama
    assert kv_bytes_per_token(plan) == 3 * 2 * (2 * 16) * 2  # layers, k and v, heads, 16 bits
    assert estimate.keys_and_values == 10000 * 384
    assert estimate.weights == 178624 * 2 + 8 * 4  # parameters in bfloat16, factors of frequencies
    assert estimate.activations == 4 * (100 * plan.arena_columns + 384)


@pytest.mark.parametrize("kind", ["Q4_K", "IQ1_M", "IQ3_S"])
def test_weights_count_as_they_are_packed(tmp_path, kind: str):
    """Points of a grid take more room than in the file: IQ1_M twice as much."""
    write_model(tmp_path / "m.gguf", "qwen2-tiny", f"pure-{kind}")
    checkpoint = open_model(tmp_path / "m.gguf")
    estimate = estimate_memory(
        build_plan(checkpoint), checkpoint.tensors, kv_tokens=0, max_tokens=0
    )
    matrices = [one for one in checkpoint.tensors.values() if len(one.shape) == 2]
    packed = sum(
        one.shape[0] // 16 * kernels.packed_panel_bytes(kind, one.shape[1]) for one in matrices
    )
    others = sum(one.num_bytes for one in checkpoint.tensors.values() if len(one.shape) == 1)
    assert estimate.weights == packed + others
    ratio = packed / sum(one.num_bytes for one in matrices)
    assert ratio == pytest.approx(
        {"Q4_K": 1, "IQ1_M": 114 / 56, "IQ3_S": 138 / 110}[kind], rel=0.03
    )


@pytest.mark.parametrize("kv_type", ["f16", "q8"])
@pytest.mark.parametrize("case", ["llama", "llama_tied", "gemma3_text", "deepseek_v2"])
def test_estimated_pages_are_those_of_the_backend(golden, case: str, kv_type: str):
    """But for padding: a value's row is filled up to 16 columns."""
    plan = build_plan(open_model(golden / "tiny" / case))
    padding = sum(
        heads * (-width % 16) * (2 if kv_type == "f16" else 1)
        for heads, width in zip(plan.key_heads, plan.value_widths, strict=True)
    )
    page_bytes = layer_offsets(plan, kv_type)[-1]
    assert page_bytes == PAGE_TOKENS * (kv_bytes_per_token(plan, kv_type) + padding)


def test_a_latent_is_kept_once(golden):
    """32 columns of it and 16 that turn, in three layers."""
    plan = build_plan(open_model(golden / "tiny" / "deepseek_v2"))
    assert kv_bytes_per_token(plan) == 3 * (32 + 16) * 2
    assert kv_bytes_per_token(plan, "q8") == 3 * (32 + 16 + 2 * 4)


def test_eight_bits_take_about_half(llama):
    plan, _ = llama
    assert kv_bytes_per_token(plan, "q8") == 3 * 2 * (2 * 16 + 2 * 4)  # a scale for key and value


def test_refusal_states_both_sides(llama):
    _, estimate = llama
    require_memory(estimate, estimate.total)
    require_memory(estimate, None)
    with pytest.raises(CapacityError, match=r"needs 5 MiB .* 0 MiB are available") as caught:
        require_memory(estimate, 0)
    assert "smaller context" in caught.value.hint
