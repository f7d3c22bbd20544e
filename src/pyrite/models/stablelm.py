"""StableLM: Llama's layers with norms that subtract the mean, of which only some columns turn.

StableLM 2 12B has attention and feed-forward side by side behind one norm, and normalises queries
and keys, each head by weights of its own.

Source: arXiv 2402.17834 and the published configurations.
"""

from __future__ import annotations

from pyrite.errors import TensorError
from pyrite.graph.build import GraphBuilder
from pyrite.graph.values import View
from pyrite.models import cohere, hub_config, llama
from pyrite.models.config import Family, ModelConfig
from pyrite.models.hub import PRE_NORM, Folder, hub


def layer(graph: GraphBuilder, config: ModelConfig, x: View, index: int) -> View:
    build = llama.layer if config.feed_forward_norm else cohere.layer
    return build(graph, config, x, index)


STABLELM = Family(
    name="stablelm",
    layer=layer,
    norm="layer",
    norm_bias=True,
    head_norms="own",
    may_lack_head_norms=True,
    arrange=cohere.flatten_head_norms,
)


def translate(folder: Folder) -> None:
    hub_config.decoder(folder, "layer", eps=1e-5, is_partial=True)
    hub_config.biases(folder, "use_qkv_bias", feed_forward="")
    is_parallel = folder.keys.boolean("use_parallel_residual", False)
    folder.put("use_parallel_residual", is_parallel)
    norm = folder.tensors.get("blk.0.ffn_norm.weight")
    if is_parallel == (norm is not None):
        found = "there" if is_parallel else "missing"
        stated = str(is_parallel).lower()
        raise TensorError(f"use_parallel_residual = {stated}, and blk.0.ffn_norm.weight is {found}")
    hub_config.told(folder, "qk_layernorm", "attn_q_norm.weight")


# `*` is the number of a head: the norms of all are one tensor.
_HEAD_NORMS = {
    "self_attn.q_layernorm.norms.*": "attn_q_norm",
    "self_attn.k_layernorm.norms.*": "attn_k_norm",
}

HUBS = {
    "stablelm": hub(
        "stablelm",
        translate,
        PRE_NORM | _HEAD_NORMS,
        aliases={"rms_norm_eps": "layer_norm_eps"},
        defaults={"partial_rotary_factor": 0.25},
    )
}

FAMILIES = {family.name: family for family in (STABLELM,)}
