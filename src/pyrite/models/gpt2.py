"""GPT-2: learned positions, biases everywhere, and a feed-forward without a gate.

A folder has its matrices transposed, and query, key and value in one.

Source: the report "Language Models are Unsupervised Multitask Learners" and its published weights.
"""

from __future__ import annotations

from pyrite.errors import UnsupportedError
from pyrite.formats import derived
from pyrite.graph.build import GraphBuilder
from pyrite.graph.values import View
from pyrite.models import blocks, hub_config
from pyrite.models.config import Family, ModelConfig
from pyrite.models.hub import Folder, hub


def embed(graph: GraphBuilder, config: ModelConfig) -> View:
    places = graph.embed_positions("position_embd.weight", config.context_length, config.width)
    return graph.add(blocks.embed(graph, config), places)


def layer(graph: GraphBuilder, config: ModelConfig, x: View, index: int) -> View:
    name = f"blk.{index}."
    normed = blocks.norm(graph, config, x, name + "attn_norm")
    x = graph.add(x, blocks.attention(graph, config, normed, index))
    normed = blocks.norm(graph, config, x, name + "ffn_norm")
    up = blocks.linear(graph, normed, name + "ffn_up", config.layers[index].feed_forward, bias=True)
    fed = graph.activate(up, config.activation)
    return graph.add(x, blocks.linear(graph, fed, name + "ffn_down", config.width, bias=True))


GPT2 = Family(
    name="gpt2",
    layer=layer,
    embed=embed,
    activation="gelu_tanh",
    norm="layer",
    norm_bias=True,
    turns=False,
)


def translate(folder: Folder) -> None:
    keys = folder.keys
    hub_config.sizes(folder, widening=4)
    hub_config.heads(folder)
    hub_config.norms(folder, "layer", eps=1e-5)
    hub_config.require_activation(folder, "gelu_tanh")
    hub_config.head(folder, tied=True)
    keys.get("n_ctx")  # an older name of n_positions
    keys.get("reorder_and_upcast_attn")  # how precisely it is computed
    if not keys.boolean("scale_attn_weights", True):
        raise UnsupportedError("scale_attn_weights = false: not executed here")
    for name in ("attn_qkv", "attn_output", "ffn_up", "ffn_down"):
        folder.change(name + ".weight", derived.transposed)


_TOP = {
    "wte": "token_embd",
    "wpe": "position_embd",
    "ln_f": "output_norm",
}
_LAYER = {
    "ln_1": "attn_norm",
    "attn.c_attn": "attn_qkv",
    "attn.c_proj": "attn_output",
    "ln_2": "ffn_norm",
    "mlp.c_fc": "ffn_up",
    "mlp.c_proj": "ffn_down",
}
_ALIASES = {
    "hidden_size": "n_embd",
    "hidden_act": "activation_function",
    "intermediate_size": "n_inner",
    "max_position_embeddings": "n_positions",
    "num_attention_heads": "n_head",
    "num_hidden_layers": "n_layer",
    "rms_norm_eps": "layer_norm_epsilon",
}

HUBS = {
    "gpt2": hub(
        "gpt2",
        translate,
        _LAYER,
        _TOP
        | {f"transformer.{name}": meant for name, meant in _TOP.items()}
        | {"lm_head": "output"},
        _ALIASES,
    )
}

FAMILIES = {family.name: family for family in (GPT2,)}
