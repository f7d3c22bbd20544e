"""LFM2 and LFM2-MoE: gated short convolutions in most layers, attention in some.

Source: arXiv 2511.23404 and the published configurations. A layer without key heads is a
convolution. GGUF files call the last norm `token_embd_norm`.
"""

from __future__ import annotations

from pyrite.graph.build import GraphBuilder
from pyrite.graph.ops import Routing
from pyrite.graph.values import View
from pyrite.models import blocks, hub_config
from pyrite.models import config as limits
from pyrite.models.arrange import Tensors
from pyrite.models.config import Family, ModelConfig
from pyrite.models.hub import TOP, Folder, hub
from pyrite.models.hub_rope import rope
from pyrite.models.hub_space import one_channel


def layer(graph: GraphBuilder, config: ModelConfig, x: View, index: int) -> View:
    name = f"blk.{index}."
    has_attention = config.layers[index].key_heads > 0
    operator = blocks.attention if has_attention else convolution
    normed = blocks.norm(graph, config, x, name + "attn_norm")
    x = graph.add(x, operator(graph, config, normed, index))
    normed = blocks.norm(graph, config, x, name + "ffn_norm")
    return graph.add(x, blocks.feed_forward(graph, config, normed, index))


def convolution(graph: GraphBuilder, config: ModelConfig, x: View, index: int) -> View:
    """out(c * conv(b * x)), where b, c and x are projections."""
    name = f"blk.{index}.shortconv."
    projected = blocks.linear(graph, x, name + "in_proj", 3 * config.width)
    b, c, columns = blocks.columns(projected, config.width, config.width, config.width)
    gated = graph.gate(b, columns, "identity")
    mixed = graph.short_conv(gated, name + "conv.weight", config.kernel)
    return blocks.linear(graph, graph.gate(c, mixed, "identity"), name + "out_proj", config.width)


def arrange(tensors: Tensors) -> None:
    tensors.rename("token_embd_norm.weight", "output_norm.weight")


LFM2 = Family(name="lfm2", layer=layer, theta=1e6, head_norms="head", arrange=arrange)
LFM2_MOE = Family(
    name="lfm2moe",
    layer=layer,
    theta=1e6,
    head_norms="head",
    routing=Routing(1, "sigmoid", bias="exp_probs_b.bias", eps=1e-6),
    arrange=arrange,
)


def translate(folder: Folder) -> None:
    _translate(folder)
    folder.put("feed_forward_length", _feed_forward(folder))
    hub_config.require(folder, "block_use_swiglu", "use_pos_enc")


def translate_moe(folder: Folder) -> None:
    _translate(folder)
    hub_config.experts(folder)
    keys = folder.keys
    folder.put("expert_gating_func", 2)
    folder.put("expert_weights_scale", keys.number("routed_scaling_factor", 1e-6, 1e6, 1.0))
    dense = keys.integer("num_dense_layers", 0, folder.num_layers, 2)
    folder.put("leading_dense_block_count", dense)
    hub_config.told_mixtures(folder, range(dense, folder.num_layers))
    if dense < folder.num_layers:
        bias = "exp_probs_b.bias"
        hub_config.told(folder, "use_expert_bias", bias, layer=dense, default=True)


def _translate(folder: Folder) -> None:
    hub_config.sizes(folder)
    hub_config.heads(folder)
    shared = folder.stated("attention.head_count_kv")
    kinds = _kinds(folder)
    folder.put("attention.head_count_kv", [shared if kind else 0 for kind in kinds])
    hub_config.norms(folder, eps=1e-5)
    rope(folder, LFM2.theta)
    hub_config.head(folder, tied=folder.keys.boolean("tie_embedding", True))
    taps = folder.keys.integer("conv_L_cache", 2, limits.MAX_KERNEL, 3)
    folder.put("shortconv.l_cache", taps)
    folder.change("shortconv.conv.weight", one_channel)
    hub_config.ignore(folder, *_IGNORED)


def _kinds(folder: Folder) -> list[bool]:
    """Of each layer: whether it has attention."""
    chosen = hub_config.layer_numbers(folder, "full_attn_idxs")  # older files have it
    types = hub_config.layer_types(folder, ("full_attention", "conv"))
    if types is not None:
        return [kind == "full_attention" for kind in types]
    return [chosen is None or index in chosen for index in range(folder.num_layers)]


def _feed_forward(folder: Folder) -> int:
    """LFM2's configurations state the width before it is adjusted."""
    keys = folder.keys
    stated = folder.stated("feed_forward_length")
    width = keys.integer("block_ff_dim", 1, limits.MAX_WIDTH, stated)
    factor = keys.number("block_ffn_dim_multiplier", 1e-3, 1e3, 1.0)
    step = keys.integer("block_multiple_of", 1, limits.MAX_WIDTH, 256)
    if not keys.boolean("block_auto_adjust_ff_dim", True):
        return width
    return -(-int(factor * int(2 * width / 3)) // step) * step


# How training started, and names for sizes that are stated twice.
_IGNORED = (
    "block_dim",
    "block_mlp_init_scale",
    "block_norm_eps",
    "block_out_init_scale",
    "block_use_xavier_init",
    "conv_dim",
    "conv_dim_out",
    "conv_use_xavier_init",
    "num_heads",
    "theta",
)

_TOP = {**TOP, "model.embedding_norm": "token_embd_norm"}
_LAYER = {
    "operator_norm": "attn_norm",
    "ffn_norm": "ffn_norm",
    "conv.conv": "shortconv.conv",
    "conv.in_proj": "shortconv.in_proj",
    "conv.out_proj": "shortconv.out_proj",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.out_proj": "attn_output",
    "self_attn.q_layernorm": "attn_q_norm",
    "self_attn.k_layernorm": "attn_k_norm",
    "feed_forward.w1": "ffn_gate",
    "feed_forward.w2": "ffn_down",
    "feed_forward.w3": "ffn_up",
}
_EXPERTS = {
    "feed_forward.gate": "ffn_gate_inp",
    "feed_forward.expert_bias": "exp_probs_b.bias",
    "feed_forward.experts.*.w1": "ffn_gate_exps",
    "feed_forward.experts.*.w2": "ffn_down_exps",
    "feed_forward.experts.*.w3": "ffn_up_exps",
}
_ALIASES = {"rms_norm_eps": "norm_eps"}

HUBS = {
    "lfm2": hub("lfm2", translate, _LAYER, _TOP, _ALIASES, defaults={"intermediate_size": 12288}),
    "lfm2_moe": hub(
        "lfm2moe",
        translate_moe,
        _LAYER | _EXPERTS,
        _TOP,
        _ALIASES,
        defaults={"norm_topk_prob": True},
    ),
}

FAMILIES = {family.name: family for family in (LFM2, LFM2_MOE)}
