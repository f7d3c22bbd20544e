"""compressed-tensors: integers packed along inputs, 8-bit integers, 8-bit floats, by one scheme.

    pack-quantized    weight_packed (outputs, inputs / 8), codes raised by half their range;
                      weight_scale (outputs, groups); weight_zero_point packed along outputs
    int-quantized     weight I8 (outputs, inputs), weight_scale a tensor or a row
    float-quantized   weight F8_E4M3, weight_scale likewise
    naive-quantized   one of the two before

Schemes that also round activations are executed with the weights alone: the result is nearer to the
model before quantization.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyrite.errors import FormatError, TensorError, UnsupportedError
from pyrite.formats import float8
from pyrite.formats.checkpoint import Tensor
from pyrite.formats.derived import values_of
from pyrite.formats.exact_blocks import BLOCK, blocks
from pyrite.formats.packed_integers import FLOATS, WORDS, Parts, grouping, unpacked
from pyrite.formats.quantization_keys import check_scheme

FORMATS = ("pack-quantized", "int-quantized", "float-quantized", "naive-quantized")


def method(
    settings: Mapping[str, Any],
) -> tuple[str, tuple[str, ...], Callable[[Parts, Mapping[str, Any]], Tensor]]:
    """The tensor that tells a quantized matrix, those beside it, and what reads them."""
    found = settings.get("format")
    if found not in FORMATS:
        raise UnsupportedError(
            f"quantization_config.format = {str(found)[:60]!r} is not executed here",
            hint=f"those that are: {', '.join(FORMATS)}",
        )
    scheme = _scheme(settings)
    beside = ("weight_scale", "weight_zero_point", "weight_shape", "weight_g_idx", "input_scale")
    if found == "pack-quantized":
        return "weight_packed", beside, lambda parts, _: _packed(parts, scheme)
    return "weight", beside, lambda parts, _: _wide(parts, scheme)


def _scheme(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """The weights' scheme, which all groups of layers must share."""
    groups = settings.get("config_groups")
    if not isinstance(groups, Mapping) or not groups:
        raise FormatError("quantization_config.config_groups is missing")
    check_scheme(groups, str(settings.get("format")))
    schemes = [group.get("weights") for group in groups.values() if isinstance(group, Mapping)]
    if len(schemes) != len(groups) or any(not isinstance(one, Mapping) for one in schemes):
        raise FormatError("quantization_config.config_groups has a group without weights")
    if any(one != schemes[0] for one in schemes):
        raise UnsupportedError("quantization_config.config_groups has groups of several schemes")
    return dict(schemes[0] or {})


def _block(scheme: Mapping[str, Any]) -> tuple[int, int] | None:
    """Rows and columns under one scale, where scales are of blocks."""
    is_block = scheme.get("strategy") == "block"
    return float8.pair(scheme.get("block_structure")) if is_block else None


def _packed(parts: Parts, scheme: Mapping[str, Any]) -> Tensor:
    bits = scheme.get("num_bits")
    if bits not in (4, 8):
        raise UnsupportedError(f"weights of {bits!r} bits: 4 and 8 are executed here")
    if "weight_g_idx" in parts.tensors:
        raise UnsupportedError(f"{parts.name} has inputs out of order (weight_g_idx)")
    packed = parts.matrix("weight_packed", WORDS)
    outputs, inputs = packed.shape[0], packed.shape[1] * 32 // bits
    size = scheme.get("group_size") or -1
    groups = grouping(parts.name, {"group_size": size}, inputs)
    scale = parts.get("weight_scale", FLOATS, (outputs, groups.count))
    zero = None
    if "weight_zero_point" in parts.tensors:
        shape = (-(-outputs * bits // 32), groups.count)
        zero = parts.get("weight_zero_point", WORDS, shape)
    half = 1 << (bits - 1)
    type = "Q8_0" if bits == 8 else "Q4_0" if zero is None else "Q5_0"
    if bits == 8 and zero is not None:
        raise UnsupportedError(f"{parts.name} has 8-bit weights with zeros")

    def make(first: int, count: int) -> NDArray[np.uint8]:
        words = packed.read(first, count).view("<u4").reshape(count, -1)
        codes = unpacked(words, bits) - np.int16(half)
        if zero is not None:
            own = _zeros(zero, bits, first, count, groups.count) - np.int16(half)
            codes = codes - np.repeat(own, groups.group, axis=1)
        return blocks(parts.name, type, codes, values_of(scale, first, count))

    return parts.made(type, (outputs, inputs), make, f"packed {bits} bits")


def _zeros(tensor: Tensor, bits: int, first: int, count: int, groups: int) -> NDArray[np.int16]:
    """Packed along outputs: (outputs / 8, groups). Gives (count, groups)."""
    per_word = 32 // bits
    start, end = first // per_word, -(-(first + count) // per_word)
    words = tensor.read(start, end - start).view("<u4").reshape(-1, groups)
    found = unpacked(words.T, bits).T
    return found[first - start * per_word :][:count]


def _wide(parts: Parts, scheme: Mapping[str, Any]) -> Tensor:
    weight = parts.matrix("weight", ("I8", *float8.TYPES))
    scale = parts.get("weight_scale", FLOATS)
    if weight.type != "I8":
        return float8.scaled(parts, weight, scale, _block(scheme))
    if "weight_zero_point" in parts.tensors and not scheme.get("symmetric", True):
        raise UnsupportedError(f"{parts.name} has 8-bit weights with zeros")
    outputs, inputs = weight.shape
    if inputs % BLOCK:
        raise UnsupportedError(f"{parts.name} has {inputs} inputs: no multiple of {BLOCK}")
    scales = values_of(scale).reshape(-1, 1)
    if len(scales) not in (1, outputs):
        raise TensorError(f"{parts.name} has {len(scales)} scales for {outputs} rows")
    by_row = np.broadcast_to(scales, (outputs, 1))

    def make(first: int, count: int) -> NDArray[np.uint8]:
        codes = weight.read(first, count).view(np.int8).reshape(count, inputs)
        return blocks(parts.name, "Q8_0", codes.astype(np.int16), by_row[first : first + count])

    return parts.made("Q8_0", (outputs, inputs), make, "int8")
