"""Granite 4: Mamba 2's mixer in most layers, attention in some; Granite 3's multipliers.

Each layer ends in a feed-forward block, or in experts beside one that every token passes. Positions
turn where a file says so.

Source: the published configurations, and arXiv 2405.21060 for the mixer.
"""

from __future__ import annotations

from pyrite.errors import UnsupportedError
from pyrite.graph.build import GraphBuilder
from pyrite.graph.ops import Routing
from pyrite.graph.values import View
from pyrite.models import blocks, granite, hub_config, hub_space, mamba2
from pyrite.models import config as limits
from pyrite.models.config import Family, ModelConfig
from pyrite.models.hub import ATTENTION, PRE_NORMS, Folder, hub


def layer(graph: GraphBuilder, config: ModelConfig, x: View, index: int) -> View:
    mixer = blocks.attention if config.layers[index].key_heads else mamba2.mix
    normed = blocks.norm(graph, config, x, f"blk.{index}.attn_norm")
    x = blocks.add(graph, config, x, mixer(graph, config, normed, index))
    normed = blocks.norm(graph, config, x, f"blk.{index}.ffn_norm")
    return blocks.add(graph, config, x, blocks.feed_forward(graph, config, normed, index))


GRANITE_HYBRID = Family(
    name="granitehybrid",
    layer=layer,
    rope_layout="pairs",
    states_turning=True,
    divides_logits=True,
    scales_residual=True,
    routing=Routing(1),
    arrange=mamba2.arrange,
)


def translate(folder: Folder) -> None:
    granite.translate(folder)
    hub_space.by_heads(folder)
    keys, shared = folder.keys, folder.stated("attention.head_count_kv")
    folder.put("attention.head_count_kv", [shared if kind else 0 for kind in _attend(folder)])
    folder.put("rope.scaling.finetuned", keys.text("position_embedding_type", "nope") == "rope")
    if folder.stated("ssm.group_count") != 1:
        raise UnsupportedError("mamba_n_groups: only 1 is executed in granitehybrid")
    width = keys.integer("shared_intermediate_size", 0, limits.MAX_WIDTH, 1024)
    folder.tensors.split_fused()
    if keys.integer("num_local_experts", 0, limits.MAX_EXPERTS, 8):
        hub_config.experts(folder, count="num_local_experts", width=None, normalized=None)
        folder.put("expert_shared_feed_forward_length", width)
    else:
        folder.put("feed_forward_length", width)
        _only_shared(folder)
    hub_config.ignore(folder, *_IGNORED)


def _attend(folder: Folder) -> list[bool]:
    """Of each layer: whether it has attention."""
    names = ("mamba", "attention", "linear_attention", "full_attention")  # older ones, newer ones
    types = hub_config.layer_types(folder, names) or ("mamba",) * folder.num_layers
    return [kind in ("attention", "full_attention") for kind in types]


def _only_shared(folder: Folder) -> None:
    """Without experts what every token passes is the feed-forward block."""
    for layer in folder.tensors.layers():
        for part in ("gate", "up", "down"):
            folder.tensors.rename(f"{layer}ffn_{part}_shexp.weight", f"{layer}ffn_{part}.weight")


# What is executed anyway, or how training started.
_IGNORED = ("init_method", "normalization_function", "num_experts_per_tok")

_LAYER = ATTENTION | PRE_NORMS | hub_space.mixer("mamba") | granite.EXPERTS | granite.SHARED

HUBS = {"granitemoehybrid": hub("granitehybrid", translate, _LAYER)}

FAMILIES = {GRANITE_HYBRID.name: GRANITE_HYBRID}
