"""Recipes: what llama.cpp made of real files, and the rules that those do not show."""

from __future__ import annotations

import pytest

from pyrite.conversion import find_recipe, model_of, plan_conversion
from pyrite.errors import ParameterError
from pyrite.formats.checkpoint import open_checkpoint
from pyrite.quant.quantize import QUANTIZED
from pyrite.quant.recipes import (
    RECIPES,
    Model,
    Place,
    attention_layers,
    fitting,
    is_quantized,
    more_bits,
    type_of,
)

PLAIN = Model(32, tuple(range(32)), query_groups=4)


def kind(part, recipe, model=PLAIN, layer=0, columns=4096):
    whole = ("output.weight", "token_embd.weight", "per_layer_token_embd.weight")
    name = part if part in whole else f"blk.{layer}.{part}.weight"
    return type_of(name, columns, RECIPES[recipe], model)


@pytest.mark.model
@pytest.mark.parametrize(("model", "recipe"), [("smollm2", "q4_1"), ("gemma3", "q4_k_m")])
def test_types_of_files_that_llama_cpp_made(request, model, recipe):
    checkpoint = open_checkpoint(request.getfixturevalue(f"{model}_path"))
    conversion = plan_conversion(checkpoint, find_recipe(recipe))
    assert {t.spec.name: t.spec.type for t in conversion.targets} == {
        name: tensor.type for name, tensor in checkpoint.tensors.items()
    }
    assert conversion.metadata["general.file_type"] == checkpoint.metadata["general.file_type"]


def test_every_recipe_names_what_can_be_made():
    for recipe in RECIPES.values():
        assert {recipe.base, *(rule.type for rule in recipe.rules)} <= set(QUANTIZED)
    assert len({recipe.file_type for recipe in RECIPES.values()}) == len(RECIPES)


def test_more_bits_goes_to_both_ends_and_every_third_between():
    chosen = [index for index in range(32) if more_bits(Place(index, 32, PLAIN))]
    assert chosen == [0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29, 30, 31]


@pytest.mark.parametrize(
    ("part", "recipe", "expected"),
    [
        ("output.weight", "q4_k_m", "Q6_K"),
        ("output.weight", "q8_0", "Q8_0"),
        ("output.weight", "f16", "F16"),
        ("token_embd.weight", "q4_k_m", "Q4_K"),
        ("attn_v", "q4_k_m", "Q6_K"),
        ("attn_v", "q4_k_s", "Q5_K"),
        ("attn_v", "q3_k_m", "Q5_K"),
        ("attn_v", "q2_k", "Q4_K"),
        ("attn_v", "iq4_xs", "Q5_K"),
        ("attn_q", "q2_k", "Q2_K"),
        ("attn_output", "q3_k_l", "Q5_K"),
        ("attn_output", "q4_k_m", "Q4_K"),
        ("attn_qkv", "q5_k_m", "Q6_K"),
        ("ffn_down", "q4_k_s", "Q5_K"),
        ("ffn_down_exps", "q4_k_m", "Q6_K"),
        ("ffn_down", "q4_0", "Q4_0"),
        ("ffn_down", "iq4_nl", "Q5_K"),
        ("ffn_up", "q5_k_m", "Q5_K"),
    ],
)
def test_rules(part, recipe, expected):
    assert kind(part, recipe) == expected


def test_rules_that_look_at_the_model():
    eight = Model(32, tuple(range(32)), num_experts=8, query_groups=4)
    assert kind("attn_k", "q4_k_m", eight) == "Q8_0"
    assert kind("attn_output", "q4_k_m", eight) == "Q5_K"
    assert kind("attn_v", "q2_k", Model(32, tuple(range(32)))) == "Q3_K"
    wide = Model(80, tuple(range(80)), query_groups=8)
    assert kind("attn_v", "q3_k_s", wide, layer=40) == "Q5_K"
    assert kind("attn_v", "q4_k_m", wide, layer=11) == "Q5_K"
    informed = Model(32, (), has_importance=True)
    assert kind("ffn_down", "q4_0", informed) == "Q4_1"
    assert kind("ffn_down", "iq4_nl", informed) == "IQ4_NL"
    assert kind("token_embd.weight", "q4_k_m", Model(32, (), tied=True)) == "Q6_K"
    assert kind("per_layer_token_embd.weight", "q4_k_m", Model(32, (), tied=True)) == "Q6_K"
    assert kind("per_layer_token_embd.weight", "q4_k_m", Model(32, ())) == "Q4_K"


def test_values_are_counted_by_the_layers_that_have_them():
    """Of a model whose every fourth layer has attention, the first eighth are its own."""
    names = [f"blk.{layer}.attn_v.weight" for layer in range(3, 32, 4)]
    layers = attention_layers(names)
    assert layers == (3, 7, 11, 15, 19, 23, 27, 31)
    model = Model(32, layers)
    types = [kind("attn_v", "q4_k_m", model, layer=layer) for layer in layers]
    assert [index for index, one in enumerate(types) if one == "Q6_K"] == [0, 3, 6, 7]


@pytest.mark.parametrize(
    ("wanted", "columns", "expected"),
    [
        ("Q4_K", 512, "Q4_K"),
        ("Q4_K", 576, "Q5_0"),
        ("Q5_K", 576, "Q5_1"),
        ("Q6_K", 576, "Q8_0"),
        ("Q2_K", 576, "IQ4_NL"),
        ("IQ4_XS", 576, "IQ4_NL"),
        ("Q4_0", 48, "F16"),
        ("Q4_K", 48, "F16"),
        ("BF16", 48, "BF16"),
    ],
)
def test_columns_that_no_block_fits(wanted, columns, expected):
    assert fitting(wanted, columns) == expected


@pytest.mark.parametrize(
    ("name", "shape", "expected"),
    [
        ("blk.0.attn_q.weight", (64, 64), True),
        ("blk.0.ffn_down_exps.weight", (8, 64, 64), True),
        ("blk.0.attn_q.bias", (64,), False),
        ("blk.0.attn_norm.weight", (64,), False),
        ("blk.0.attn_q_norm.weight", (8, 64), False),
        ("blk.0.ffn_gate_inp.weight", (8, 64), False),
        ("blk.0.ssm_conv1d.weight", (64, 4), False),
        ("blk.0.ssm_a", (64, 16), False),
        ("blk.0.time_mix_lerp_fused.weight", (6, 1, 1, 64), False),
        ("rope_freqs.weight", (1, 64), False),
    ],
)
def test_what_is_kept(name, shape, expected):
    assert is_quantized(name, shape) is expected


def test_a_name_that_is_no_recipe():
    assert find_recipe("Q4_K_M") is RECIPES["q4_k_m"]
    with pytest.raises(ParameterError, match="q4_k_s, q4_k_m"):
        find_recipe("q4_k")


def test_the_model_by_its_keys(golden):
    checkpoint = open_checkpoint(golden / "gguf_models" / "llama_q4_k_m.gguf")
    model = model_of(checkpoint, has_importance=False)
    assert model.num_layers == len(model.attention_layers) > 0
    heads = checkpoint.metadata["llama.attention.head_count"]
    assert model.query_groups == heads // checkpoint.metadata["llama.attention.head_count_kv"]
