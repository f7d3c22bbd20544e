"""Jamba: Mamba's mixer in most layers, attention in some; experts in every other.

Nothing turns by position. The step's projection, b and c have norms of their own.

Source: arXiv 2403.19887.
"""

from __future__ import annotations

from pyrite.graph.build import GraphBuilder
from pyrite.graph.ops import Routing
from pyrite.graph.values import View
from pyrite.models import blocks, hub_config, hub_space, mamba
from pyrite.models import config as limits
from pyrite.models.config import Family, ModelConfig
from pyrite.models.hub import ATTENTION, TOP, Folder, hub


def layer(graph: GraphBuilder, config: ModelConfig, x: View, index: int) -> View:
    name = f"blk.{index}."
    normed = blocks.norm(graph, config, x, name + "attn_norm")
    if config.layers[index].key_heads:
        x = graph.add(x, blocks.attention(graph, config, normed, index))
    else:
        x = graph.add(x, _mix(graph, config, normed, index))
    normed = blocks.norm(graph, config, x, name + "ffn_norm")
    return graph.add(x, blocks.feed_forward(graph, config, normed, index))


def _mix(graph: GraphBuilder, config: ModelConfig, x: View, index: int) -> View:
    def norm(part: View, kind: str) -> View:
        return blocks.norm(graph, config, part, f"blk.{index}.ssm_{kind}_norm")

    return mamba.mix(graph, config, x, index, norm)


JAMBA = Family(name="jamba", layer=layer, turns=False, routing=Routing(1, is_normalized=False))


def translate(folder: Folder) -> None:
    hub_config.sizes(folder)
    hub_config.heads(folder)
    hub_config.norms(folder)
    hub_config.require_activation(folder, "silu")
    hub_config.head(folder)
    hub_space.selective(folder)
    hub_config.require(folder, "mamba_inner_layernorms")
    keys, layers = folder.keys, range(folder.num_layers)
    period = keys.integer("attn_layer_period", 1, limits.MAX_LAYERS, 8)
    offset = keys.integer("attn_layer_offset", 0, period - 1, min(4, period - 1))
    shared = folder.stated("attention.head_count_kv")
    by_layer = [shared if index % period == offset else 0 for index in layers]
    folder.put("attention.head_count_kv", by_layer)
    step = keys.integer("expert_layer_period", 1, limits.MAX_LAYERS, 2)
    first = keys.integer("expert_layer_offset", 0, step - 1, min(1, step - 1))
    is_mixture = keys.integer("num_experts", 1, limits.MAX_EXPERTS, 16) > 1
    if is_mixture:
        hub_config.experts(folder, width=None, normalized=None)
    hub_config.told_mixtures(folder, layers[first::step] if is_mixture else ())
    # How many experts there are where there are none, and a library's output.
    hub_config.ignore(folder, "num_experts_per_tok", "calc_logits_for_entire_prompt")


_LAYER = {
    **ATTENTION,
    **hub_space.mixer("mamba"),
    "input_layernorm": "attn_norm",
    "pre_ff_layernorm": "ffn_norm",
    "mamba.dt_layernorm": "ssm_dt_norm",
    "mamba.b_layernorm": "ssm_b_norm",
    "mamba.c_layernorm": "ssm_c_norm",
    "feed_forward.gate_proj": "ffn_gate",
    "feed_forward.up_proj": "ffn_up",
    "feed_forward.down_proj": "ffn_down",
    "feed_forward.router": "ffn_gate_inp",
    "feed_forward.experts.*.gate_proj": "ffn_gate_exps",
    "feed_forward.experts.*.up_proj": "ffn_up_exps",
    "feed_forward.experts.*.down_proj": "ffn_down_exps",
}
_TOP = {**TOP, "model.final_layernorm": "output_norm"}

HUBS = {"jamba": hub("jamba", translate, _LAYER, _TOP)}

FAMILIES = {JAMBA.name: JAMBA}
