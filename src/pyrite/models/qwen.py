"""Qwen 2, 2.5 and 3, with experts or without: Llama's layers, and more.

Qwen 2 has biases on query, key and value, and may have windows in late layers; Qwen 3 normalises
queries and keys by head instead. Qwen 2's experts come with one that every token passes, as far as
a gate of its own lets it. Of the models that see (VL) the text model is executed.

Source: arXiv 2407.10671, 2505.09388.
"""

from __future__ import annotations

from dataclasses import replace

from pyrite.formats import derived
from pyrite.formats.checkpoint import Tensor
from pyrite.graph.build import GraphBuilder
from pyrite.graph.ops import Routing
from pyrite.graph.values import View
from pyrite.models import blocks, hub_config, llama
from pyrite.models import config as limits
from pyrite.models.arrange import Tensors
from pyrite.models.config import Family, ModelConfig
from pyrite.models.hub import EXPERTS, HEAD_NORMS, PRE_NORM, Folder, hub

SHARED_GATE = "ffn_gate_inp_shexp.weight"

QWEN2 = Family(name="qwen2", layer=llama.layer, query_bias=True, may_have_windows=True)
QWEN3 = Family(name="qwen3", layer=llama.layer, head_norms="head", may_have_windows=True)
QWEN3_MOE = replace(QWEN3, name="qwen3moe", routing=Routing(1))
# The text models of those that see. All parts of a text token's position are the same.
QWEN2_VL = replace(QWEN2, name="qwen2vl")
QWEN3_VL = replace(QWEN3, name="qwen3vl")
QWEN3_VL_MOE = replace(QWEN3_MOE, name="qwen3vlmoe")


def moe_layer(graph: GraphBuilder, config: ModelConfig, x: View, index: int) -> View:
    name = f"blk.{index}."
    normed = blocks.norm(graph, config, x, name + "attn_norm")
    x = graph.add(x, blocks.attention(graph, config, normed, index))
    normed = blocks.norm(graph, config, x, name + "ffn_norm")
    return graph.add(x, feed_forward(graph, config, normed, index))


def feed_forward(graph: GraphBuilder, config: ModelConfig, x: View, index: int) -> View:
    """Experts, and as much of the one that every token passes as its gate says."""
    if not config.layers[index].has_experts or config.experts is None:
        return blocks.feed_forward(graph, config, x, index)
    name = f"blk.{index}."
    without = replace(config, experts=replace(config.experts, shared=0))
    mixed = blocks.experts(graph, without, x, index)
    shared = blocks.gated(graph, config, x, name + "ffn_", config.experts.shared, "_shexp")
    share = graph.linear(x, name + SHARED_GATE, 1)
    return graph.add(mixed, graph.scale_rows(shared, share, "sigmoid"))


def arrange(tensors: Tensors) -> None:
    """The gate of the shared expert is a vector in GGUF files."""
    for layer in tensors.layers():
        tensors.change(layer + SHARED_GATE, _as_row)


def _as_row(tensor: Tensor) -> Tensor:
    width = tensor.shape[-1]
    return derived.reshaped(tensor, (1, width)) if tensor.shape == (width,) else tensor


QWEN2_MOE = replace(
    QWEN2,
    name="qwen2moe",
    layer=moe_layer,
    routing=Routing(1, is_normalized=False),
    arrange=arrange,
)


def translate(folder: Folder) -> None:
    hub_config.decoder(folder)
    hub_config.windows(folder, late=True)


def translate_qwen3(folder: Folder) -> None:
    translate(folder)
    hub_config.biases(folder, feed_forward="")


def translate_moe(folder: Folder) -> None:
    hub_config.decoder(folder)
    hub_config.no_windows(folder)
    hub_config.experts(folder)
    told_mixtures(folder)


def told_mixtures(folder: Folder) -> None:
    """Experts in every so many-th layer, but for those that are named."""
    step = folder.keys.integer("decoder_sparse_step", 1, limits.MAX_LAYERS, 1)
    dense = hub_config.layer_numbers(folder, "mlp_only_layers") or ()
    layers = range(step - 1, folder.num_layers, step)
    hub_config.told_mixtures(folder, [index for index in layers if index not in dense])


def translate_qwen3_moe(folder: Folder) -> None:
    translate_moe(folder)
    hub_config.biases(folder, feed_forward="")


def translate_qwen3_vl_moe(folder: Folder) -> None:
    """Published experts are matrices (inputs, outputs); some libraries save them the other way."""
    translate_qwen3_moe(folder)
    tensors, width = folder.tensors, folder.stated("embedding_length")
    for layer in tensors.layers():
        gate, up, down, both = (
            f"{layer}ffn_{part}_exps.weight" for part in ("gate", "up", "down", "gate_up")
        )
        if down in tensors and tensors[down].shape[-1] == width != tensors[down].shape[-2]:
            for name in (both, down):
                tensors.change(name, derived.transposed)
        if both in tensors:
            tensors.halve(both, gate, up)


def translate_qwen2_moe(folder: Folder) -> None:
    translate_moe(folder)
    hub_config.biases(folder, "qkv_bias", feed_forward="", default=True)
    width = folder.keys.integer("shared_expert_intermediate_size", 1, limits.MAX_WIDTH)
    folder.put("expert_shared_feed_forward_length", width)


SHARED = {
    "mlp.shared_expert.gate_proj": "ffn_gate_shexp",
    "mlp.shared_expert.up_proj": "ffn_up_shexp",
    "mlp.shared_expert.down_proj": "ffn_down_shexp",
    "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
}

STACKED = {
    "mlp.experts.gate_up_proj": "ffn_gate_up_exps.weight",
    "mlp.experts.down_proj": "ffn_down_exps.weight",
}

_WINDOWS = {"max_window_layers": 28, "sliding_window": 4096}  # once they are switched on

HUBS = {
    "qwen2": hub("qwen2", translate, defaults=_WINDOWS),
    "qwen2_5_vl": hub("qwen2vl", translate, defaults=_WINDOWS, is_wrapped=True),
    "qwen2_moe": hub("qwen2moe", translate_qwen2_moe, PRE_NORM | EXPERTS | SHARED),
    "qwen2_vl": hub("qwen2vl", translate, defaults=_WINDOWS, is_wrapped=True),
    "qwen3": hub("qwen3", translate_qwen3, PRE_NORM | HEAD_NORMS, defaults=_WINDOWS),
    "qwen3_moe": hub("qwen3moe", translate_qwen3_moe, PRE_NORM | HEAD_NORMS | EXPERTS),
    "qwen3_vl": hub("qwen3vl", translate_qwen3, PRE_NORM | HEAD_NORMS, is_wrapped=True),
    "qwen3_vl_moe": hub(
        "qwen3vlmoe",
        translate_qwen3_vl_moe,
        PRE_NORM | HEAD_NORMS | EXPERTS | STACKED,
        is_wrapped=True,
    ),
}

FAMILIES = {
    family.name: family
    for family in (QWEN2, QWEN2_MOE, QWEN2_VL, QWEN3, QWEN3_MOE, QWEN3_VL, QWEN3_VL_MOE)
}
