"""Keys that tensors or other keys show as well are held to them, and say which disagree."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyrite.errors import FormatError, ModelError
from pyrite.models.registry import build_plan, open_model
from variants import changed

WRONG = {
    "dense layers that have experts": (
        "deepseek_v3",
        {"leading_dense_block_count": 2},
        r"leading_dense_block_count = 2: layer 1 has no experts by that, and blk\.1\.ffn_gate_inp"
        r"\.weight is there",
    ),
    "experts in layers that have none": (
        "lfm2_moe",
        {"leading_dense_block_count": 0},
        "layer 0 has experts by that, and blk.0.ffn_gate_inp.weight is missing",
    ),
    "experts in every second layer": (
        "ernie4_5_moe",
        {"interleave_moe_layer_step": 2},
        "leading_dense_block_count = 1, .*interleave_moe_layer_step = 2: layer 2 has no experts",
    ),
    "dense layers of a dense model": (
        "llama",
        {"leading_dense_block_count": 1},
        "leading_dense_block_count = 1: must be from 3 to 3",
    ),
    "another number of shared experts": (
        "deepseek_v2",
        {"expert_shared_count": 2},
        r"expert_shared_count = 2 of .*expert_feed_forward_length = 64 columns, and ffn_down_shexp",
    ),
    "shared experts without tensors": (
        "qwen3_moe",
        {"expert_shared_feed_forward_length": 8},
        "expert_shared_feed_forward_length = 8: must be from 0 to 0",
    ),
    "another kept key": ("deepseek_v2", {"attention__key_length": 47}, "key_length = 47: must be"),
    "another kept value": ("deepseek_v3", {"attention__value_length": 8}, "value_length = 8: must"),
    "several kept heads": ("deepseek_v2", {"attention__head_count_kv": 4}, "head_count_kv = 4: mu"),
    "pairs that do not turn": (
        "qwen3_5_text",
        {"rope__dimension_sections": [3, 1, 1, 0]},
        r"rope\.dimension_sections = \[3, 1, 1, 0\]: 5 pairs of columns, and 4 turn",
    ),
    "a period beside a list": (
        "qwen3_next",
        {"full_attention_interval": 3},
        r"full_attention_interval = 3, and .*recurrent_layers = \[True, True, True, False\]: they",
    ),
    "a width of nothing": ("mamba", {"feed_forward_length": 8}, "= 8, and no layer has a feed-fo"),
    "heads of nothing": ("mamba2", {"attention__head_count": 2}, "head_count = 2: must be from 0"),
    "groups of nothing": ("mamba", {"ssm__group_count": 2}, "group_count = 2: must be from 0 to 1"),
    "experts of nothing": ("llama", {"expert_used_count": 2}, "expert_used_count = 2: must be"),
    "a factor of no scaling": (
        "llama",
        {"rope__scaling__factor": 2.0, "rope__scaling__type": "none"},
        r"rope\.scaling\.factor = 2, and llama\.rope\.scaling\.type = 'none' has none",
    ),
    "two factors": (
        "llama_linear",
        {"rope__scale_linear": 3.0},
        r"rope\.scaling\.factor = 4, and llama\.rope\.scale_linear = 3: which holds",
    ),
    "yarn's key of another scaling": (
        "llama_linear",
        {"rope__scaling__yarn_beta_fast": 8.0},
        r"sets llama\.rope\.scaling\.yarn_beta_fast = 8\.0, which Pyrite does not understand",
    ),
    "layers that do not turn": (
        "deepseek_v2",
        {"rope__layer_pattern": 2},
        r"rope\.layer_pattern = 2",
    ),
    "another's multiplier": ("llama", {"residual_scale": 0.5}, r"llama\.residual_scale = 0\.5"),
    "another's convolution": ("llama", {"shortconv__l_cache": 3}, r"llama\.shortconv\.l_cache = 3"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_key_that_disagrees_is_refused(golden: Path, case: str):
    model, changes, message = WRONG[case]
    with pytest.raises(ModelError, match=message):
        build_plan(changed(open_model(golden / "tiny" / model), **changes))


def test_a_factor_without_a_kind_is_linear(golden: Path):
    """As llama.cpp takes it, and as old files have it under another name."""
    model = open_model(golden / "tiny" / "llama_linear")
    linear, none = build_plan(model), {"rope__scaling__type": ...}
    assert build_plan(changed(model, **none)) == linear
    old = {"rope__scaling__factor": ..., "rope__scale_linear": 4.0}
    assert build_plan(changed(model, **none, **old)) == linear


def test_a_dense_model_may_say_that_it_is(golden: Path):
    """As converters do for architectures that may have experts."""
    build_plan(changed(open_model(golden / "tiny" / "llama"), leading_dense_block_count=3))


def test_older_files_of_latent_attention(golden: Path):
    """They state the sizes of all heads, and none of what is kept."""
    model = open_model(golden / "tiny" / "deepseek_v2")
    prefix = "deepseek2.attention."
    older: dict[str, object] = {"attention__head_count_kv": model.metadata[prefix + "head_count"]}
    for name in ("key_length", "value_length"):
        older |= {f"attention__{name}": model.metadata[f"{prefix}{name}_mla"]}
        older |= {f"attention__{name}_mla": ...}
    assert build_plan(changed(model, **older)) == build_plan(model)
    with pytest.raises(FormatError, match="head_count_kv = 1: must be"):
        build_plan(changed(model, **older | {"attention__head_count_kv": 1}))
