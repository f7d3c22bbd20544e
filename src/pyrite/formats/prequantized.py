"""Folders whose weights are quantized already: GPTQ, AWQ, compressed-tensors, FP8.

Each quantized matrix is several tensors (codes, scales, zeros). Here they become one, made when its
rows are read, in the type of ours that holds the same values:

    4 bits about a middle    Q4_0           8 bits about a middle    Q8_0
    4 bits with zeros        Q5_0, whose fifth bit has room for the zero
    FP8                      E4M3, E5M2

Columns out of order (`g_idx`) are F16, rounded to 11 bits, and beside it sorted by group.

Scales become float16, as most files have them. What the matrices mean is unknown here.

Sources of the layouts: the documentation of AutoGPTQ, AutoAWQ and compressed-tensors, and the model
card of DeepSeek-V3 for FP8 in blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyrite.errors import FormatError, UnsupportedError
from pyrite.formats import compressed, float8, packed_integers
from pyrite.formats.checkpoint import Tensor
from pyrite.formats.packed_integers import Parts
from pyrite.formats.quantization_keys import KNOWN, check_keys

METHODS = "gptq, awq, fp8, mxfp4, compressed-tensors"

SETTINGS = ("quantization_config", "compression_config")  # keys of config.json

# Scales of keys and values kept in 8 bits, which are not rounded so here.
OF_CACHES = (".k_scale", ".v_scale", ".q_scale", ".prob_output_scale")

PACKED = (".qweight", ".weight_packed")  # how names of codes end

# Tensors of one module by what follows its name. The first one tells that it is quantized.
Reader = Callable[[Parts, Mapping[str, Any]], Tensor]


def read_quantized(
    tensors: Mapping[str, Tensor], config: Mapping[str, Any]
) -> Mapping[str, Tensor]:
    """The tensors with one `NAME.weight` for each quantized matrix. `config` is config.json's.

    Raises UnsupportedError for a method or a setting that is not executed, FormatError.
    """
    settings = next((config[key] for key in SETTINGS if config.get(key)), None)
    if settings is None:
        _refuse_packed(tensors)
        return tensors
    if not isinstance(settings, Mapping):
        raise FormatError(f"quantization_config = {str(settings)[:60]!r}: must be an object")
    method = settings.get("quant_method", "")
    if not isinstance(method, str):
        raise FormatError(
            f"quantization_config.quant_method = {str(method)[:60]!r}: must be a name"
        )
    if method in KNOWN:
        check_keys(method, settings)
    if method == "mxfp4":  # its tensors are read by the architecture that has them
        return tensors
    first, others, read = _method(method, settings)
    count = 0
    found = {name: one for name, one in tensors.items() if not name.endswith(OF_CACHES)}
    for name in tensors:
        module, _, kind = name.rpartition(".")
        if kind != first or not _is_quantized(tensors[name]):
            continue
        names = [f"{module}.{other}" for other in (first, *others)]
        parts = {one.rpartition(".")[2]: found.pop(one) for one in names if one in found}
        found[f"{module}.weight"] = read(Parts(f"{module}.weight", parts), settings)
        count += 1
    if count == 0:
        raise FormatError(
            f"quantization_config says {method}, and no tensor is quantized",
            hint="take quantization_config out of config.json if the weights are whole",
        )
    return found


def _refuse_packed(tensors: Mapping[str, Tensor]) -> None:
    """Raises FormatError for codes without a word of what they mean."""
    packed = next((name for name in tensors if name.endswith(PACKED)), None)
    if packed is not None:
        raise FormatError(
            f"tensor {packed} is packed, and config.json has no quantization_config",
            hint="put what quantize_config.json or quant_config.json says there, and its "
            "quant_method: gptq or awq",
        )


def _is_quantized(tensor: Tensor) -> bool:
    """Modules that were left out have floats."""
    return tensor.type not in ("F32", "F16", "BF16")


def _method(method: object, settings: Mapping[str, Any]) -> tuple[str, tuple[str, ...], Reader]:
    if method == "gptq":
        return "qweight", ("qzeros", "scales", "g_idx"), packed_integers.read_gptq
    if method == "awq":
        return "qweight", ("qzeros", "scales"), packed_integers.read_awq
    if method == "fp8":
        others = ("weight_scale_inv", "weight_scale", "input_scale", "activation_scale")
        return "weight", others, float8.read_fp8
    if method == "compressed-tensors":
        return compressed.method(settings)
    raise UnsupportedError(
        f"quantization_config.quant_method = {str(method)[:60]!r} is not executed here",
        hint=f"those that are: {METHODS}; or take the model's GGUF file",
    )
