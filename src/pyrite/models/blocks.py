"""Blocks that architectures share: attention, feed-forward networks, experts, embedding and head.

Each one appends operations to a graph and returns the view of what it computed. Weight names are
GGUF's.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

from pyrite.errors import FormatError
from pyrite.graph.build import GraphBuilder
from pyrite.graph.ops import Routing
from pyrite.graph.values import Norm, View
from pyrite.models.config import ModelConfig

HEAD, TABLE = "output.weight", "token_embd.weight"


def is_embedding(weight: str) -> bool:
    """A table by tokens, be it one of several (`per_layer_token_embd.weight`)."""
    return weight.endswith(TABLE)


def embed(graph: GraphBuilder, config: ModelConfig) -> View:
    return graph.embed(TABLE, config.vocabulary, config.width, config.embedding_scale)


def norm(graph: GraphBuilder, config: ModelConfig, x: View, name: str) -> View:
    bias = name + ".bias" if config.norm_bias else None
    return graph.norm(x, Norm(name + ".weight", config.norm_eps, config.norm, bias))


def head_norm(graph: GraphBuilder, config: ModelConfig, x: View, name: str) -> View:
    """As `config.head_norms` says. Heads with weights of their own are normalised as rows are."""
    is_own = config.head_norms == "own"
    kind = config.norm if is_own else "rms"
    group = 0 if config.head_norms == "row" else config.head_width
    return graph.norm(x, Norm(name + ".weight", config.norm_eps, kind, is_wide=is_own), group)


def add(graph: GraphBuilder, config: ModelConfig, x: View, part: View) -> View:
    """The residual stream with what a block gave."""
    return graph.add(x, graph.scale(part, config.residual_scale))


def attention(
    graph: GraphBuilder,
    config: ModelConfig,
    x: View,
    layer: int,
    sinks: str | None = None,
    *,
    has_gate: bool = False,
    norms_turned: bool = False,
) -> View:
    """Projections, rotary positions, attention and output projection of one layer. `has_gate`:
    what goes into the last is multiplied by the sigmoid of a projection. `norms_turned`: queries
    and keys are normalised after they turned."""
    name = f"blk.{layer}.attn_"
    own, bias = config.layers[layer], config.query_bias
    if own.key_heads == 0:
        raise FormatError(
            f"layer {layer} has no heads of keys, and {config.architecture} needs some"
        )
    query = linear(graph, x, name + "q", own.heads * config.head_width, bias)
    key = linear(graph, x, name + "k", own.key_heads * config.head_width, bias)
    value = linear(graph, x, name + "v", own.key_heads * config.value_width, bias)
    steps = [_normalised, _turned]
    for step in reversed(steps) if norms_turned else steps:
        query, key = step(graph, config, query, key, layer)
    mixed = mix(graph, config, query, key, value, layer, sinks)
    if has_gate:
        mixed = graph.gate(linear(graph, x, name + "gate", mixed.width), mixed, "sigmoid")
    return linear(graph, mixed, name + "output", config.width, config.output_bias)


def _normalised(
    graph: GraphBuilder, config: ModelConfig, query: View, key: View, layer: int
) -> tuple[View, View]:
    if not config.head_norms:
        return query, key
    name = f"blk.{layer}.attn_"
    query = head_norm(graph, config, query, name + "q_norm")
    return query, head_norm(graph, config, key, name + "k_norm")


def _turned(
    graph: GraphBuilder, config: ModelConfig, query: View, key: View, layer: int
) -> tuple[View, View]:
    rope = config.layers[layer].rope
    if rope is None:
        return query, key
    query = graph.rotate(query, config.head_width, rope)
    return query, graph.rotate(key, config.head_width, replace(rope, growth=0.0, growth_span=1))


def mix(
    graph: GraphBuilder,
    config: ModelConfig,
    query: View,
    key: View,
    value: View | None,
    layer: int,
    sinks: str | None = None,
) -> View:
    """Attention alone, of one layer. Without `value`, values are columns of the keys."""
    return graph.attention(
        query,
        key,
        value,
        head_width=config.head_width,
        scale=config.attention_scale,
        window=config.layers[layer].window,
        softcap=config.attention_softcap,
        sinks=sinks,
        value_width=config.value_width,
    )


def feed_forward(graph: GraphBuilder, config: ModelConfig, x: View, layer: int) -> View:
    """Experts in the layers that have them, else down(activation(gate(x)) * up(x))."""
    if config.layers[layer].has_experts:
        return experts(graph, config, x, layer)
    width = config.layers[layer].feed_forward
    return gated(graph, config, x, f"blk.{layer}.ffn_", width)


def gated(
    graph: GraphBuilder, config: ModelConfig, x: View, name: str, width: int, suffix: str = ""
) -> View:
    bias = config.feed_forward_bias
    gate = linear(graph, x, f"{name}gate{suffix}", width, bias)
    up = linear(graph, x, f"{name}up{suffix}", width, bias)
    product = graph.gate(gate, up, config.activation)
    return linear(graph, product, f"{name}down{suffix}", config.width, bias)


def experts(
    graph: GraphBuilder, config: ModelConfig, x: View, layer: int, bias: bool = False
) -> View:
    """The experts that a router chooses, and those that every token passes. `bias`: the router and
    each chosen expert have some."""
    assert config.experts is not None
    name = f"blk.{layer}.ffn_"
    gate, up, down = (f"{name}{part}_exps." for part in ("gate", "up", "down"))
    scores = linear(graph, x, name + "gate_inp", config.experts.count, bias)
    mixed = graph.experts(
        x,
        scores,
        routing(config, layer),
        (gate + "weight", up + "weight", down + "weight"),
        feed_forward=config.experts.feed_forward,
        activation=config.activation,
        biases=(gate + "bias", up + "bias", down + "bias") if bias else (None, None, None),
    )
    if config.experts.shared == 0:
        return mixed
    return graph.add(mixed, gated(graph, config, x, name, config.experts.shared, "_shexp"))


def routing(config: ModelConfig, layer: int) -> Routing:
    """The layer's own: the bias of its choice is a tensor of the layer."""
    assert config.experts is not None
    own = config.experts.routing
    return replace(own, bias=f"blk.{layer}.{own.bias}") if own.bias else own


def last_norm(graph: GraphBuilder, config: ModelConfig, x: View) -> View:
    """Hidden states of the wanted rows."""
    return norm(graph, config, graph.select_rows(x), "output_norm")


def head(graph: GraphBuilder, config: ModelConfig, x: View) -> View:
    """Logits of hidden states: projection to the vocabulary, scale, softcap."""
    if config.tied:
        logits = graph.tied_linear(x, TABLE, config.vocabulary, HEAD)
    else:
        logits = graph.linear(x, HEAD, config.vocabulary)
    logits = graph.scale(logits, config.logit_scale)
    return graph.softcap(logits, config.final_softcap) if config.final_softcap else logits


def linear(graph: GraphBuilder, x: View, name: str, width: int, bias: bool = False) -> View:
    return graph.linear(x, name + ".weight", width, name + ".bias" if bias else None)


def columns(x: View, *widths: int) -> tuple[View, ...]:
    """Consecutive parts of a view."""
    starts = accumulate((0, *widths))
    return tuple(
        View(x.value, x.start + start, width) for start, width in zip(starts, widths, strict=False)
    )
