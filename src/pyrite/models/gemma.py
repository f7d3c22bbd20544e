"""Gemma 1, 2 and 3 (text).

The embedding is scaled by sqrt(width), and the head is the embedding table. A folder
keeps weight - 1 of its norms. From Gemma 2 on a norm also follows attention and feed-forward, and
most layers see only a window; Gemma 3 normalises queries and keys, and turns them by a theta of
their own there.

Source: arXiv 2403.08295, 2408.00118, 2503.19786.
"""

from __future__ import annotations

import re
from dataclasses import replace

from pyrite.errors import UnsupportedError
from pyrite.formats import derived
from pyrite.graph.build import GraphBuilder
from pyrite.graph.values import View
from pyrite.models import blocks, hub_config, llama
from pyrite.models.config import Family, ModelConfig
from pyrite.models.hub import ATTENTION, FEED_FORWARD, HEAD_NORMS, PRE_NORM, Folder, hub
from pyrite.models.hub_config import ACTIVATIONS
from pyrite.models.hub_rope import rope


def layer(graph: GraphBuilder, config: ModelConfig, x: View, index: int) -> View:
    """A norm before and a norm after attention and feed-forward (Gemma 2 and 3)."""
    name = f"blk.{index}."
    normed = blocks.norm(graph, config, x, name + "attn_norm")
    mixed = blocks.attention(graph, config, normed, index)
    x = graph.add(x, blocks.norm(graph, config, mixed, name + "post_attention_norm"))
    normed = blocks.norm(graph, config, x, name + "ffn_norm")
    fed = blocks.feed_forward(graph, config, normed, index)
    return graph.add(x, blocks.norm(graph, config, fed, name + "post_ffw_norm"))


GEMMA = Family(
    name="gemma",
    layer=llama.layer,
    activation="gelu_tanh",
    scales_embeddings=True,
)

GEMMA2 = replace(
    GEMMA,
    name="gemma2",
    layer=layer,
    window=4096,
    window_pattern=2,
    wide_scale_layers=46,  # the 27B model
    attention_softcap=50.0,
    final_softcap=30.0,
)

GEMMA3 = replace(
    GEMMA,
    name="gemma3",
    layer=layer,
    theta=1e6,
    local_theta=10000.0,
    scales_local=False,
    window_pattern=6,
    wide_scale_layers=62,  # the 27B model
    head_norms="head",
)

NORM = re.compile(r".*norm\.weight")


def translate(folder: Folder) -> None:
    _translate(folder, GEMMA)


def translate_gemma2(folder: Folder) -> None:
    _translate(folder, GEMMA2)
    _windows(folder, GEMMA2)
    _softcaps(folder, GEMMA2)


def translate_gemma3(folder: Folder) -> None:
    _translate(folder, GEMMA3)
    _windows(folder, GEMMA3)
    _softcaps(folder, GEMMA3)


def _translate(folder: Folder, family: Family) -> None:
    hub_config.sizes(folder)
    hub_config.heads(folder)
    hub_config.norms(folder)
    rope(folder, family.theta, family.local_theta)
    _require_activation(folder)
    hub_config.head(folder, tied=True)
    hub_config.biases(folder, feed_forward="")
    for name in [name for name in folder.tensors.all if NORM.fullmatch(name)]:
        folder.tensors.change(name, derived.one_more)


def _require_activation(folder: Folder) -> None:
    """Gemma's `hidden_act` is not what its published code computes; `hidden_activation` is."""
    written = folder.keys.text("hidden_act", "gelu")
    stated = folder.keys.text("hidden_activation", "gelu_pytorch_tanh")
    stated = stated if written in ("gelu", "gelu_pytorch_tanh") else written
    if ACTIVATIONS.get(stated) != "gelu_tanh":
        raise UnsupportedError(f"hidden_activation = {stated[:60]!r} is not executed in Gemma")


def _windows(folder: Folder, family: Family) -> None:
    hub_config.windows(folder, family.window_pattern, default=family.window)
    scalar = folder.keys.number("query_pre_attn_scalar", 1e-6, 1e6, 256.0)
    folder.put("attention.scale", scalar**-0.5)


def _softcaps(folder: Folder, family: Family) -> None:
    """A null switches one off; an absent key is the family's default."""
    for key, default in (
        ("attn_logit_softcapping", family.attention_softcap),
        ("final_logit_softcapping", family.final_softcap),
    ):
        is_off = key in folder.keys.values and folder.keys.values[key] is None
        folder.put(key, folder.keys.number(key, 0.0, 1e6, 0.0 if is_off else default))


_SANDWICH = {
    **ATTENTION,
    **FEED_FORWARD,
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}

# What text_config leaves out where it is usual: of the 4B model, whose sizes these are.
_WRAPPED = {
    "head_dim": 256,
    "max_position_embeddings": 131072,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "vocab_size": 262208,
}

HUBS = {
    "gemma": hub("gemma", translate, PRE_NORM),
    "gemma2": hub("gemma2", translate_gemma2, _SANDWICH),
    "gemma3": hub(
        "gemma3", translate_gemma3, _SANDWICH | HEAD_NORMS, defaults=_WRAPPED, is_wrapped=True
    ),
    "gemma3_text": hub("gemma3", translate_gemma3, _SANDWICH | HEAD_NORMS),
}

FAMILIES = {family.name: family for family in (GEMMA, GEMMA2, GEMMA3)}
