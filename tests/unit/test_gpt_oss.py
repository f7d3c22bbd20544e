"""GPT-OSS: what a folder holds, as numbers or as MXFP4, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pyrite.errors import FormatError, TensorError, UnsupportedError
from pyrite.formats.checkpoint import Tensor, open_checkpoint
from pyrite.formats.mxfp4 import flat, repacked
from pyrite.models.registry import as_model, build_plan, read_config
from pyrite.quant.dequant import dequantize
from variants import hub

# Of E2M1, by code: a sign, two bits of exponent, one of mantissa.
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)


def packed(shape: tuple[int, ...], seed: int = 0):
    """Tensors of a folder and the numbers that they mean. `shape`: (..., rows, columns)."""
    rng = np.random.default_rng(seed)
    *stack, columns = shape
    codes = rng.integers(0, 256, (*stack, columns // 32, 16), np.uint8)
    exponents = rng.integers(120, 134, (*stack, columns // 32), np.uint8)
    values = np.stack([E2M1[codes & 15], E2M1[codes >> 4]], axis=-1).reshape(*stack, -1, 32)
    values = (values * np.exp2(exponents.astype(np.float32) - 127)[..., None]).reshape(shape)
    return as_tensor("blocks", codes), as_tensor("scales", exponents), values


def as_tensor(name: str, data) -> Tensor:
    return Tensor(name, "U8", data.shape, data.reshape(-1))


def values_of(tensor: Tensor):
    return dequantize(tensor.read(), tensor.type, tensor.shape)


def test_a_folders_blocks_are_the_same_numbers():
    blocks, scales, values = packed((3, 4, 96))
    tensor = repacked(flat(blocks), scales)
    assert (tensor.type, tensor.shape) == ("MXFP4", (3, 4, 96))
    np.testing.assert_array_equal(values_of(tensor), values)
    some = dequantize(tensor.read(5, 3), "MXFP4", (3, 96))
    np.testing.assert_array_equal(some, values.reshape(12, 96)[5:8])


@pytest.mark.parametrize(
    ("blocks", "scales"),
    [
        ((4, 3, 16), (4, 2)),
        ((4, 3, 8), (4, 3)),
        ((16,), (1,)),
        ((4, 3, 16), (3, 4)),
    ],
)
def test_blocks_and_scales_that_do_not_fit(blocks, scales):
    parts = (np.zeros(blocks, np.uint8), np.zeros(scales, np.uint8))
    with pytest.raises(TensorError, match="must be U8"):
        repacked(flat(as_tensor("blocks", parts[0])), as_tensor("scales", parts[1]))


def with_mxfp4(golden):
    """The golden model with other experts in its first layer, and what these mean."""
    checkpoint = open_checkpoint(golden / "tiny" / "gpt_oss")
    tensors, expected = dict(checkpoint.tensors), {}
    for part, shape in (("gate_up_proj", (4, 128, 64)), ("down_proj", (4, 64, 64))):
        name = f"model.layers.0.mlp.experts.{part}"
        del tensors[name]
        blocks, scales, expected[part] = packed(shape)
        tensors |= {
            f"{name}_{one.name}": replace(one, name=f"{name}_{one.name}")
            for one in (blocks, scales)
        }
    settings = {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}
    metadata = {**checkpoint.metadata, "quantization_config": settings}
    return replace(checkpoint, tensors=tensors, metadata=metadata), expected


def test_published_experts_keep_their_type(golden):
    folder, expected = with_mxfp4(golden)
    tensors = as_model(folder).tensors
    gate, up, down = (tensors[f"blk.0.ffn_{part}_exps.weight"] for part in ("gate", "up", "down"))
    assert {gate.type, up.type, down.type} == {"MXFP4"}
    np.testing.assert_array_equal(values_of(gate), expected["gate_up_proj"][:, ::2])
    np.testing.assert_array_equal(values_of(up), expected["gate_up_proj"][:, 1::2])
    np.testing.assert_array_equal(values_of(down), expected["down_proj"])
    build_plan(as_model(folder))


def test_scales_that_are_missing(golden):
    folder, _ = with_mxfp4(golden)
    name = "model.layers.0.mlp.experts.down_proj_scales"
    tensors = {key: one for key, one in folder.tensors.items() if key != name}
    with pytest.raises(TensorError, match=r"blk\.0\.down\.scales"):
        as_model(replace(folder, tensors=tensors))


@pytest.mark.parametrize("shape", [(4, 64, 127), (4, 128), (512,)])
def test_gate_and_up_that_are_not_in_turn(golden, shape):
    checkpoint = open_checkpoint(golden / "tiny" / "gpt_oss")
    name = "model.layers.0.mlp.experts.gate_up_proj"
    wrong = Tensor(name, "F32", shape, np.zeros(4 * int(np.prod(shape)), np.uint8))
    with pytest.raises(TensorError, match=r"blk\.0\.(both|ffn_gate_exps)\.weight is"):
        build_plan(as_model(replace(checkpoint, tensors={**checkpoint.tensors, name: wrong})))


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"swiglu_limit": 6.0}, UnsupportedError, "swiglu_limit = 6"),
        ({"experts_per_token": 3}, FormatError, "experts_per_token = 3"),
        ({"num_local_experts": 1}, FormatError, "num_experts_per_tok = 2"),
        (
            {"quantization_config": {"quant_method": "bitsandbytes"}},
            UnsupportedError,
            "bitsandbytes",
        ),
        ({"hidden_act": "gelu"}, UnsupportedError, "hidden_act = 'gelu'"),
        ({"swiglu_alpha": 1.5}, UnsupportedError, "swiglu_alpha = 1.5"),
        ({"swiglu_beta": 1.5}, UnsupportedError, "swiglu_beta = 1.5"),
    ],
)
def test_refused_by_name(golden, changes, error, text):
    with pytest.raises(error) as caught:
        build_plan(hub(golden, "gpt_oss", **changes))
    assert text in str(caught.value)


def test_windows_and_angles(golden):
    layers = read_config(hub(golden, "gpt_oss")).layers
    assert [layer.window for layer in layers] == [8, 0, 8, 0]
    assert not layers[0].rope.scaling.truncate
    assert read_config(hub(golden, "gpt_oss", layer_types=...)).layers == layers
