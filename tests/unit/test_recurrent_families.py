"""Recurrent, convolutional and hybrid families: what is translated, and what is refused by name."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from pyrite.backends.reference import ReferenceBackend
from pyrite.errors import FormatError, TensorError, UnsupportedError
from pyrite.formats import derived
from pyrite.formats.checkpoint import Tensor, open_checkpoint
from pyrite.graph.ops import Attention, Experts, Scale, Scan
from pyrite.models.registry import arranged, as_gguf, as_model, build_plan, read_config
from steps import num_pages, sequence_logits
from variants import changed, hub


@pytest.mark.parametrize(
    ("case", "changes", "text"),
    [
        ("lfm2", {"conv_bias": True}, "conv_bias = True"),
        ("lfm2", {"block_use_swiglu": False}, "block_use_swiglu = false"),
        ("lfm2", {"use_pos_enc": False}, "use_pos_enc = false"),
        ("lfm2", {"layer_types": ["conv", "mamba", "conv", "conv"]}, "layer_types holds 'mamba'"),
        ("mamba", {"use_bias": True}, "use_bias = True"),
        ("mamba", {"use_conv_bias": False}, "use_conv_bias = false"),
        ("mamba", {"hidden_act": "gelu"}, "hidden_act = 'gelu'"),
        ("mamba2", {"rms_norm": False}, "rms_norm = false"),
        ("jamba", {"mamba_proj_bias": True}, "mamba_proj_bias = True"),
        ("jamba", {"mamba_conv_bias": False}, "mamba_conv_bias = false"),
        ("jamba", {"mamba_inner_layernorms": False}, "mamba_inner_layernorms = false"),
        ("jamba", {"sliding_window": 8}, "sliding_window = 8"),
        ("jamba", {"hidden_act": "relu"}, "hidden_act = 'relu'"),
        ("falcon_h1", {"mamba_norm_before_gate": True}, "mamba_norm_before_gate = true"),
        ("falcon_h1", {"mamba_norm_before_gate": ...}, "mamba_norm_before_gate = true"),
        ("falcon_h1", {"projectors_bias": True}, "projectors_bias = True"),
        ("falcon_h1", {"attention_bias": True}, "attention_bias = True"),
        ("falcon_h1", {"mamba_use_mlp": False}, "mamba_use_mlp = false"),
        ("granitemoehybrid", {"mamba_proj_bias": True}, "mamba_proj_bias = True"),
        ("qwen3_5_text", {"attn_output_gate": False}, "attn_output_gate = false"),
        ("qwen3_next", {"layer_types": ["mamba"] * 4}, "layer_types holds 'mamba'"),
        ("rwkv4", {"attention_hidden_size": 32}, "attention_hidden_size = 32"),
        ("rwkv7", {"rwkv_version": "x060"}, "rwkv_version = 'x060'"),
        ("rwkv7", {"hidden_act": "silu"}, "hidden_act = 'silu'"),
        ("rwkv7", {"norm_first": False}, "norm_first = false"),
        ("rwkv7", {"attn": {"layers": [1]}}, "attn = {'layers': [1]}"),
    ],
)
def test_other_mathematics_are_refused_by_name(golden, case, changes, text):
    with pytest.raises(UnsupportedError) as caught:
        build_plan(hub(golden, case, **changes))
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("case", "changes", "text"),
    [
        ("lfm2", {"conv_L_cache": 0}, "conv_L_cache = 0"),
        ("lfm2", {"layer_types": ["conv"]}, "a list of 4"),
        ("lfm2", {"layer_types": ..., "full_attn_idxs": [4]}, "full_attn_idxs = 4"),
        ("lfm2", {"layer_types": ..., "full_attn_idxs": "all"}, "full_attn_idxs = 'all'"),
        ("lfm2_moe", {"num_dense_layers": 5}, "num_dense_layers = 5"),
        ("lfm2_moe", {"num_experts_per_tok": 7}, "num_experts_per_tok = 7"),
        ("mamba", {"conv_kernel": 2**20}, "conv_kernel = 1048576"),
        ("mamba", {"state_size": 0}, "state_size = 0"),
        ("mamba", {"time_step_rank": "many"}, "time_step_rank = 'many'"),
        ("mamba2", {"num_heads": 7}, "7 heads of 16 columns"),
        ("mamba2", {"n_groups": 3}, "8 heads over 3 groups"),
        ("mamba2", {"time_step_limit": [1.0, 0.5]}, "must ascend"),
        ("mamba2", {"time_step_limit": [0.0, math.nan]}, "must be two numbers"),
        ("mamba2", {"time_step_limit": [0.0]}, "a list of 2"),
        ("qwen3_5_text", {"linear_num_value_heads": 5}, "linear_num_value_heads = 5"),
        ("qwen3_next", {"mlp_only_layers": [0]}, "layer 0 has no experts"),
        ("qwen3_next", {"decoder_sparse_step": 2}, "layer 0 has no experts"),
        ("qwen3_next", {"linear_value_head_dim": 16}, "must be the same"),
        ("jamba", {"attn_layer_offset": 2}, "attn_layer_offset = 2"),
        ("jamba", {"attn_layer_period": 0}, "attn_layer_period = 0"),
        ("falcon_h1", {"mlp_multipliers": [1.0]}, "a list of 2"),
        ("falcon_h1", {"ssm_multipliers": [1, 2, 3, 4, "x"]}, "ssm_multipliers = 'x'"),
        ("falcon_h1", {"key_multiplier": math.inf}, "key_multiplier = inf"),
        ("falcon_h1", {"mamba_rms_norm": False}, "tensor blk.0.ssm_norm.weight is there"),
        ("falcon_h1_tied", {"embedding_multiplier": 0.0}, "embedding_multiplier = 0"),
        ("rwkv4", {"layer_norm_epsilon": -1.0}, "layer_norm_epsilon = -1.0"),
        ("rwkv7", {"head_size": 48}, "2 heads of 48 columns"),
        ("rwkv7", {"a_low_rank_dim": ...}, "a_low_rank_dim is missing"),
    ],
)
def test_bad_values_are_named(golden, case, changes, text):
    with pytest.raises(FormatError) as caught:
        build_plan(hub(golden, case, **changes))
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("case", "changes"),
    [
        ("lfm2", {"layer_types": ...}),
        ("lfm2", {"full_attn_idxs": ..., "tie_embedding": ..., "tie_word_embeddings": True}),
        ("lfm2", {"intermediate_size": ...}),
        ("lfm2", {"intermediate_size": 128, "block_ff_dim": ..., "block_multiple_of": 128}),
        ("lfm2", {"block_auto_adjust_ff_dim": False, "block_ff_dim": 128}),
        ("lfm2_moe", {"use_expert_bias": ..., "routed_scaling_factor": ...}),
        ("mamba", {"time_step_rank": "auto", "intermediate_size": ...}),
        ("mamba", {"d_model": 64, "n_layer": 3, "rms_norm": True, "ssm_cfg": {}}),
        ("mamba2", {"norm_before_gate": True, "intermediate_size": 128}),
        ("mamba2", {"time_step_limit": ..., "num_heads": ..., "chunk_size": 256}),
        ("jamba", {"use_mamba_kernels": True, "expert_layer_period": ...}),
        ("jamba", {"mamba_dt_rank": 8, "mamba_expand": 2.0}),
        ("jamba", {"mamba_inner_layernorms": True, "calc_logits_for_entire_prompt": True}),
        ("falcon_h1", {"mamba_n_heads": ..., "mamba_chunk_size": 256}),
        ("falcon_h1", {"mlp_expansion_factor": 8, "attn_layer_indices": None}),
        ("rwkv4", {"rescale_every": 6, "attention_hidden_size": ..., "intermediate_size": 128}),
        ("rwkv7", {"head_size": ..., "head_dim": 64, "norm_eps": 1e-5, "layer_norm_eps": ...}),
        ("rwkv7", {"group_norm_eps": ..., "num_heads": ..., "rwkv_version": ...}),
        ("rwkv7", {"norm_bias": True, "fuse_norm": True, "attn": None, "value_dim": [128] * 3}),
    ],
)
def test_keys_that_say_the_same(golden, case, changes):
    assert read_config(hub(golden, case, **changes)) == read_config(hub(golden, case))


@pytest.mark.parametrize(
    ("case", "name"),
    [
        ("lfm2", "model.layers.0.conv.in_proj.weight"),
        ("lfm2", "model.embedding_norm.weight"),
        ("mamba", "backbone.layers.1.mixer.A_log"),
        ("mamba", "backbone.layers.1.mixer.dt_proj.bias"),
        ("mamba2", "backbone.layers.2.mixer.norm.weight"),
        ("mamba2", "backbone.layers.0.mixer.dt_bias"),
        ("jamba", "model.layers.0.mamba.b_layernorm.weight"),
        ("jamba", "model.layers.1.self_attn.k_proj.weight"),
        ("falcon_h1", "model.layers.1.mamba.norm.weight"),
        ("falcon_h1", "model.layers.0.pre_ff_layernorm.weight"),
        ("granitemoehybrid", "model.layers.0.mamba.norm.weight"),
        ("qwen3_next", "model.layers.0.linear_attn.in_proj_qkvz.weight"),
        ("qwen3_next", "model.layers.1.linear_attn.in_proj_ba.weight"),
        ("qwen3_5_text", "model.layers.2.linear_attn.dt_bias"),
        ("qwen3_5_moe_text", "model.layers.3.self_attn.q_norm.weight"),
        ("rwkv4", "rwkv.blocks.0.pre_ln.bias"),
        ("rwkv4", "rwkv.blocks.1.attention.time_first"),
        ("rwkv7", "blocks.1.att.x_w"),
        ("rwkv7", "blocks.1.att.v0"),
        ("rwkv7", "blocks.2.att.r_k"),
    ],
)
def test_missing_and_surplus_tensors_are_named(golden, case, name):
    folder = open_checkpoint(golden / "tiny" / case)
    kept = {other: tensor for other, tensor in folder.tensors.items() if other != name}
    with pytest.raises(TensorError, match=r"missing: [a-z0-9._]+"):
        build_plan(as_model(replace(folder, tensors=kept)))
    other = replace(folder.tensors[name], name=name + "s")
    with pytest.raises(TensorError, match=f"not used: {other.name}"):
        build_plan(as_model(replace(folder, tensors={**folder.tensors, other.name: other})))


@pytest.mark.parametrize(
    ("case", "attention", "experts"),
    [
        ("lfm2", [1, 3], []),
        ("lfm2_moe", [1, 3], [1, 2, 3]),
        ("jamba", [1, 3], [1, 3]),
        ("falcon_h1", [0, 1], []),
        ("granitemoehybrid", [1], [0, 1, 2]),
        ("granitemoehybrid_dense", [1], []),
        ("qwen3_next", [3], [0, 1, 2, 3]),
        ("qwen3_5_text", [3], []),
        ("mamba2", [], []),
        ("rwkv7", [], []),
    ],
)
def test_which_layers_have_what(golden, case, attention, experts):
    model = hub(golden, case)
    layers = read_config(model).layers
    assert [index for index, layer in enumerate(layers) if layer.key_heads] == attention
    assert [index for index, layer in enumerate(layers) if layer.has_experts] == experts
    ops = build_plan(model).ops
    assert sum(isinstance(op, Attention) for op in ops) == len(attention)
    assert sum(isinstance(op, Experts) for op in ops) == len(experts)


def test_limits_of_steps_reach_the_scan(golden):
    model = hub(golden, "mamba2", time_step_limit=[0.01, 0.5])
    assert model.metadata["mamba2.ssm.time_step_limit"] == [pytest.approx(0.01), 0.5]
    scans = [op for op in build_plan(model).ops if isinstance(op, Scan)]
    assert [op.step_low for op in scans] == [pytest.approx(0.01)] * 3
    assert [op.step_high for op in scans] == [0.5] * 3
    ids = np.arange(1, 20, dtype=np.int32)
    assert np.abs(logits(model, ids) - logits(hub(golden, "mamba2"), ids)).max() > 0.01


def test_a_choice_without_bias(golden):
    folder = open_checkpoint(golden / "tiny" / "lfm2_moe")
    kept = {name: tensor for name, tensor in folder.tensors.items() if "expert_bias" not in name}
    said = {**folder.metadata, "use_expert_bias": False}
    plan = build_plan(as_model(replace(folder, metadata=said, tensors=kept)))
    assert {op.routing.bias for op in plan.ops if isinstance(op, Experts)} == {None}


def test_a_scan_without_a_norm(golden):
    """Most Falcon-H1 have none, and say that it would come before the gate."""
    folder = open_checkpoint(golden / "tiny" / "falcon_h1")
    said = {**folder.metadata, "mamba_rms_norm": False, "mamba_norm_before_gate": True}
    kept = {name: tensor for name, tensor in folder.tensors.items() if "mamba.norm" not in name}
    model = as_model(replace(folder, metadata=said, tensors=kept))
    assert build_plan(model).states == build_plan(hub(golden, "falcon_h1")).states


def test_a_tied_head_has_a_factor_of_its_own(golden):
    """Of Falcon-H1: the table's is another."""
    folder = open_checkpoint(golden / "tiny" / "falcon_h1")
    tensors = dict(folder.tensors)
    tensors["lm_head.weight"] = replace(tensors["model.embed_tokens.weight"], name="lm_head.weight")
    apart = as_model(replace(folder, tensors=tensors))
    del tensors["lm_head.weight"]
    said = {**folder.metadata, "tie_word_embeddings": True}
    tied = as_model(replace(folder, metadata=said, tensors=tensors))
    factors = [op.factor for op in build_plan(tied).ops if isinstance(op, Scale)]
    assert factors == [pytest.approx(0.6 / 2.5)]
    ids = np.arange(1, 20, dtype=np.int32)
    np.testing.assert_allclose(logits(tied, ids), logits(apart, ids), rtol=0, atol=1e-5)


