"""Gemma 4's folders as GGUF has them: keys of wide and narrow layers, of shared ones, of inputs.

Source: the published configurations; the GGUF names are what converters write.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pyrite.errors import FormatError, UnsupportedError
from pyrite.formats import derived
from pyrite.models import config as limits
from pyrite.models import hub_config
from pyrite.models.fields import Fields
from pyrite.models.gguf_gemma4 import KEPT, SHARED
from pyrite.models.gguf_rope import FREQUENCY_FACTORS
from pyrite.models.hub import ATTENTION, FEED_FORWARD, HEAD_NORMS, TOP, Folder, hub

PERIOD = 6
STILL = np.float32(1e30)  # a divisor: the pair does not turn


def translate(folder: Folder) -> None:
    keys = folder.keys
    hub_config.stream(folder)
    hub_config.norms(folder)
    hub_config.require_activation(folder, "gelu_tanh", "hidden_activation")
    hub_config.head(folder, tied=True)
    hub_config.biases(folder, feed_forward="")
    wide = _wide_layers(folder)
    _heads(folder, wide)
    _rope(folder)
    _shared(folder)
    _told_values(folder, wide)
    _own_inputs(folder)
    _experts(folder)
    folder.put("final_logit_softcapping", keys.number("final_logit_softcapping", 0.0, 1e6, 0.0))
    if keys.get("use_bidirectional_attention") not in (None, "vision"):  # which concerns images
        stated = keys.text("use_bidirectional_attention", "")
        raise UnsupportedError(f"use_bidirectional_attention = {stated[:60]!r}: not executed here")


def _wide_layers(folder: Folder) -> list[bool]:
    """Those without a window, of which the last layer is one."""
    kinds = ("full_attention", "sliding_attention")
    types = hub_config.layer_types(folder, kinds)
    if types is None:
        wide = [(index + 1) % PERIOD == 0 for index in range(folder.num_layers)]
    else:
        wide = [kind == "full_attention" for kind in types]
    wide[-1] = True
    window = folder.keys.integer("sliding_window", 1, limits.MAX_CONTEXT, 512)
    folder.put("attention.sliding_window", window)
    folder.put("attention.sliding_window_pattern", [not one for one in wide])
    return wide


def _heads(folder: Folder, wide: list[bool]) -> None:
    keys = folder.keys
    count = keys.integer("num_attention_heads", 1, limits.MAX_HEADS, 8)
    shared = keys.integer("num_key_value_heads", 1, count, 4)
    width = keys.integer("head_dim", 2, limits.MAX_HEAD_WIDTH, 256)
    by_layer = _by_layer(folder, wide)
    wide_width = keys.integer("global_head_dim", 2, limits.MAX_HEAD_WIDTH, by_layer[0] or 512)
    wide_shared = keys.integer("num_global_key_value_heads", 1, count, by_layer[1] or shared)
    has_values = not keys.boolean("attention_k_eq_v", False)
    if has_values:
        wide_shared = by_layer[1] or shared
    folder.put("attention.head_count", count)
    folder.put("attention.head_count_kv", [wide_shared if one else shared for one in wide])
    for key, columns in (("length", wide_width), ("length_swa", width)):
        folder.put(f"attention.key_{key}", columns)
        folder.put(f"attention.value_{key}", columns)


def _by_layer(folder: Folder, wide: list[bool]) -> tuple[int, int]:
    """Width and number of the key heads of wide layers, as newer files state them; 0: they do not.

    FormatError where layers differ otherwise.
    """
    stated = folder.keys.get("per_layer_config")
    if stated is None:
        return 0, 0
    numbers = [str(index) for index, one in enumerate(wide) if one]
    if not isinstance(stated, dict) or sorted(stated) != sorted(numbers):
        raise FormatError(f"per_layer_config must be of the layers without a window: {numbers}")
    found = set()
    for number in numbers:
        own = Fields(stated[number]) if isinstance(stated[number], dict) else Fields({})
        columns = own.integer("head_dim", 2, limits.MAX_HEAD_WIDTH)
        found.add((columns, own.integer("num_key_value_heads", 0, limits.MAX_HEADS, 0)))
        own.refuse_unread("per_layer_config")
    if len(found) > 1:
        raise FormatError("per_layer_config: the layers without a window must be alike")
    return found.pop()


def _told_values(folder: Folder, wide: list[bool]) -> None:
    """Whether wide layers have a projection of values; GGUF shows it by the tensor."""
    are_keys = folder.keys.boolean("attention_k_eq_v", False)
    for index in range(folder.num_layers - folder.stated(SHARED)):
        name = f"blk.{index}.attn_v.weight"
        if wide[index] and are_keys == (name in folder.tensors):
            stated, found = ("true", "is there") if are_keys else ("false", "is missing")
            raise FormatError(f"attention_k_eq_v = {stated}, and tensor {name} {found}")


def _rope(folder: Folder) -> None:
    """Of wide heads a share of the pairs turns, as far apart as if all did."""
    keys = folder.keys.group("rope_parameters") or Fields({})
    wide, narrow = (keys.group(f"{kind}_attention") or Fields({}) for kind in ("full", "sliding"))
    keys.refuse_unread("rope_parameters")
    for own, kind in ((wide, "proportional"), (narrow, "default")):
        if (stated := own.text("rope_type", kind)) != kind:
            raise UnsupportedError(f"rope type {stated[:60]!r}, where {kind!r} is executed")
    thetas = (limits.MIN_THETA, limits.MAX_THETA)
    folder.put("rope.freq_base", wide.number("rope_theta", *thetas, 1e6))
    folder.put("rope.freq_base_swa", narrow.number("rope_theta", *thetas, 10000.0))
    width = folder.stated("attention.key_length")
    folder.put("rope.dimension_count", width)
    folder.put("rope.dimension_count_swa", folder.stated("attention.key_length_swa"))
    turning = int(width * wide.number("partial_rotary_factor", 1e-3, 1.0, 0.25) / 2)
    for own in (wide, narrow):
        own.refuse_unread("rope_parameters")
    factors = np.where(np.arange(width // 2) < turning, np.float32(1), STILL)
    folder.tensors.put(FREQUENCY_FACTORS, derived.held(FREQUENCY_FACTORS, factors))


def _shared(folder: Folder) -> None:
    """The last layers have no keys of their own, though files may hold some; and their
    feed-forward may be twice as wide."""
    keys, count = folder.keys, folder.num_layers
    shared = keys.integer("num_kv_shared_layers", 0, count - 1, 0)
    folder.put(SHARED, shared)
    for index in range(count - shared, count):
        for part in KEPT:
            if (name := f"blk.{index}.{part}") in folder.tensors:
                folder.tensors.take(name)
    inner = keys.integer("intermediate_size", 1, limits.MAX_WIDTH // 2)
    widened = inner * 2 if keys.boolean("use_double_wide_mlp", False) else inner
    folder.put("feed_forward_length", [inner] * (count - shared) + [widened] * shared)


def _own_inputs(folder: Folder) -> None:
    keys = folder.keys
    most = limits.MAX_WIDTH // folder.num_layers
    width = keys.integer("hidden_size_per_layer_input", 0, most, 256)
    folder.put("embedding_length_per_layer_input", width)
    vocabulary = folder.stated("vocab_size")
    rows = keys.integer("vocab_size_per_layer_input", 1, limits.MAX_VOCABULARY, vocabulary)
    if width and rows != vocabulary:
        raise UnsupportedError(
            f"vocab_size_per_layer_input = {rows}, and vocab_size = {vocabulary}: must be the same"
        )


def _experts(folder: Folder) -> None:
    has_experts = folder.keys.boolean("enable_moe_block", False)
    widths = ("moe_intermediate_size", "expert_intermediate_size")  # the second is older
    width = next((key for key in widths if folder.keys.get(key) is not None), widths[0])
    hub_config.told_mixtures(folder, range(folder.num_layers if has_experts else 0))
    if has_experts:
        hub_config.experts(folder, width=width, normalized=None)
    else:
        hub_config.ignore(folder, "num_experts", "num_experts_per_tok", *widths)


_TOP = {
    **TOP,
    "model.embed_tokens_per_layer": "per_layer_token_embd",
    "model.per_layer_model_projection": "per_layer_model_proj",
    "model.per_layer_projection_norm": "per_layer_proj_norm",
}
_LAYER = {
    **ATTENTION,
    **HEAD_NORMS,
    **FEED_FORWARD,
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
    "pre_feedforward_layernorm_2": "pre_ffw_norm_2",
    "post_feedforward_layernorm_1": "post_ffw_norm_1",
    "post_feedforward_layernorm_2": "post_ffw_norm_2",
    "layer_scalar": "layer_output_scale.weight",
    "per_layer_input_gate": "inp_gate",
    "per_layer_projection": "proj",
    "post_per_layer_input_norm": "post_norm",
    "router.proj": "ffn_gate_inp",
    "router.scale": "ffn_gate_inp.scale",
    "router.per_expert_scale": "ffn_down_exps.scale",
    "experts.gate_up_proj": "ffn_gate_up_exps.weight",
    "experts.down_proj": "ffn_down_exps.weight",
}
_ROW: dict[str, Any] = {
    "layer": _LAYER,
    "top": _TOP,
    "aliases": {"num_experts_per_tok": "top_k_experts"},
}

HUBS = {
    "gemma4": hub("gemma4", translate, is_wrapped=True, **_ROW),
    "gemma4_text": hub("gemma4", translate, **_ROW),
}
