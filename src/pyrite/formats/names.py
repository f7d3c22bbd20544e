"""Tensor names of hub checkpoints, and the GGUF names they become.

A table for each `model_type`; a new architecture is a row of MODELS and, where its names differ,
a table. Only names change here: layouts (GGUF permutes the query and key rows of llama, and adds
1 to Gemma's norms) are the models' business.

Source of the GGUF names: the GGUF specification.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_TOP = {
    "embed_tokens": "token_embd",
    "norm": "output_norm",
    "lm_head": "output",
}

_LAYER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}

_PRE_NORM = _LAYER | {"post_attention_layernorm": "ffn_norm"}

_SANDWICH_NORM = _LAYER | {
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}

_HEAD_NORM = {"self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm"}

MODELS: Mapping[str, Mapping[str, str]] = {  # model_type -> modules of a layer
    "llama": _PRE_NORM,
    "qwen2": _PRE_NORM,
    "gemma": _PRE_NORM,
    "gemma2": _SANDWICH_NORM,
    "gemma3_text": _SANDWICH_NORM | _HEAD_NORM,
}

# Buffers that old checkpoints saved although they follow from the configuration.
DERIVED = re.compile(r".*\.rotary_emb\.inv_freq|.*\.self_attn\.masked_bias")

_TOP_NAME = re.compile(r"(?:language_model\.)?(?:model\.)?(?P<module>\w+)\.(?P<kind>weight|bias)")
_LAYER_NAME = re.compile(
    r"(?:language_model\.)?(?:model\.)?layers\.(?P<layer>\d{1,5})\."
    r"(?P<module>[\w.]+)\.(?P<kind>weight|bias)"
)


def gguf_name(model_type: str, name: str) -> str:
    """The GGUF name of a hub tensor; `name` itself where the table has none.

    A name without a row is not refused here: loading is total, so the model finds it left over.
    """
    layer_names = MODELS.get(model_type, {})
    if match := _LAYER_NAME.fullmatch(name):
        module = layer_names.get(match["module"])
        return f"blk.{int(match['layer'])}.{module}.{match['kind']}" if module else name
    match = _TOP_NAME.fullmatch(name)
    if match and layer_names and match["module"] in _TOP:
        return f"{_TOP[match['module']]}.{match['kind']}"
    return name
