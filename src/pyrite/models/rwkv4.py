"""RWKV-4: a weighted mean of all values before, that decays by columns; no attention.

Each projection reads its own mix of a token and the one before it. GGUF has no architecture for it:
tensors have the names that its RWKV-6 has, and `rwkv4` is ours.

Source: arXiv 2305.13048.
"""

from __future__ import annotations

from pyrite.errors import UnsupportedError
from pyrite.formats import derived
from pyrite.graph.build import GraphBuilder
from pyrite.graph.values import View
from pyrite.models import blocks, hub_config
from pyrite.models import config as limits
from pyrite.models.config import Family, ModelConfig
from pyrite.models.hub import Folder, hub

MIXES = ("time_mix_lerp_k", "time_mix_lerp_v", "time_mix_lerp_r")
CHANNEL_MIXES = ("channel_mix_lerp_k", "channel_mix_lerp_r")


def embed(graph: GraphBuilder, config: ModelConfig) -> View:
    """A norm follows the table."""
    return blocks.norm(graph, config, blocks.embed(graph, config), "token_embd_norm")


def layer(graph: GraphBuilder, config: ModelConfig, x: View, index: int) -> View:
    name = f"blk.{index}."
    normed = blocks.norm(graph, config, x, name + "attn_norm")
    x = graph.add(x, _mix_tokens(graph, config, normed, name))
    normed = blocks.norm(graph, config, x, name + "attn_norm_2")
    return graph.add(x, _mix_columns(graph, config, normed, index))


def _mix_tokens(graph: GraphBuilder, config: ModelConfig, x: View, name: str) -> View:
    before, width = graph.shift_tokens(x), config.width
    key, value, receptance = (graph.lerp(before, x, f"{name}{mix}.weight") for mix in MIXES)
    key = blocks.linear(graph, key, name + "time_mix_key", width)
    value = blocks.linear(graph, value, name + "time_mix_value", width)
    receptance = blocks.linear(graph, receptance, name + "time_mix_receptance", width)
    decay, first = name + "time_mix_decay.weight", name + "time_mix_first.weight"
    mean = graph.wkv4(key, value, decay, first)
    gated = graph.gate(receptance, mean, "sigmoid")
    return blocks.linear(graph, gated, name + "time_mix_output", width)


def _mix_columns(graph: GraphBuilder, config: ModelConfig, x: View, index: int) -> View:
    before, name = graph.shift_tokens(x), f"blk.{index}."
    key, receptance = (graph.lerp(before, x, f"{name}{mix}.weight") for mix in CHANNEL_MIXES)
    key = blocks.linear(graph, key, name + "channel_mix_key", config.layers[index].feed_forward)
    key = graph.activate(key, "relu_squared")
    value = blocks.linear(graph, key, name + "channel_mix_value", config.width)
    receptance = blocks.linear(graph, receptance, name + "channel_mix_receptance", config.width)
    return graph.gate(receptance, value, "sigmoid")


RWKV4 = Family(
    name="rwkv4",
    layer=layer,
    norm="layer",
    norm_bias=True,
    has_attention=False,
    turns=False,
    embed=embed,
)


def translate(folder: Folder) -> None:
    """`rescale_every` halves the residual stream for float16's sake, and the weights after it; the
    norms undo that."""
    hub_config.sizes(folder, widening=4)
    folder.put("attention.head_count", 0)
    hub_config.norms(folder, "layer", 1e-5)
    hub_config.head(folder)
    width = folder.stated("embedding_length")
    inner = folder.keys.integer("attention_hidden_size", 1, limits.MAX_WIDTH, width)
    if inner != width:
        raise UnsupportedError(f"attention_hidden_size = {inner}: executed is hidden_size, {width}")
    hub_config.ignore(folder, "rescale_every")
    for mix in (*MIXES, *CHANNEL_MIXES):
        folder.change(mix + ".weight", derived.flattened)
    for kind in ("weight", "bias"):
        folder.tensors.rename(f"blk.0.token_embd_norm.{kind}", f"token_embd_norm.{kind}")


_TOP = {"rwkv.embeddings": "token_embd", "rwkv.ln_out": "output_norm", "head": "output"}
_LAYER = {
    "pre_ln": "token_embd_norm",
    "ln1": "attn_norm",
    "ln2": "attn_norm_2",
    "attention.time_decay": "time_mix_decay.weight",
    "attention.time_first": "time_mix_first.weight",
    "attention.time_mix_key": "time_mix_lerp_k.weight",
    "attention.time_mix_value": "time_mix_lerp_v.weight",
    "attention.time_mix_receptance": "time_mix_lerp_r.weight",
    "attention.key": "time_mix_key",
    "attention.value": "time_mix_value",
    "attention.receptance": "time_mix_receptance",
    "attention.output": "time_mix_output",
    "feed_forward.time_mix_key": "channel_mix_lerp_k.weight",
    "feed_forward.time_mix_receptance": "channel_mix_lerp_r.weight",
    "feed_forward.key": "channel_mix_key",
    "feed_forward.value": "channel_mix_value",
    "feed_forward.receptance": "channel_mix_receptance",
}
_ALIASES = {"rms_norm_eps": "layer_norm_epsilon", "max_position_embeddings": "context_length"}

HUBS = {"rwkv": hub("rwkv4", translate, _LAYER, _TOP, _ALIASES)}

FAMILIES = {RWKV4.name: RWKV4}
