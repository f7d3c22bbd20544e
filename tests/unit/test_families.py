"""Families of models: what each translates, what is absent, and what it refuses by name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pyrite.errors import FormatError, TensorError, UnsupportedError
from pyrite.formats import derived
from pyrite.formats.checkpoint import Tensor, open_checkpoint
from pyrite.models.registry import as_gguf, as_model, build_plan, read_config
from variants import hub


@pytest.mark.parametrize(
    ("case", "changes", "text"),
    [
        ("olmoe", {"clip_qkv": 8.0}, "clip_qkv = 8.0"),
        ("olmo2", {"sliding_window": 8}, "sliding_window = 8"),
        ("gpt2", {"scale_attn_weights": False}, "scale_attn_weights = false"),
        ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx"),
        ("gpt2", {"add_cross_attention": True}, "add_cross_attention"),
        ("gpt2", {"activation_function": "relu"}, "activation_function = 'relu'"),
        ("smollm3", {"use_sliding_window": True}, "use_sliding_window = True"),
        ("smollm3", {"layer_types": ["sliding_attention"] * 4}, "layer_types"),
        ("phi3", {"rope_scaling": {"type": "spiral"}}, "'spiral'"),
        ("phi3", {"hidden_act": "gelu"}, "hidden_act = 'gelu'"),
        ("cohere", {"layer_types": ["full_attention"] * 2}, "layer_types"),
        ("cohere2", {"use_parallel_block": False}, "use_parallel_block = False"),
        ("cohere2", {"position_embedding_type": "alibi"}, "position_embedding_type = 'alibi'"),
        (
            "phi3",
            {"rope_local_base_freq": 5000.0},
            "config.json sets rope_local_base_freq = 5000.0",
        ),
        (
            "smollm3",
            {"rope_parameters": {"sliding_attention": {"rope_theta": 10.0}}, "rope_scaling": ...},
            "rope_parameters.sliding_attention.rope_theta = 10.0",
        ),
        ("granite", {"position_embedding_type": "nope"}, "position_embedding_type = 'nope'"),
        ("cohere", {"partial_rotary_factor": 0.5}, "partial_rotary_factor = 0.5"),
        (
            "gemma",
            {"rope_parameters": {"rope_theta": 300.0, "partial_rotary_factor": 0.5}},
            "partial_rotary_factor = 0.5",
        ),
        ("hunyuan_v1_dense", {"use_cla": True}, "use_cla = True"),
        ("hunyuan_v1_dense", {"attention_head_dim": 8}, "attention_head_dim = 8"),
        ("hunyuan_v1_dense", {"num_experts": 16}, "num_experts = 16"),
        ("minimax_m2", {"attn_type_list": [1, 0, 1]}, "attn_type_list = [1, 0, 1]"),
        ("minimax_m2", {"shared_intermediate_size": 64}, "shared_intermediate_size = 64"),
        ("ernie4_5", {"compression_ratio": 2.0}, "compression_ratio = 2.0"),
        ("llama", {"rope_scaling": {"type": "dynamic", "factor": 1.0, "alpha": 9.0}}, "alpha = 9"),
        ("minimax_m2", {"qk_norm_type": "per_head"}, "qk_norm_type = 'per_head'"),
        ("minimax_m2", {"scoring_func": "softmax"}, "scoring_func = 'softmax'"),
        ("glm4_moe", {"topk_method": "greedy"}, "topk_method = 'greedy'"),
        ("exaone4_whole", {"layer_types": ["sliding_attention"] * 3}, "layer_types has windows"),
        ("qwen2_moe", {"use_sliding_window": True}, "use_sliding_window = True"),
        ("qwen3_moe", {"layer_types": ["sliding_attention"] * 3}, "layer_types has windows"),
    ],
)
def test_other_mathematics_are_refused_by_name(golden, case, changes, text):
    with pytest.raises(UnsupportedError) as caught:
        build_plan(hub(golden, case, **changes))
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("case", "changes", "text"),
    [
        ("cohere", {"attention_bias": True}, "attention_bias = true, and tensor blk.0.attn_q.bias"),
        ("cohere", {"logit_scale": 0}, "logit_scale = 0"),
        ("granite", {"attention_multiplier": 0.0}, "attention_multiplier = 0.0"),
        ("granite", {"logits_scaling": -3.0}, "logits_scaling = -3.0"),
        ("gpt2", {"n_embd": ...}, "n_embd is missing"),
        ("gpt2", {"n_layer": 10**6}, "n_layer = 1000000"),
        ("smollm3", {"no_rope_layers": [1, 1, 1, 2]}, "no_rope_layers = 2"),
        ("smollm3", {"no_rope_layers": [1]}, "a list of 4"),
        ("stablelm", {"layer_norm_eps": "small"}, "layer_norm_eps = 'small'"),
        ("stablelm", {"partial_rotary_factor": 0.03}, "0 of 16 columns"),
        ("phi3", {"original_max_position_embeddings": 0}, "original_max_position_embeddings = 0"),
        ("phi3", {"interpolate_factor": 2}, "interpolate_factor = 2"),
        ("qwen2", {"layer_types": ["sliding_attention"] * 3, "sliding_window": None}, "is missing"),
        ("gpt_oss", {"rope_scaling": ...}, "rope_scaling is missing"),
        ("deepseek_v3", {"num_experts_per_tok": 6}, "which hold 4 experts"),
        ("qwen3_moe", {"mlp_only_layers": [3]}, "mlp_only_layers = 3"),
        ("exaone4", {"sliding_window_pattern": "LLX"}, "sliding_window_pattern = 'LLX'"),
        ("exaone4", {"sliding_window_pattern": ""}, "sliding_window_pattern = ''"),
        ("ernie4_5_moe", {"moe_layer_end_index": 3}, "moe_layer_end_index = 3"),
        ("minimax_m2", {"rotary_dim": 7}, "rotary_dim = 7"),
        ("minimax_m2", {"partial_rotary_factor": 0.25}, "rotary_dim = 8, and 4 of 16"),
        ("hunyuan_v1_dense", {"rope_scaling": {"type": "dynamic", "alpha": 0.5}}, "alpha = 0.5"),
        (
            "phi3_longrope",
            {"original_max_position_embeddings": 1},
            "original_max_position_embeddings = 1",
        ),
    ],
)
def test_bad_values_are_named(golden, case, changes, text):
    with pytest.raises(FormatError) as caught:
        build_plan(hub(golden, case, **changes))
    assert text in str(caught.value)


MISSING, THERE = "is missing", "is there"


@pytest.mark.parametrize(
    ("case", "changes", "name", "found"),
    [
        ("cohere", {"use_qk_norm": True}, "blk.0.attn_q_norm.weight", MISSING),
        ("cohere_qk_norm", {"use_qk_norm": ...}, "blk.0.attn_q_norm.weight", THERE),
        ("stablelm", {"qk_layernorm": True}, "blk.0.attn_q_norm.weight", MISSING),
        ("stablelm", {"use_qkv_bias": ...}, "blk.0.attn_q.bias", THERE),
        ("llama_tied", {"attention_bias": ...}, "blk.0.attn_q.bias", THERE),
        ("llama_tied", {"mlp_bias": False}, "blk.0.ffn_up.bias", THERE),
        ("qwen2_moe", {"qkv_bias": False}, "blk.0.attn_q.bias", THERE),
        ("gpt_oss", {"attention_bias": False}, "blk.0.attn_q.bias", THERE),
        ("lfm2_moe", {"use_expert_bias": False}, "blk.1.exp_probs_b.bias", THERE),
        ("lfm2_moe", {"num_dense_layers": 0}, "blk.0.ffn_gate_inp.weight", MISSING),
        ("deepseek_v2", {"first_k_dense_replace": 2}, "blk.1.ffn_gate_inp.weight", THERE),
        ("deepseek_v3", {"first_k_dense_replace": 0}, "blk.0.ffn_gate_inp.weight", MISSING),
        ("qwen3_moe", {"mlp_only_layers": []}, "blk.1.ffn_gate_inp.weight", MISSING),
        ("qwen3_moe", {"decoder_sparse_step": 2}, "blk.0.ffn_gate_inp.weight", THERE),
        ("seed_oss", {"attention_bias": False}, "blk.0.attn_q.bias", THERE),
        ("seed_oss", {"attention_out_bias": True}, "blk.0.attn_output.bias", MISSING),
        ("ernie4_5", {"use_bias": True}, "blk.0.attn_q.bias", MISSING),
        ("ernie4_5_moe", {"moe_layer_start_index": 0}, "blk.0.ffn_gate_inp.weight", MISSING),
        ("ernie4_5_moe", {"moe_layer_interval": 2}, "blk.2.ffn_gate_inp.weight", THERE),
        ("glm4_moe", {"first_k_dense_replace": 2}, "blk.1.ffn_gate_inp.weight", THERE),
        ("glm4_moe", {"use_qk_norm": False}, "blk.0.attn_q_norm.weight", THERE),
        ("glm4_moe_air", {"use_qk_norm": True}, "blk.0.attn_q_norm.weight", MISSING),
        ("minimax_m2", {"use_routing_bias": False}, "blk.0.exp_probs_b.bias", THERE),
        ("jamba", {"expert_layer_offset": 0}, "blk.0.ffn_gate_inp.weight", MISSING),
        ("jamba", {"num_experts": 1}, "blk.1.ffn_gate_inp.weight", THERE),
    ],
)
def test_keys_and_tensors_that_contradict_each_other(golden, case, changes, name, found):
    """GGUF tells by the tensor: without the comparison the key would be ignored."""
    as_gguf(open_checkpoint(golden / "tiny" / case))  # nothing but the change is wrong
    with pytest.raises(FormatError) as caught:
        build_plan(hub(golden, case, **changes))
    assert name in str(caught.value)
    assert found in str(caught.value)


@pytest.mark.parametrize(
    ("case", "key", "default"),
    [
        ("cohere", "rope_theta", 500000.0),
        ("deepseek_v3", "norm_topk_prob", True),
        ("deepseek_v3", "routed_scaling_factor", 2.5),
        ("deepseek_v3", "topk_group", 4),
        ("ernie4_5", "rope_theta", 500000.0),
        ("ernie4_5_moe", "moe_layer_start_index", 1),
        ("exaone4", "rms_norm_eps", 1e-5),
        ("falcon_h1", "rms_norm_eps", 1e-5),
        ("falcon_h1", "rope_theta", 10000.0),
        ("glm4_moe", "routed_scaling_factor", 1.0),
        ("gpt_oss", "rope_theta", 150000.0),
        ("lfm2", "norm_eps", 1e-5),
        ("lfm2_moe", "norm_topk_prob", True),
        ("mamba", "layer_norm_epsilon", 1e-5),
        ("mamba2", "layer_norm_epsilon", 1e-5),
        ("minimax_m2", "rope_theta", 5e6),
        ("mistral", "sliding_window", 4096),
        ("mixtral", "rms_norm_eps", 1e-5),
        ("mixtral", "rope_theta", 1e6),
        ("olmo2", "rms_norm_eps", 1e-5),
        ("olmo3", "rope_theta", 500000.0),
        ("olmoe", "rms_norm_eps", 1e-5),
        ("qwen2_tied_swa", "max_window_layers", 28),
        ("qwen2_tied_swa", "sliding_window", 4096),
        ("smollm3", "rope_theta", 2e6),
    ],
)
def test_a_key_that_is_left_out_is_what_transformers_takes(golden, case, key, default):
    """Of its version 5.24, that the golden models were made with."""
    assert read_config(hub(golden, case, **{key: ...})) == read_config(
        hub(golden, case, **{key: default})
    )


@pytest.mark.parametrize(
    ("case", "changes"),
    [
        ("phi3", {"rope_scaling": ..., "embd_pdrop": 0.1}),
        ("phi3_longrope", {"original_max_position_embeddings": 24}),
        ("cohere", {"logit_scale": 0.25, "use_qk_norm": ..., "tie_word_embeddings": ...}),
        ("gpt2", {"n_inner": 256, "n_ctx": ..., "summary_type": "cls_index"}),
        ("gpt2", {"reorder_and_upcast_attn": True, "scale_attn_weights": True}),
        ("smollm3", {"no_rope_layers": None}),
        ("smollm3", {"no_rope_layers": ..., "sliding_window": 64}),
        (
            "stablelm",
            {"partial_rotary_factor": ..., "rope_parameters": {"partial_rotary_factor": 0.5}},
        ),
        ("granite", {"residual_multiplier": 0.55, "mlp_bias": ...}),
        ("cohere2", {"layer_types": ..., "sliding_window_pattern": 4, "layer_switch": 4}),
        ("exaone4", {"layer_types": ...}),
        ("hunyuan_v1_dense", {"attention_head_dim": 16, "num_experts": 1, "dense_list": [32, 0]}),
        ("minimax_m2", {"attn_type_list": [1, 1, 1], "shared_intermediate_size": 0}),
        ("exaone4", {"sliding_window_pattern": 4}),
        ("ernie4_5_moe", {"moe_layer_end_index": -1}),
        ("minimax_m2", {"rotary_dim": ..., "partial_rotary_factor": 0.5}),
        (
            "olmo3",
            {
                "layer_types": ...,
                "rope_scaling": ...,
                "rope_theta": ...,
                "rope_parameters": {
                    "full_attention": {
                        "rope_type": "yarn",
                        "rope_theta": 500000.0,
                        "factor": 4.0,
                        "original_max_position_embeddings": 16,
                        "attention_factor": 1.2,
                    },
                    "sliding_attention": {"rope_type": "default", "rope_theta": 500000.0},
                },
            },
        ),
    ],
)
def test_keys_that_say_the_same(golden, case, changes):
    assert read_config(hub(golden, case, **changes)) == read_config(hub(golden, case))


def test_longrope_takes_the_factors_of_the_context_that_it_is_loaded_for(golden):
    model = hub(golden, "phi3_longrope")
    short, long = (read_config(model, length).layers[0].rope for length in (24, 25))
    assert short.scaling.factors == pytest.approx([1.0, 1.05, 1.1, 1.3, 1.5, 1.8])
    assert long.scaling.factors == pytest.approx([1.1, 1.6, 2.4, 3.5, 5.0, 7.5])
    assert short.scaling.attention_factor == long.scaling.attention_factor > 1
    older = hub(golden, "phi3_longrope", rope_scaling={**_longrope(model), "type": "su"})
    assert read_config(older) == read_config(model)


def _longrope(model):
    return model.config["rope_scaling"]


def test_layers_without_positions_may_lie_otherwise(golden):
    model = hub(golden, "smollm3", no_rope_layers=[0, 1, 1, 1])
    assert [layer.rope is None for layer in read_config(model).layers] == [
        True,
        False,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("case", "name", "shape", "text"),
    [
        (
            "granite",
            "self_attn.k_proj.weight",
            (1, 32, 64),
            r"blk\.0\.attn_k\.weight is \(1, 32, 64\)",
        ),
        ("granite", "self_attn.k_proj.weight", (24, 64), r"attn_k\.weight is \(24, 64\)"),
        (
            "qwen2_moe",
            "mlp.shared_expert_gate.weight",
            (64, 1),
            r"is \(64, 1\) and must be \(1, 64\)",
        ),
        ("gpt2", "attn.c_fc.weight", (64,), "not used: transformer"),
        ("gpt2", "mlp.c_fc.weight", (64,), r"ffn_up\.weight is \(64,\): must be a matrix"),
    ],
)
def test_tensors_of_other_shapes_are_named(golden, case, name, shape, text):
    checkpoint = open_checkpoint(golden / "tiny" / case)
    prefix = "transformer.h.0." if case == "gpt2" else "model.layers.0."
    wrong = derived.held(prefix + name, np.zeros(shape, np.float32))
    with pytest.raises(TensorError, match=text):
        build_plan(as_model(replace(checkpoint, tensors={**checkpoint.tensors, wrong.name: wrong})))


def test_a_router_without_experts_is_left_over(golden):
    checkpoint = as_gguf(open_checkpoint(golden / "tiny" / "olmoe"))
    keys = ("count", "used_count", "feed_forward_length", "weights_norm")
    metadata = {
        k: v for k, v in checkpoint.metadata.items() if k.partition("expert_")[2] not in keys
    }
    with pytest.raises(TensorError, match=r"not used: .*ffn_gate_inp"):
        build_plan(replace(checkpoint, metadata=metadata))


@pytest.mark.parametrize("case", ["phi3", "gpt2"])
def test_files_hold_query_key_and_value_in_one(golden, case):
    checkpoint = as_gguf(open_checkpoint(golden / "tiny" / case))
    assert checkpoint.tensors["blk.0.attn_qkv.weight"].shape == (192, 64)
    model = as_model(open_checkpoint(golden / "tiny" / case))
    parts = [model.tensors[f"blk.0.attn_{part}.weight"].read() for part in "qkv"]
    whole = checkpoint.tensors["blk.0.attn_qkv.weight"].read()
    np.testing.assert_array_equal(np.concatenate(parts), whole)


@pytest.mark.parametrize("rows", [60, 64, 65, 193])
def test_query_key_and_value_that_do_not_fit_the_output(golden, rows):
    checkpoint = open_checkpoint(golden / "tiny" / "phi3")
    name = "model.layers.0.self_attn.qkv_proj.weight"
    wrong = derived.held(name, np.zeros((rows, 64), np.float32))
    with pytest.raises(TensorError, match=r"attn_qkv\.weight has|attn_k"):
        build_plan(as_model(replace(checkpoint, tensors={**checkpoint.tensors, name: wrong})))


@pytest.mark.parametrize("shape", [(12, 64), (6, 127, 64), (768, 64)])
def test_gate_and_up_of_experts_that_are_no_halves(golden, shape):
    checkpoint = open_checkpoint(golden / "tiny" / "granitemoe")
    name = "model.layers.1.block_sparse_moe.input_linear.weight"
    wrong = Tensor(name, "F32", shape, np.zeros(4 * int(np.prod(shape)), np.uint8))
    with pytest.raises(TensorError, match=r"blk\.1\.ffn_gate_up_exps\.weight is"):
        as_model(replace(checkpoint, tensors={**checkpoint.tensors, name: wrong}))


def test_gate_and_up_in_one_of_any_family_with_experts(golden):
    """As newer converters may leave them."""
    apart = as_gguf(open_checkpoint(golden / "tiny" / "olmoe"))
    tensors = dict(apart.tensors)
    for layer in ("blk.0.", "blk.1."):
        gate, up = (tensors.pop(f"{layer}ffn_{part}_exps.weight") for part in ("gate", "up"))
        both = [one.read().reshape(8, -1) for one in (gate, up)]
        data = np.concatenate(both, axis=1).reshape(-1)
        name = layer + "ffn_gate_up_exps.weight"
        tensors[name] = Tensor(name, gate.type, (8, 128, 64), data)
    fused = as_model(replace(apart, format="gguf", tensors=tensors))
    for name, tensor in apart.tensors.items():
        np.testing.assert_array_equal(fused.tensors[name].read(), tensor.read())


def test_blocks_side_by_side_have_one_norm(golden):
    for case, is_parallel, found in (
        ("stablelm", True, THERE),
        ("stablelm_parallel", False, MISSING),
    ):
        with pytest.raises(TensorError, match=rf"blk\.0\.ffn_norm\.weight {found}"):
            hub(golden, case, use_parallel_residual=is_parallel)
    checkpoint = open_checkpoint(golden / "tiny" / "stablelm")
    kept = {n: t for n, t in checkpoint.tensors.items() if "post_attention" not in n}
    metadata = {**checkpoint.metadata, "use_parallel_residual": True}
    model = as_model(replace(checkpoint, tensors=kept, metadata=metadata))
    assert not read_config(model).feed_forward_norm
    build_plan(model)


@pytest.mark.parametrize(("case", "key"), [("cohere", "use_qk_norm"), ("stablelm", "qk_layernorm")])
def test_norms_of_queries_and_keys_where_they_are_there(golden, case, key):
    checkpoint = open_checkpoint(golden / "tiny" / case)
    added = {}
    for layer in range(2):
        for part, heads in (("q", 4), ("k", 2)):
            prefix = f"model.layers.{layer}.self_attn.{part}"
            whole = derived.held(f"{prefix}_norm.weight", np.ones((heads, 16), np.float32))
            rows = [
                derived.held(f"{prefix}_layernorm.norms.{head}.weight", np.ones(16, np.float32))
                for head in range(heads)
            ]
            added |= {one.name: one for one in ([whole] if case == "cohere" else rows)}
    said = {**checkpoint.metadata, key: True}
    tensors = {**checkpoint.tensors, **added}
    model = as_model(replace(checkpoint, metadata=said, tensors=tensors))
    assert model.tensors["blk.1.attn_q_norm.weight"].shape == (64,)
    assert read_config(model).head_norms == "own"
    build_plan(model)


def test_layers_without_windows_have_no_positions_in_cohere2(golden):
    layers = read_config(hub(golden, "cohere2", layer_types=["full_attention"] * 4)).layers
    assert [(layer.window, layer.rope) for layer in layers] == [(0, None)] * 4


@pytest.mark.parametrize(
    ("case", "name"),
    [("jamba", "rope_freqs"), ("gpt2", "rope_factors_long"), ("llama_yarn", "rope_factors_short")],
)
def test_rotary_tables_that_nothing_turns_by_are_left_over(golden, case, name):
    model = as_gguf(open_checkpoint(golden / "tiny" / case))
    table = derived.held(f"{name}.weight", np.ones(8, np.float32))
    with pytest.raises(TensorError, match=rf"not used: {name}\.weight \(8,\)"):
        build_plan(replace(model, tensors={**model.tensors, table.name: table}))


@pytest.mark.parametrize("kind", ["I64", "F64", "BOOL", "F8_E4M3"])
@pytest.mark.parametrize(
    ("case", "name"), [("gemma", "model.norm.weight"), ("mamba", "backbone.layers.0.mixer.A_log")]
)
def test_values_are_computed_of_floats_alone(golden, case, name, kind):
    """The type is known when a model is opened: reading the weights is too late for a refusal."""
    checkpoint = open_checkpoint(golden / "tiny" / case)
    tensor = replace(checkpoint.tensors[name], type=kind)
    with pytest.raises(UnsupportedError, match=f"has type {kind}"):
        as_model(replace(checkpoint, tensors={**checkpoint.tensors, name: tensor}))


@pytest.mark.parametrize(
    ("case", "name"),
    [
        ("cohere_qk_norm", "model.layers.1.self_attn.q_norm.weight"),
        ("cohere_qk_norm", "model.layers.0.self_attn.k_norm.weight"),
        ("rwkv7", "blocks.1.att.r_k"),
    ],
)
def test_rows_of_heads_are_not_columns(golden, case, name):
    """As one vector a transposed tensor would have the right size, and another order."""
    checkpoint = open_checkpoint(golden / "tiny" / case)
    tensor = checkpoint.tensors[name]
    turned = {**checkpoint.tensors, name: replace(tensor, shape=tensor.shape[::-1])}
    with pytest.raises(TensorError, match="and must be"):
        build_plan(as_model(replace(checkpoint, tensors=turned)))