def test_quantized_weights_cannot_take_a_factor(golden):
    folder = open_checkpoint(golden / "tiny" / "falcon_h1")
    name = "model.layers.0.self_attn.k_proj.weight"
    codes = Tensor(name, "Q8_0", (32, 64), np.zeros(32 * 68, np.uint8))
    with pytest.raises(UnsupportedError, match=r"blk\.0\.attn_k\.weight has type Q8_0"):
        as_model(replace(folder, tensors={**folder.tensors, name: codes}))


def test_the_first_layer_of_rwkv7_has_fillers_in_a_file(golden):
    """Its values are mixed with no earlier layer's; converters write `a` there."""
    folder = open_checkpoint(golden / "tiny" / "rwkv7")
    file = as_gguf(folder)
    for part in "012":
        filler, own = (file.tensors[f"blk.0.time_mix_{kind}{part}.weight"] for kind in "va")
        np.testing.assert_array_equal(filler.read(), own.read())
    assert "blk.0.time_mix_v0.weight" not in arranged(file).tensors
    extra = replace(folder.tensors["blocks.0.att.a0"], name="blocks.0.att.v0")
    more = replace(folder, tensors={**folder.tensors, extra.name: extra})
    build_plan(as_model(more))


FLASH = {
    "att.receptance": "attn.r_proj",
    "att.key": "attn.k_proj",
    "att.value": "attn.v_proj",
    "att.output": "attn.o_proj",
    "att.ln_x": "attn.g_norm",
    "att.g1": "attn.g_lora.lora.0.weight",
    "att.g2": "attn.g_lora.lora.2.weight",
    "att.": "attn.",
    "ln0": "pre_norm",
    "ln1": "attn_norm",
    "ln2": "ffn_norm",
    "emb.": "embeddings.",
    "ln_out": "norm",
}
for _kind in "wav":
    for _part, _name in (("0", "2.bias"), ("1", "0.weight"), ("2", "2.weight")):
        FLASH = {f"att.{_kind}{_part}": f"attn.{_kind}_lora.lora.{_name}", **FLASH}


