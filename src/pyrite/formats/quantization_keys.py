"""Keys of quantization_config: those that matrices are read by, those that say nothing of them, and
the rest, which may say that the numbers mean something else.

Sources: what AutoGPTQ, GPTQModel, AutoRound, AutoAWQ, compressed-tensors, AutoFP8, DeepSeek and
transformers write into config.json.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyrite.errors import UnsupportedError

Settings = Mapping[str, Any]

# Which modules were left out shows in their tensors.
MODULES = frozenset(
    (
        *("ignore", "ignored_layers", "lm_head", "modules_in_block_to_quantize"),
        *("modules_to_convert", "modules_to_not_convert", "quant_lm_head", "to_quant_block_names"),
    )
)
# How the quantizer searched, what it searched with, and which kernels are to run the result.
# fmt: off
SEARCH = frozenset(
    (
        "act_bits", "act_data_type", "act_dynamic", "act_group_aware", "act_group_size", "act_sym",
        "amp", "autoround_version", "backend", "batch_size", "block_name_to_quantize",
        "cache_block_outputs", "damp_auto_increment", "damp_percent", "dataset", "desc_act",
        "device", "disable_exllama", "do_fuse", "dynamic_max_gap", "enable_minmax_tuning",
        "enable_norm_bias_tuning", "enable_quanted_input", "exllama_config", "fuse_max_seq_len",
        "gradient_accumulate_steps", "hyb_act", "iters", "low_cpu_mem_usage", "low_gpu_mem_usage",
        "lr", "lr_scheduler", "max_input_length", "meta", "minmax_lr", "model_file_base_name",
        "model_name_or_path", "model_seqlen", "module_name_preceding_first_block",
        "modules_to_fuse", "mse", "not_use_best_mse", "nsamples", "offload_to_disk",
        "offload_to_disk_path", "pack_impl", "packing_format", "pad_token_id", "parallel_packing",
        "provider", "scale_dtype", "seqlen", "static_groups", "tokenizer", "train_bs",
        "true_sequential", "use_cuda_fp16", "use_exllama", "v2", "v2_alpha", "vram_strategy",
    )
)
FLOAT8 = frozenset(
    (
        "activation_scale_ub", "activation_scheme", "dequantize", "is_checkpoint_fp8_serialized",
        "kv_cache_quant_method", "kv_cache_scheme", "weight_block_size",
    )
)
COMPRESSED = frozenset(
    (
        "config_groups", "format", "global_compression_ratio", "kv_cache_scheme",
        "quantization_status", "version",
    )
)
# fmt: on
GROUP = frozenset(("input_activations", "output_activations", "targets", "weights"))
SCHEME = frozenset(
    (
        *("actorder", "block_structure", "group_size", "num_bits", "observer", "observer_kwargs"),
        *("scale_dtype", "strategy", "symmetric", "zp_dtype"),
    )
)

# Keys that are read by each method, or say nothing under it.
KNOWN: dict[str, frozenset[str]] = {
    "gptq": SEARCH | {"bits", "group_size", "sym"},
    "awq": SEARCH | {"bits", "group_size", "q_group_size", "sym", "version", "w_bit", "zero_point"},
    "fp8": FLOAT8,
    "mxfp4": frozenset(("dequantize",)),
    "compressed-tensors": COMPRESSED,
}


def _is_dense(value: Any) -> bool:
    return isinstance(value, Mapping) and value.get("format") == "dense"


def _leaves_out(value: Any) -> bool:
    """GPTQModel's patterns: with "-:" they name modules that stay whole."""
    return isinstance(value, Mapping) and all(str(key).startswith("-:") for key in value)


def _stay_whole(value: Any) -> bool:
    """AutoRound's exceptions: modules of 16 bits and more."""
    rows = value.values() if isinstance(value, Mapping) else (None,)
    return all(
        isinstance(row, Mapping) and isinstance(row.get("bits"), int) and row["bits"] >= 16
        for row in rows
    )


def _is_empty(value: Any) -> bool:
    return isinstance(value, Mapping) and not any(value.values())


def _one_of(*values: str) -> Callable[[Any], bool]:
    return lambda value: value in values


# Keys that may be what is executed, or not.
CHECKED: dict[str, dict[str, Callable[[Any], bool]]] = {
    "gptq": {
        "checkpoint_format": _one_of("gptq", "gptq_v2"),
        "data_type": _one_of("int"),
        "dynamic": _leaves_out,
        "extra_config": _stay_whole,
        "format": _one_of("gptq", "gptq_v2"),
        "method": _one_of("gptq"),
        "pack_dtype": _one_of("int32"),
    },
    "awq": {
        "checkpoint_format": _one_of("gemm"),
        "data_type": _one_of("int"),
        "dynamic": _leaves_out,
        "extra_config": _stay_whole,
        "format": _one_of("gemm"),
        "method": _one_of("awq"),
        "pack_dtype": _one_of("int32"),
    },
    "fp8": {
        "fmt": _one_of("e4m3", "e5m2", "float8_e4m3fn"),
        "scale_fmt": _one_of("ue8m0", "float", "float32"),
    },
    "compressed-tensors": {"sparsity_config": _is_dense, "transform_config": _is_empty},
}
# The same of a group of compressed-tensors, and of the scheme of its weights.
SCHEME_CHECKED: dict[str, Callable[[Any], bool]] = {
    "type": _one_of("int", "float"),
    "dynamic": lambda value: value is False,
}


def check_keys(method: str, settings: Settings) -> None:
    """Raises UnsupportedError for a key that may change what the matrices mean."""
    known = KNOWN.get(method, frozenset()) | MODULES | {"quant_method"}
    checked = CHECKED.get(method, {})
    _check("quantization_config", settings, known - checked.keys(), checked)


def check_scheme(groups: Mapping[str, Any], layout: str) -> None:
    """The same of config_groups of compressed-tensors; `layout`: the format of all."""
    for name, group in groups.items():
        where = f"quantization_config.config_groups.{name}"
        if isinstance(group, Mapping):
            _check(where, group, GROUP, {"format": _one_of(layout)})
            if isinstance(weights := group.get("weights"), Mapping):
                _check(f"{where}.weights", weights, SCHEME, SCHEME_CHECKED)


def _check(
    where: str,
    settings: Settings,
    known: frozenset[str],
    checked: Mapping[str, Callable[[Any], bool]],
) -> None:
    for key, value in settings.items():
        if key in known or value in (None, False, "", [], {}):  # nothing that is switched on
            continue
        is_known = key in checked
        if is_known and checked[key](value):
            continue
        shown = str(value) if len(str(value)) <= 60 else f"{str(value)[:57]}..."
        raise UnsupportedError(
            f"{where}.{key} = {shown}: "
            + ("not executed here" if is_known else "not a key that is known here"),
            hint="it may change what the weights mean; take a GGUF file of the model"
            + ("" if is_known else ", or remove the key if it does not"),
        )
