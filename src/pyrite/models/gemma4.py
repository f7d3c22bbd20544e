"""Gemma 4 (text): Gemma 3's layers, and more.

Layers without a window have wider heads; the last layers may read the keys and values of earlier
ones; a layer may take in an embedding of the token that is its own; experts may stand beside the
feed-forward. What a layer gives is scaled. Values are normalised, and where a layer has no
projection for them, made of its keys. Translating folders is in `hub_gemma4`.

Source: the published configurations and weights.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from pyrite.formats import derived
from pyrite.graph.build import GraphBuilder
from pyrite.graph.ops import Routing
from pyrite.graph.values import Norm, View
from pyrite.models import blocks, hub_gemma4
from pyrite.models.arrange import Tensors
from pyrite.models.config import Family, ModelConfig
from pyrite.models.gguf_gemma4 import without_shared

OWN_INPUTS = "own inputs"  # of all layers, side by side
SCALE = "layer_output_scale.weight"


def embed(graph: GraphBuilder, config: ModelConfig) -> View:
    x = blocks.embed(graph, config)
    assert config.gemma4 is not None
    if width := config.gemma4.input_width:
        graph.kept[OWN_INPUTS] = _own_inputs(graph, config, x, width)
    return x


def _own_inputs(graph: GraphBuilder, config: ModelConfig, x: View, width: int) -> View:
    """Made of the token's embedding, and of a table of their own."""
    whole = width * len(config.layers)
    made = graph.linear(x, "per_layer_model_proj.weight", whole)
    made = graph.scale(made, config.width**-0.5)
    made = graph.norm(made, Norm("per_layer_proj_norm.weight", config.norm_eps), width)
    table = "per_layer_token_embd.weight"
    own = graph.embed(table, config.vocabulary, whole, width**0.5)
    return graph.scale(graph.add(made, own), 0.5**0.5)


def layer(graph: GraphBuilder, config: ModelConfig, x: View, index: int) -> View:
    name = f"blk.{index}."
    normed = blocks.norm(graph, config, x, name + "attn_norm")
    mixed = attention(graph, config, normed, index)
    x = graph.add(x, blocks.norm(graph, config, mixed, name + "post_attention_norm"))
    fed = feed_forward(graph, config, x, index)
    x = graph.add(x, blocks.norm(graph, config, fed, name + "post_ffw_norm"))
    return graph.affine(_with_own_input(graph, config, x, index), name + SCALE)


def attention(graph: GraphBuilder, config: ModelConfig, x: View, index: int) -> View:
    own, more = config.layers[index], config.gemma4
    assert more is not None
    width = more.local_head_width if own.window else config.head_width
    scale, window = config.attention_scale, own.window
    projected = blocks.linear(graph, x, f"blk.{index}.attn_q", own.heads * width)
    query = _turned(graph, config, projected, index, "q", width)
    if (kept := more.reads[index]) == index:
        key, value = _key_and_value(graph, config, x, index, width)
        mixed = graph.attention(query, key, value, head_width=width, scale=scale, window=window)
    else:
        mixed = graph.attend_kept(
            query, kept, key_heads=own.key_heads, head_width=width, scale=scale, window=window
        )
    return blocks.linear(graph, mixed, f"blk.{index}.attn_output", config.width)


def _key_and_value(
    graph: GraphBuilder, config: ModelConfig, x: View, index: int, width: int
) -> tuple[View, View]:
    assert config.gemma4 is not None
    name, whole = f"blk.{index}.attn_", config.layers[index].key_heads * width
    key = blocks.linear(graph, x, name + "k", whole)
    has_own = config.gemma4.has_values[index]
    value = blocks.linear(graph, x, name + "v", whole) if has_own else key
    value = graph.norm(value, Norm(None, config.norm_eps), width)
    return _turned(graph, config, key, index, "k", width), value


def _turned(
    graph: GraphBuilder, config: ModelConfig, x: View, index: int, part: str, width: int
) -> View:
    """Heads, normalised and turned."""
    rope = config.layers[index].rope
    assert rope is not None
    norm = Norm(f"blk.{index}.attn_{part}_norm.weight", config.norm_eps)
    return graph.rotate(graph.norm(x, norm, width), width, rope)


def feed_forward(graph: GraphBuilder, config: ModelConfig, x: View, index: int) -> View:
    """And experts beside it, where the layer has some."""
    name, own = f"blk.{index}.", config.layers[index]
    normed = blocks.norm(graph, config, x, name + "ffn_norm")
    fed = blocks.gated(graph, config, normed, name + "ffn_", own.feed_forward)
    if not own.has_experts:
        return fed
    fed = blocks.norm(graph, config, fed, name + "post_ffw_norm_1")
    mixed = blocks.norm(graph, config, _mixture(graph, config, x, index), name + "post_ffw_norm_2")
    return graph.add(fed, mixed)


def _mixture(graph: GraphBuilder, config: ModelConfig, x: View, index: int) -> View:
    """The router looks at the stream itself, normalised and scaled by columns."""
    assert config.experts is not None
    name = f"blk.{index}."
    seen = graph.affine(graph.norm(x, Norm(None, config.norm_eps)), name + "ffn_gate_inp.scale")
    seen = graph.scale(seen, config.width**-0.5)
    normed = blocks.norm(graph, config, x, name + "pre_ffw_norm_2")
    gate, up, down = (f"{name}ffn_{part}_exps.weight" for part in ("gate", "up", "down"))
    return graph.experts(
        normed,
        blocks.linear(graph, seen, name + "ffn_gate_inp", config.experts.count),
        replace(config.experts.routing, expert_scale=name + "ffn_down_exps.scale"),
        (gate, up, down),
        feed_forward=config.experts.feed_forward,
        activation=config.activation,
    )


def _with_own_input(graph: GraphBuilder, config: ModelConfig, x: View, index: int) -> View:
    assert config.gemma4 is not None
    width = config.gemma4.input_width
    if not width:
        return x
    name, every = f"blk.{index}.", graph.kept[OWN_INPUTS]
    own = View(every.value, every.start + index * width, width)
    opened = blocks.linear(graph, x, name + "inp_gate", width)
    taken = blocks.linear(
        graph, graph.gate(opened, own, config.activation), name + "proj", config.width
    )
    return graph.add(x, blocks.norm(graph, config, taken, name + "post_norm"))


def arrange(tensors: Tensors) -> None:
    """The scale of what a layer gives is one number, for all columns."""
    for name in tensors.layers():
        norm, scale = tensors.get(name + "attn_norm.weight"), tensors.get(name + SCALE)
        if norm is not None and scale is not None and scale.shape == (1,):
            tensors.change(name + SCALE, partial(derived.spread, count=norm.shape[0]))


GEMMA4 = Family(
    name="gemma4",
    layer=layer,
    activation="gelu_tanh",
    scales_embeddings=True,
    theta=1e6,
    local_theta=10000.0,
    scales_local=False,
    window_pattern=6,
    attention_scale=1.0,
    routing=Routing(1),
    embed=embed,
    arrange=arrange,
    trim=without_shared,
    has_own_inputs=True,
)

HUBS = hub_gemma4.HUBS

FAMILIES = {GEMMA4.name: GEMMA4}