def flash_name(name: str) -> str:
    if name == "head.weight":
        return "lm_head.weight"
    for old, new in FLASH.items():
        if old in name:
            name = name.replace(old, new)
            break
    return "model." + name.replace("blocks.", "layers.")


def flash_tensor(tensor: Tensor) -> Tensor:
    """Its narrow products are linear layers, whose weights are (outputs, inputs)."""
    name = flash_name(tensor.name)
    if name.endswith("2.bias"):
        tensor = derived.flattened(tensor)
    elif "_lora" in name:
        tensor = derived.transposed(tensor)
    return replace(tensor, name=name)


def test_rwkv7_under_the_names_of_flash_linear_attention(golden):
    folder = open_checkpoint(golden / "tiny" / "rwkv7")
    renamed = [flash_tensor(tensor) for tensor in folder.tensors.values()]
    assert "model.layers.1.attn.v_lora.lora.2.bias" in {tensor.name for tensor in renamed}
    other = replace(folder, tensors={tensor.name: tensor for tensor in renamed})
    ids = np.arange(1, 20, dtype=np.int32)
    np.testing.assert_array_equal(logits(as_model(other), ids), logits(as_model(folder), ids))


@pytest.mark.parametrize(
    ("case", "changes", "text"),
    [
        ("mamba", {"ssm__inner_size": 2**30}, "mamba.ssm.inner_size"),
        ("mamba", {"ssm__conv_kernel": 10**6}, "mamba.ssm.conv_kernel"),
        ("mamba", {"ssm__dt_b_c_rms": 1}, "mamba.ssm.dt_b_c_rms"),
        ("mamba2", {"ssm__time_step_limit": [1.0, 0.0]}, "mamba2.ssm.time_step_limit"),
        ("rwkv7", {"wkv__head_size": 48}, "rwkv7.wkv.head_size"),
        ("rwkv7", {"attention__gate_lora_rank": 0}, "rwkv7.attention.gate_lora_rank"),
        ("lfm2", {"shortconv__l_cache": 1000}, "lfm2.shortconv.l_cache"),
    ],
)
def test_keys_of_files_are_bounded_and_named(golden, case, changes, text):
    with pytest.raises((FormatError, UnsupportedError)) as caught:
        build_plan(changed(hub(golden, case), **changes))
    assert text in str(caught.value)


@pytest.mark.parametrize("case", ["mamba", "mamba2", "rwkv7"])
def test_a_file_whose_sizes_do_not_fit_its_tensors_is_refused(golden, case):
    changes = {
        "mamba": {"ssm__state_size": 9},
        "mamba2": {"ssm__group_count": 3},
        "rwkv7": {"attention__decay_lora_rank": 8},
    }[case]
    with pytest.raises((FormatError, TensorError)):
        build_plan(changed(hub(golden, case), **changes))


def logits(model, ids):
    runner = ReferenceBackend().prepare(
        build_plan(model), model.tensors, num_pages=num_pages(64), max_tokens=64
    )
    return sequence_logits(runner, ids)
