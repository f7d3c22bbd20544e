"""Configurations: what is understood, and that the rest is refused by key, value and limit."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from pyrite.errors import FormatError, UnsupportedError
from pyrite.formats.checkpoint import Tensor, open_checkpoint
from pyrite.graph.rope import cos_sin, inverse_frequencies
from pyrite.graph.values import Rope, RopeScaling
from pyrite.models.registry import as_model, build_plan, open_model, read_config
from variants import changed, hub


@pytest.fixture(scope="module")
def gguf(golden):
    return open_model(golden / "gguf_models" / "llama_q4_0.gguf")


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("block_count", ..., "llama.block_count is missing"),
        ("block_count", 0, "block_count = 0: must be from 1 to 1024"),
        ("block_count", 2**31, "from 1 to 1024"),
        ("block_count", -1, "from 1 to 1024"),
        ("block_count", "2", "block_count = '2': must be an integer"),
        ("block_count", True, "an integer"),
        ("block_count", 2.0, "an integer"),
        ("embedding_length", 2**63, "from 1 to 1048576"),
        ("context_length", 0, "from 1 to"),
        ("attention__head_count", 0, "from 1 to 4096"),
        ("attention__head_count_kv", 5, "from 0 to 4"),
        ("attention__head_count_kv", 3, "4 heads over 3 key heads"),
        ("attention__head_count_kv", 0, "layer 0 has no heads of keys, and llama needs some"),
        ("attention__head_count", [4], "a list of 2"),
        ("attention__layer_norm_rms_epsilon", math.nan, "from 0 to 1"),
        ("attention__layer_norm_rms_epsilon", -1e-5, "from 0 to 1"),
        ("attention__layer_norm_rms_epsilon", "small", "a number"),
        ("rope__freq_base", math.inf, "from 2 to"),
        ("rope__freq_base", 0.0, "from 2 to"),
        ("rope__dimension_count", 63, "must be even"),
        ("rope__dimension_count", 128, "from 2 to 64"),
        ("rope__scaling__type", "yarn", "yarn needs a factor"),
        ("rope__scaling__type", 7, "a string"),
    ],
)
def test_a_bad_number_is_named_with_its_limit(gguf, key, value, text):
    with pytest.raises(FormatError) as caught:
        build_plan(changed(gguf, **{key: value}))
    assert text in str(caught.value)
    assert "llama" in str(caught.value) or "heads" in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"attention__causal": False}, "not a generating model"),
        ({"rope__scaling__type": "longrope"}, "'longrope'"),
        ({"attention__clamp_kqv": 8.0}, "llama.attention.clamp_kqv = 8.0"),
    ],
)
def test_other_mathematics_are_refused_by_name(gguf, changes, text):
    with pytest.raises(UnsupportedError) as caught:
        build_plan(changed(gguf, **changes))
    assert text in str(caught.value)


@pytest.mark.parametrize("kind", [int, np.uint8, np.int16, np.uint32, np.int64, np.uint64])
def test_integers_of_any_width(gguf, kind):
    same = changed(gguf, block_count=kind(2), attention__head_count_kv=kind(2))
    assert read_config(same) == read_config(gguf)


@pytest.mark.parametrize("kind", [list, tuple, np.array])
def test_a_number_for_each_layer_when_all_are_the_same(gguf, kind):
    same = changed(gguf, attention__head_count=kind([4, 4]), feed_forward_length=kind([256, 256]))
    assert read_config(same) == read_config(gguf)


def test_an_unknown_architecture_is_named_with_the_nearest(gguf):
    with pytest.raises(UnsupportedError) as caught:
        build_plan(replace(gguf, architecture="gemma33"))
    assert "'gemma33'" in caught.value.message
    assert "gemma3" in caught.value.hint


def test_frequency_factors_of_gguf(gguf):
    factors = np.linspace(1, 8, 32, dtype=np.float32)
    tensor = Tensor("rope_freqs.weight", "F32", (32,), factors.view(np.uint8))
    with_factors = replace(gguf, tensors={**gguf.tensors, tensor.name: tensor})
    build_plan(with_factors)
    rope = read_config(with_factors).layers[0].rope
    plain = inverse_frequencies(read_config(gguf).layers[0].rope)
    np.testing.assert_allclose(inverse_frequencies(rope), plain / factors, rtol=1e-6)


def test_frequency_factors_and_scaling_together(gguf):
    tensor = Tensor("rope_freqs.weight", "F32", (32,), np.ones(32, np.float32).view(np.uint8))
    scaled = changed(gguf, rope__scaling__type="linear", rope__scaling__factor=4.0)
    with pytest.raises(UnsupportedError, match=r"rope_freqs\.weight"):
        build_plan(replace(scaled, tensors={**gguf.tensors, tensor.name: tensor}))


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ({}, 0.1 * math.log(4) + 1),
        ({"rope__scaling__attn_factor": 0.5}, 0.5 * (0.1 * math.log(4) + 1)),
        ({"rope__scaling__yarn_attn_factor": 1.25}, 1.25),
        ({"rope__scaling__yarn_log_multiplier": 1.0}, 1.0),
        (
            {"rope__scaling__yarn_log_multiplier": 0.5},
            (0.1 * math.log(4) + 1) / (0.05 * math.log(4) + 1),
        ),
    ],
)
def test_what_yarn_makes_of_queries_and_keys(gguf, stated, expected):
    yarn = {"type": "yarn", "factor": 4.0, "original_context_length": 64}
    keys = {f"rope__scaling__{key}": value for key, value in yarn.items()}
    rope = read_config(changed(gguf, **keys, **stated)).layers[0].rope
    assert rope.scaling.attention_factor == pytest.approx(expected)


def test_queries_that_grow_need_a_length_and_whole_heads(golden):
    model = open_model(golden / "tiny" / "ministral3")
    rope = read_config(model).layers[0].rope
    assert (rope.growth, rope.growth_span) == (0.5, 8)
    cos, _ = cos_sin(rope, np.array([7, 8, 23, 24], np.int32))
    plain, _ = cos_sin(replace(rope, growth=0.0), np.array([7, 8, 23, 24], np.int32))
    spans = np.array([0, 1, 2, 3])[:, None]
    np.testing.assert_allclose(cos, plain * (1 + 0.5 * np.log(1 + spans)), rtol=1e-6)
    with pytest.raises(FormatError, match=r"temperature_scale = 0\.5 needs"):
        build_plan(changed(model, rope__dimension_count=8))
    with pytest.raises(FormatError, match="original_context_length"):
        build_plan(changed(model, rope__scaling__original_context_length=0))


def test_only_ministral_grows(golden):
    llama = hub(golden, "llama_yarn")
    scaling = {**open_checkpoint(golden / "tiny" / "llama_yarn").metadata["rope_scaling"]}
    with pytest.raises(UnsupportedError, match="llama_4_scaling_beta"):
        hub(golden, "llama_yarn", rope_scaling={**scaling, "llama_4_scaling_beta": 0.1})
    with pytest.raises(UnsupportedError, match=r"temperature_scale = 0\.5"):
        build_plan(changed(llama, attention__temperature_scale=0.5))


@pytest.mark.parametrize("factors", [np.ones(16), np.zeros(32), np.full(32, np.nan)])
def test_bad_frequency_factors(gguf, factors):
    data = factors.astype(np.float32)
    tensor = Tensor("rope_freqs.weight", "F32", data.shape, data.view(np.uint8))
    with pytest.raises(FormatError, match=r"rope_freqs\.weight"):
        build_plan(replace(gguf, tensors={**gguf.tensors, tensor.name: tensor}))


@pytest.mark.parametrize(
    ("case", "changes", "text"),
    [
        ("llama", {"hidden_act": "relu"}, "hidden_act = 'relu'"),
        ("gemma", {"hidden_activation": "gelu"}, "'gelu'"),
        ("llama", {"rope_scaling": {"rope_type": "spiral", "factor": 2.0}}, "'spiral'"),
        ("llama", {"rope_scaling": {"type": "linear", "factor": 2.0, "warp": 3}}, "warp = 3"),
        ("llama", {"logit_scale": 0.5}, "logit_scale = 0.5"),
        ("gemma3_text", {"text_config": {}}, "more than text"),
        ("llama", {"quantization_config": {"bits": 4}}, "quantization_config"),
        ("llama", {"use_sliding_window": True}, "use_sliding_window"),
        ("llama", {"layer_types": ["sliding_attention"] * 3}, "sliding_attention"),
        ("qwen2", {"layer_types": ["linear_attention"] * 3}, "linear_attention"),
    ],
)
def test_config_json_that_is_not_understood(golden, case, changes, text):
    with pytest.raises(UnsupportedError) as caught:
        build_plan(hub(golden, case, **changes))
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("case", "changes", "text"),
    [
        ("llama", {"hidden_size": ...}, "hidden_size is missing"),
        ("llama", {"hidden_size": None}, "hidden_size is missing"),
        ("llama", {"num_attention_heads": 10**9}, "num_attention_heads = 1000000000"),
        ("llama", {"rope_scaling": "linear"}, "an object"),
        ("llama", {"rope_scaling": {"type": "linear"}}, "factor is missing"),
        ("llama", {"rope_scaling": {"type": "linear", "factor": 0.5}}, "factor = 0.5"),
        ("llama_v5cfg", {"rope_scaling": {"type": "linear", "factor": 2.0}}, "which holds?"),
        ("llama", {"tie_word_embeddings": "yes"}, "true or false"),
        ("llama", {"head_dim": None, "num_attention_heads": 3}, "head_dim is not stated"),
        ("llama", {"head_dim": 15}, "must be even"),
        ("qwen2", {"layer_types": ["full_attention"]}, "a list of 3"),
        ("gemma3_text", {"sliding_window": None}, "sliding_window is missing"),
        ("gemma3_text", {"_sliding_window_pattern": 4}, "sliding_window_pattern = 3"),
    ],
)
def test_config_json_with_bad_values(golden, case, changes, text):
    with pytest.raises(FormatError) as caught:
        build_plan(hub(golden, case, **changes))
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("case", "changes"),
    [
        ("llama", {"head_dim": None}),
        ("llama", {"head_dim": ...}),
        ("llama_sharded", {"rope_scaling": None}),
        ("llama", {"attention_bias": None, "mlp_bias": ..., "hidden_act": ...}),
        ("llama", {"pretraining_tp": 2, "some_switch": False, "some_note": ""}),
        ("qwen2", {"sliding_window": None, "max_window_layers": ...}),
        ("qwen2", {"layer_types": ["full_attention"] * 3}),
        ("qwen2_tied_swa", {"layer_types": ["full_attention"] + ["sliding_attention"] * 2}),
        ("gemma2", {"layer_types": ["sliding_attention", "full_attention"] * 2}),
        (
            "gemma3_text",
            {
                "layer_types": [
                    f"{kind}_attention" for kind in ("sliding", "sliding", "full", "sliding")
                ],
                "sliding_window_pattern": ...,
                "rope_scaling": ...,
                "rope_theta": ...,
                "rope_local_base_freq": ...,
                "rope_parameters": {
                    "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
                    "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
                },
            },
        ),
    ],
)
def test_older_newer_null_and_absent_keys_say_the_same(golden, case, changes):
    assert read_config(hub(golden, case, **changes)) == read_config(hub(golden, case))


def test_a_null_softcap_is_none_and_an_absent_one_the_default(golden):
    off = read_config(hub(golden, "gemma2", attn_logit_softcapping=None))
    absent = read_config(hub(golden, "gemma2", attn_logit_softcapping=...))
    assert (off.attention_softcap, absent.attention_softcap) == (0.0, 50.0)


def test_gemma3_of_gguf_takes_pattern_and_local_theta_from_its_architecture(gemma3_path):
    config = read_config(open_model(gemma3_path))
    whole = [index for index, layer in enumerate(config.layers) if layer.window == 0]
    assert whole == [5, 11, 17]
    assert config.layers[0].window == 512
    assert config.layers[0].rope == Rope(10000.0, 256, "halves")
    assert config.layers[5].rope == Rope(1e6, 256, "halves")
    assert config.attention_scale == 256**-0.5


def test_gemma3_of_gguf_may_state_them(gemma3_path):
    checkpoint = changed(
        open_model(gemma3_path),
        rope__freq_base_swa=5000.0,
        attention__sliding_window_pattern=[True] * 17 + [False],
        rope__scaling__type="linear",
        rope__scaling__factor=8.0,
    )
    config = read_config(checkpoint)
    assert [layer.window for layer in config.layers] == [512] * 17 + [0]
    assert config.layers[0].rope == Rope(5000.0, 256, "halves")
    assert config.layers[17].rope.scaling == RopeScaling("linear", 8.0)


def test_a_variant_under_a_known_name_is_refused(golden):
    config = json.loads((golden / "tiny" / "llama" / "config.json").read_text())
    config |= {"num_local_experts": 8, "num_experts_per_tok": 2}
    with pytest.raises(UnsupportedError, match="num_experts_per_tok = 2, num_local_experts = 8"):
        as_model(replace(open_checkpoint(golden / "tiny" / "llama"), metadata=config))
