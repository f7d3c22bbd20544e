"""quantization_config as published checkpoints have it is taken; what may change the mathematics is
not."""

from __future__ import annotations

from typing import Any

import pytest

from pyrite.errors import FormatError, UnsupportedError
from pyrite.formats.prequantized import read_quantized
from pyrite.formats.quantization_keys import check_keys, check_scheme

WEIGHTS = {
    "actorder": None,
    "block_structure": None,
    "dynamic": False,
    "group_size": 128,
    "num_bits": 4,
    "observer": "minmax",
    "observer_kwargs": {},
    "scale_dtype": None,
    "strategy": "group",
    "symmetric": True,
    "type": "int",
    "zp_dtype": None,
}
GROUP = {
    "format": "pack-quantized",
    "input_activations": None,
    "output_activations": None,
    "targets": ["Linear"],
    "weights": WEIGHTS,
}

# As their makers write them: the keys are facts of the formats, the values typical ones.
PUBLISHED: dict[str, dict[str, Any]] = {
    "AutoGPTQ": {
        "bits": 4,
        "damp_percent": 0.1,
        "desc_act": True,
        "group_size": 128,
        "model_file_base_name": "model",
        "model_name_or_path": None,
        "quant_method": "gptq",
        "static_groups": False,
        "sym": True,
        "true_sequential": True,
    },
    "transformers' GPTQ": {
        "batch_size": 1,
        "bits": 4,
        "block_name_to_quantize": "model.layers",
        "cache_block_outputs": True,
        "damp_percent": 0.1,
        "dataset": "c4",
        "desc_act": False,
        "exllama_config": {"version": 1},
        "group_size": 128,
        "max_input_length": None,
        "model_seqlen": 4096,
        "module_name_preceding_first_block": ["model.embed_tokens"],
        "modules_in_block_to_quantize": [["self_attn.q_proj"], ["mlp.down_proj"]],
        "pad_token_id": None,
        "quant_method": "gptq",
        "sym": True,
        "tokenizer": None,
        "true_sequential": True,
        "use_cuda_fp16": False,
        "use_exllama": True,
    },
    "GPTQModel": {
        "bits": 4,
        "checkpoint_format": "gptq",
        "desc_act": False,
        "dynamic": {r"-:.*\.mlp\.gate.*": {}},
        "group_size": 32,
        "hyb_act": False,
        "lm_head": False,
        "meta": {"act_group_aware": True, "mse": 0.0, "quantizer": ["gptqmodel:5.0.0"]},
        "pack_dtype": "int32",
        "pack_impl": "cpu",
        "quant_method": "gptq",
        "sym": True,
    },
    "AutoRound as GPTQ": {
        "amp": True,
        "autoround_version": "0.4.2",
        "batch_size": 8,
        "bits": 4,
        "damp_percent": 0.01,
        "data_type": "int",
        "desc_act": False,
        "enable_minmax_tuning": True,
        "enable_norm_bias_tuning": False,
        "enable_quanted_input": True,
        "extra_config": {"model.layers.0.mlp.gate": {"bits": 16, "data_type": "float"}},
        "gradient_accumulate_steps": 1,
        "group_size": 128,
        "iters": 1000,
        "low_gpu_mem_usage": True,
        "lr": 0.001,
        "minmax_lr": 0.001,
        "nsamples": 512,
        "quant_method": "gptq",
        "scale_dtype": "torch.float16",
        "seqlen": 2048,
        "sym": True,
        "to_quant_block_names": None,
        "true_sequential": False,
    },
    "AutoAWQ": {
        "backend": "autoawq",
        "bits": 4,
        "do_fuse": False,
        "exllama_config": None,
        "fuse_max_seq_len": None,
        "group_size": 128,
        "modules_to_fuse": None,
        "modules_to_not_convert": ["lm_head"],
        "quant_method": "awq",
        "version": "gemm",
        "zero_point": True,
    },
    "DeepSeek": {
        "activation_scheme": "dynamic",
        "fmt": "e4m3",
        "quant_method": "fp8",
        "scale_fmt": "ue8m0",
        "weight_block_size": [128, 128],
    },
    "Qwen's FP8": {
        "activation_scheme": "dynamic",
        "modules_to_not_convert": ["lm_head", "model.layers.0.input_layernorm"],
        "quant_method": "fp8",
        "weight_block_size": [128, 128],
    },
    "AutoFP8": {
        "activation_scheme": "static",
        "ignored_layers": ["lm_head"],
        "kv_cache_scheme": "static",
        "quant_method": "fp8",
    },
    "compressed-tensors": {
        "config_groups": {"group_0": GROUP},
        "format": "pack-quantized",
        "global_compression_ratio": 1.89,
        "ignore": ["lm_head"],
        "kv_cache_scheme": None,
        "quant_method": "compressed-tensors",
        "quantization_status": "compressed",
        "sparsity_config": {
            "format": "dense",
            "global_sparsity": 0.14,
            "ignore": [],
            "registry_requires_subclass": False,
            "sparsity_structure": "unstructured",
            "targets": [],
        },
        "transform_config": {},
        "version": "0.11.0",
    },
    "GPT-OSS": {
        "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"],
        "quant_method": "mxfp4",
    },
}


