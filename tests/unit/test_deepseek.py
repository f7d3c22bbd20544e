"""DeepSeek: older and newer files say the same; what is dropped, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pyrite.errors import FormatError, TensorError, UnsupportedError
from pyrite.formats import derived
from pyrite.formats.checkpoint import Tensor, open_checkpoint
from pyrite.models.registry import arranged, as_gguf, as_model, build_plan, read_config
from pyrite.quant.dequant import dequantize
from pyrite.quant.quantize import quantize
from variants import hub


def values_of(tensor: Tensor):
    return dequantize(tensor.read(), tensor.type, tensor.shape)


def small(name: str) -> Tensor:
    return derived.held(name, np.zeros((2, 2), np.float32))


def older(golden, change=lambda tensor: tensor):
    """The file of V2 as it was written once: keys and values in one, and the widths of heads."""
    folder = open_checkpoint(golden / "tiny" / "deepseek_v2")
    newer = as_gguf(folder)
    tensors = {
        name: tensor
        for name, tensor in newer.tensors.items()
        if not name.endswith(("attn_k_b.weight", "attn_v_b.weight"))
    }
    for index in range(3):
        own = folder.tensors[f"model.layers.{index}.self_attn.kv_b_proj.weight"]
        name = f"blk.{index}.attn_kv_b.weight"
        tensors[name] = change(replace(own, name=name))
    keys = {
        "attention.key_length": 32,
        "attention.value_length": 24,
        "attention.head_count_kv": 4,
        "attention.key_length_mla": None,
        "attention.value_length_mla": None,
    }
    metadata = newer.metadata | {f"deepseek2.{key}": value for key, value in keys.items()}
    return newer, replace(newer, format="gguf", tensors=tensors, metadata=metadata)


def test_older_files_are_the_same_model(golden):
    newer, old = older(golden)
    assert read_config(arranged(old)) == replace(
        read_config(newer), layers=read_config(arranged(old)).layers
    )
    for name, tensor in arranged(old).tensors.items():
        np.testing.assert_array_equal(tensor.read(), newer.tensors[name].read(), name)
    build_plan(arranged(old))


def test_matrices_of_blocks_are_transposed_as_numbers(golden):
    def quantized(tensor: Tensor) -> Tensor:
        data = quantize(values_of(tensor), "Q8_0").reshape(-1)
        return Tensor(tensor.name, "Q8_0", tensor.shape, data)

    _, old = older(golden, quantized)
    rows = values_of(old.tensors["blk.1.attn_kv_b.weight"]).reshape(4, 40, 32)
    tensors = arranged(old).tensors
    keys, values = (tensors[f"blk.1.attn_{part}_b.weight"] for part in "kv")
    assert (keys.type, values.type) == ("F32", "Q8_0")
    np.testing.assert_array_equal(values_of(keys), rows[:, :16].transpose(0, 2, 1))
    np.testing.assert_array_equal(values_of(values), rows[:, 16:])
    build_plan(arranged(old))


@pytest.mark.parametrize("rows", [40, 96, 128, 161, 400])
def test_an_older_matrix_of_another_size(golden, rows):
    def wrong(tensor: Tensor) -> Tensor:
        return derived.held(tensor.name, np.zeros((rows, 32), np.float32))

    with pytest.raises(TensorError, match=r"attn_kv_b|attn_[kv]_b"):
        build_plan(arranged(older(golden, wrong)[1]))


@pytest.mark.parametrize("shape", [(161, 32), (96, 32), (5120,)])
def test_a_folders_matrix_of_another_size(golden, shape):
    folder = open_checkpoint(golden / "tiny" / "deepseek_v2")
    name = "model.layers.0.self_attn.kv_b_proj.weight"
    wrong = derived.held(name, np.zeros(shape, np.float32))
    with pytest.raises(TensorError, match=r"blk\.0\.attn_kv_b\.weight is"):
        build_plan(as_model(replace(folder, tensors={**folder.tensors, name: wrong})))


@pytest.mark.parametrize("case", ["deepseek_v3", "glm4_moe"])
def test_a_layer_of_the_model_is_not_dropped_as_one_that_guesses(golden, case):
    with pytest.raises(FormatError, match="layer 2 guesses no token ahead"):
        hub(golden, case, num_hidden_layers=2, num_nextn_predict_layers=1)


def test_layers_that_guess_ahead_are_dropped(golden):
    folder = open_checkpoint(golden / "tiny" / "deepseek_v3")
    names = ("mlp.down_proj", "mlp.experts.0.up_proj", "eh_proj", "embed_tokens")
    extra = [small(f"model.layers.3.{name}.weight") for name in names]
    tensors = {**folder.tensors, **{one.name: one for one in extra}}
    metadata = {**folder.metadata, "num_nextn_predict_layers": 1}
    model = as_model(replace(folder, tensors=tensors, metadata=metadata))
    assert model.tensors.keys() == as_model(folder).tensors.keys()
    with pytest.raises(TensorError, match="not used"):
        build_plan(as_model(replace(folder, tensors=tensors)))


@pytest.mark.parametrize(
    ("case", "changes", "error", "text"),
    [
        ("deepseek_v2", {"norm_topk_prob": True}, UnsupportedError, "norm_topk_prob = true"),
        ("deepseek_v2", {"topk_method": "random"}, UnsupportedError, "topk_method = 'random'"),
        ("deepseek_v2", {"scoring_func": "sigmoid"}, UnsupportedError, "scoring_func = 'sigmoid'"),
        ("deepseek_v3", {"topk_method": "greedy"}, UnsupportedError, "topk_method = 'greedy'"),
        ("deepseek_v3", {"rope_interleave": False}, UnsupportedError, "rope_interleave"),
        ("deepseek_v3", {"index_topk": 2048}, UnsupportedError, "index_topk = 2048"),
        ("deepseek_v3", {"moe_layer_freq": 2}, FormatError, "moe_layer_freq = 2"),
        ("deepseek_v3", {"kv_lora_rank": 0}, FormatError, "kv_lora_rank = 0"),
        ("deepseek_v3", {"num_key_value_heads": 2}, FormatError, "num_key_value_heads = 2"),
        ("deepseek_v3", {"n_group": 9}, FormatError, "n_group = 9"),
        ("deepseek_v3", {"n_group": 3}, UnsupportedError, "n_group = 3 of 8"),
        ("deepseek_v3", {"attention_bias": True}, FormatError, "attention_bias = true"),
    ],
)
def test_refused_by_name(golden, case, changes, error, text):
    with pytest.raises(error) as caught:
        build_plan(hub(golden, case, **changes))
    assert text in str(caught.value)


def test_groups_count_by_the_method(golden):
    def routing(case: str, **changes):
        return read_config(hub(golden, case, **changes)).experts.routing

    third = routing("deepseek_v3")
    assert (third.shares, third.group_score, third.groups, third.used_groups) == (
        "sigmoid",
        "top2",
        4,
        2,
    )
    second = routing("deepseek_v2", topk_method="group_limited_greedy", n_group=3, topk_group=2)
    assert (second.shares, second.group_score, second.groups, second.used_groups, second.bias) == (
        "softmax",
        "max",
        3,
        2,
        None,
    )
    assert routing("deepseek_v2", n_group=3, topk_group=2).groups == 1


def test_scores_grow_with_yarn(golden):
    """By the square of 0.1 mscale ln(factor) + 1, where queries and keys would by one each."""
    config = read_config(hub(golden, "deepseek_v3"))
    growth = 0.1 * np.log(4) + 1
    assert config.attention_scale == pytest.approx(32**-0.5 * growth**2, rel=1e-6)
    assert config.layers[0].rope.scaling.attention_factor == 1.0


def test_the_first_model_has_llamas_layers(golden):
    """V1 of the golden V2 without its latent attention."""
    folder = open_checkpoint(golden / "tiny" / "deepseek_v2")
    tensors = {n: t for n, t in folder.tensors.items() if "_a_" not in n and "kv_b" not in n}
    for index in range(3):
        name = f"model.layers.{index}.self_attn."
        shapes = {"q_proj": (64, 64), "k_proj": (64, 64), "v_proj": (64, 64), "o_proj": (64, 64)}
        for part, shape in shapes.items():
            tensors[f"{name}{part}.weight"] = derived.held(
                f"{name}{part}.weight", np.zeros(shape, np.float32)
            )
    latent = ("kv_lora_rank", "q_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim")
    kept = {k: v for k, v in folder.metadata.items() if k not in (*latent, "rope_scaling")}
    model = as_model(replace(folder, architecture="deepseek", tensors=tensors, metadata=kept))
    config = read_config(model)
    assert (config.experts.shared, config.experts.routing.is_normalized) == (64, False)
    assert [layer.has_experts for layer in config.layers] == [False, True, True]
    build_plan(model)
