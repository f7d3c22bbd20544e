"""Gemma 4: wide and narrow layers, shared keys and values, inputs of layers' own, by their keys."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pyrite.errors import FormatError, TensorError, UnsupportedError
from pyrite.formats.checkpoint import Tensor, open_checkpoint
from pyrite.graph.compile import attention_layers
from pyrite.graph.ops import Attention, Graph, Linear, SelectRows
from pyrite.models import gguf_gemma4
from pyrite.models.registry import arranged, as_gguf, as_model, build_plan, open_model, read_config
from variants import changed, hub

SHARING = "gemma4_text"  # six layers, of which the last three read what the first three keep


def attentions(model):
    return [op for op in build_plan(model).ops if isinstance(op, Attention)]


def test_the_last_layers_read_the_keys_of_the_last_of_their_kind(golden):
    plan = build_plan(open_model(golden / "tiny" / SHARING))
    found = [op for op in plan.ops if isinstance(op, Attention)]
    assert [op.layer for op in found] == [0, 1, 2, 1, 1, 2]
    assert [op.key is None for op in found] == [False] * 3 + [True] * 3
    assert [op.head_width for op in found] == [16, 16, 32, 16, 16, 32]
    assert [op.window for op in found] == [12, 12, 0, 12, 12, 0]
    assert all(op.rope and op.query_norm for op in found), "both are fused"
    assert plan.head_widths == (16, 16, 32)  # what is kept
    assert plan.key_heads == (2, 2, 2)


def test_layers_that_keep_nothing_work_on_wanted_rows_alone(golden):
    """Of a prompt the last half of the model is computed for one row."""
    plan = build_plan(open_model(golden / "tiny" / SHARING))
    found = [op for op in plan.ops if isinstance(op, Attention)]
    rows = [plan.values[op.output].rows for op in found]
    assert rows == ["tokens"] * 3 + ["outputs"] * 3
    first = next(index for index, op in enumerate(plan.ops) if isinstance(op, SelectRows))
    assert first < plan.ops.index(found[3])
    after = [op for op in plan.ops[plan.ops.index(found[3]) :] if isinstance(op, Linear)]
    assert {plan.values[op.output].rows for op in after} == {"outputs"}


def test_kept_keys_of_nobody_are_no_plan(golden):
    plan = build_plan(open_model(golden / "tiny" / SHARING))
    ops = tuple(
        replace(op, layer=3) if isinstance(op, Attention) and op.key is None else op
        for op in plan.ops
    )
    with pytest.raises(AssertionError, match="nobody writes"):
        attention_layers(Graph(plan.values, ops, plan.result))


def test_keys_and_values_of_shared_layers_are_left_out(golden):
    """Published folders hold some, and so may GGUF files."""
    path = golden / "tiny" / SHARING
    folder = open_checkpoint(path)
    own = folder.tensors["model.layers.0.self_attn.k_proj.weight"]
    names = [f"model.layers.4.self_attn.{part}_proj.weight" for part in "kv"]
    more = {name: replace(own, name=name) for name in names}
    model = as_model(replace(folder, tensors={**folder.tensors, **more}))
    assert build_plan(model) == build_plan(open_model(path))
    file = as_gguf(folder)
    kept = replace(file.tensors["blk.0.attn_k.weight"], name="blk.4.attn_k.weight")
    model = arranged(replace(file, tensors={**file.tensors, kept.name: kept}))
    assert build_plan(model) == build_plan(open_model(path))
    alone = replace(kept, name="blk.2.attn_k_b.weight")
    with pytest.raises(TensorError, match="attn_k_b"):
        build_plan(arranged(replace(file, tensors={**file.tensors, alone.name: alone})))


def test_values_are_made_of_keys_where_they_have_no_projection(golden):
    model = open_model(golden / "tiny" / "gemma4_moe")
    assert "blk.2.attn_v.weight" not in model.tensors
    assert read_config(model).gemma4.has_values == (True, True, False)
    assert attentions(model)[2].key_heads == 1


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("attention__shared_kv_layers", 6, "from 0 to 5"),
        ("attention__shared_kv_layers", 4, "layer 2 needs"),
        ("attention__key_length_swa", 0, "from 2 to"),
        ("attention__value_length_swa", 32, "value_length_swa = 32"),
        ("attention__value_length", 16, "value_length = 16"),
        ("rope__dimension_count_swa", 15, "must be even"),
        ("rope__dimension_count_swa", 32, "from 2 to 16"),
        ("embedding_length_per_layer_input", 2**20, "from 0 to"),
        ("embedding_length_per_layer_input", -1, "from 0 to"),
        ("attention__head_count_kv", [2, 2, 2, 2, 2, 4], "layer 5 needs"),
    ],
)
def test_bad_keys_are_named(golden, key, value, text):
    model = open_model(golden / "tiny" / SHARING)
    with pytest.raises(FormatError) as caught:
        build_plan(changed(model, **{key: value}))
    assert text in str(caught.value)


def test_a_file_without_divisors_of_frequencies(golden):
    model = open_model(golden / "tiny" / SHARING)
    tensors = {name: one for name, one in model.tensors.items() if name != "rope_freqs.weight"}
    with pytest.raises(FormatError, match=r"rope_freqs\.weight is missing"):
        build_plan(replace(model, tensors=tensors))


@pytest.mark.parametrize("key", ["embedding_length_per_layer_input", "attention__shared_kv_layers"])
def test_a_key_that_tensors_contradict(golden, key):
    model = open_model(golden / "tiny" / SHARING)
    with pytest.raises(TensorError):
        build_plan(changed(model, **{key: 0}))


@pytest.mark.parametrize(
    ("case", "changes", "error", "text"),
    [
        (SHARING, {"use_bidirectional_attention": "all"}, UnsupportedError, "= 'all'"),
        (SHARING, {"vocab_size_per_layer_input": 90}, UnsupportedError, "= 90"),
        (SHARING, {"num_kv_shared_layers": 6}, FormatError, "num_kv_shared_layers = 6"),
        (SHARING, {"layer_types": ["linear_attention"] * 6}, UnsupportedError, "linear_attention"),
        (SHARING, {"hidden_activation": "gelu"}, UnsupportedError, "'gelu'"),
        (SHARING, {"enable_moe_block": True}, FormatError, "has experts"),
        ("gemma4_moe", {"enable_moe_block": False}, FormatError, "has no experts"),
        ("gemma4_moe", {"top_k_experts": 7}, FormatError, "top_k_experts = 7"),
        (
            SHARING,
            {"rope_parameters": {"full_attention": {"rope_type": "yarn"}}},
            UnsupportedError,
            "'yarn'",
        ),
        (
            SHARING,
            {"rope_parameters": {"full_attention": {"factor": 2.0}}},
            UnsupportedError,
            "factor = 2.0",
        ),
        (
            SHARING,
            {"per_layer_config": {"2": {"head_dim": 32}}, "global_head_dim": ...},
            FormatError,
            "per_layer_config",
        ),
    ],
)
def test_configurations_that_are_not_executed(golden, case, changes, error, text):
    with pytest.raises(error) as caught:
        build_plan(hub(golden, case, **changes))
    assert text in str(caught.value)


def test_values_where_keys_are_said_to_be_values(golden):
    folder = open_checkpoint(golden / "tiny" / "gemma4_moe")
    own = folder.tensors["model.layers.2.self_attn.k_proj.weight"]
    name = "model.layers.2.self_attn.v_proj.weight"
    with pytest.raises(FormatError, match="attention_k_eq_v = true"):
        as_model(replace(folder, tensors={**folder.tensors, name: replace(own, name=name)}))


def test_layers_without_a_window_have_values_all_or_none(golden):
    model = open_model(golden / "tiny" / "gemma4_moe")
    layers = tuple(replace(layer, window=0) for layer in read_config(model).layers)
    assert gguf_gemma4._have_values(model, layers, 3) == (
        True,
        True,
        True,
    )  # the last one's is missed
    assert gguf_gemma4._have_values(model, layers[2:], 0) == (False,)


@pytest.mark.parametrize(("layer", "error"), [(0, TensorError), (2, FormatError)])
def test_a_projection_of_values_that_is_missing(golden, layer, error):
    """Keys stand for values only where that is said, and in no layer with a window."""
    folder = open_checkpoint(golden / "tiny" / SHARING)
    name = f"model.layers.{layer}.self_attn.v_proj.weight"
    tensors = {key: one for key, one in folder.tensors.items() if key != name}
    with pytest.raises(error, match="attn_v"):
        build_plan(as_model(replace(folder, tensors=tensors)))


def test_one_scale_of_a_layer_is_that_of_all_columns(golden):
    model = open_model(golden / "tiny" / SHARING)
    scale = model.tensors["blk.1.layer_output_scale.weight"]
    assert scale.shape == (32,)
    values = scale.read().view(np.uint16)
    assert len(values) == 32
    assert len(set(values.tolist())) == 1
    one = Tensor("blk.0.layer_output_scale.weight", "F32", (2,), np.ones(2, "<f4").view(np.uint8))
    with pytest.raises(TensorError, match="layer_output_scale"):
        build_plan(arranged(replace(model, tensors={**model.tensors, one.name: one})))


@pytest.mark.parametrize(
    ("case", "changes"),
    [
        ("gemma4_moe", {"moe_intermediate_size": ..., "expert_intermediate_size": 24}),
        ("gemma4_moe", {"layer_types": ["sliding_attention"] * 3}),  # the last is wide all the same
        (SHARING, {"hidden_size_per_layer_input": 8, "num_global_key_value_heads": 4}),
        (
            SHARING,
            {
                "global_head_dim": ...,
                "per_layer_config": {"2": {"head_dim": 32}, "5": {"head_dim": 32}},
            },
        ),
    ],
)
def test_keys_that_say_the_same(golden, case, changes):
    assert read_config(hub(golden, case, **changes)) == read_config(hub(golden, case))