def check(settings: dict[str, Any]) -> None:
    check_keys(settings["quant_method"], settings)
    check_scheme(settings.get("config_groups", {}), settings.get("format", ""))


@pytest.mark.parametrize("name", PUBLISHED)
def test_what_is_published_is_taken(name: str) -> None:
    check(PUBLISHED[name])


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "a key that nobody knows": ("AutoAWQ", {"rotation": "hadamard"}, "rotation = hadamard"),
    "modules with bits of their own": (
        "GPTQModel",
        {"dynamic": {".*up.*": {"bits": 8}}},
        "dynamic",
    ),
    "exceptions of few bits": (
        "AutoRound as GPTQ",
        {"extra_config": {"lm_head": {"bits": 8}}},
        "extra_config",
    ),
    "another layout": ("AutoGPTQ", {"checkpoint_format": "marlin"}, "checkpoint_format = marlin"),
    "marlin by an older name": ("AutoGPTQ", {"is_marlin_format": True}, "is_marlin_format"),
    "wider words": ("GPTQModel", {"pack_dtype": "int64"}, "pack_dtype = int64"),
    "a correction beside": ("GPTQModel", {"adapter": {"rank": 64}}, "adapter"),
    "other floats": ("DeepSeek", {"fmt": "e3m4"}, "fmt = e3m4"),
    "sparse weights": (
        "compressed-tensors",
        {"sparsity_config": {"format": "sparse-24-bitmask"}},
        "sparsity_config",
    ),
    "rotated weights": (
        "compressed-tensors",
        {"transform_config": {"config_groups": {"u": {"type": "hadamard"}}}},
        "transform_config",
    ),
    "a scheme's unknown key": (
        "compressed-tensors",
        {"config_groups": {"group_0": {**GROUP, "weights": {**WEIGHTS, "codebook": 3}}}},
        r"config_groups\.group_0\.weights\.codebook = 3",
    ),
    "a group's other format": (
        "compressed-tensors",
        {"config_groups": {"group_0": {**GROUP, "format": "float-quantized"}}},
        r"config_groups\.group_0\.format = float-quantized",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_may_change_the_mathematics_is_refused(case: str) -> None:
    name, more, message = REFUSED[case]
    with pytest.raises(UnsupportedError, match=message):
        check({**PUBLISHED[name], **more})


@pytest.mark.parametrize("value", [None, False, "", [], {}])
def test_what_is_switched_off_may_have_any_name(value: Any) -> None:
    check({**PUBLISHED["AutoAWQ"], "rotation": value})


def test_codes_without_a_word_are_no_model(golden) -> None:
    from pyrite.formats.checkpoint import open_checkpoint

    tensors = dict(open_checkpoint(golden / "tiny" / "llama").tensors)
    one = tensors.pop("model.layers.0.mlp.up_proj.weight")
    with pytest.raises(
        FormatError, match=r"up_proj.qweight is packed, and config.json has no quan"
    ):
        read_quantized({**tensors, "model.layers.0.mlp.up_proj.qweight": one}, {})
