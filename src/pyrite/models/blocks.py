"""Blocks that architectures share: attention, the gated feed-forward network, embedding and head.

Each one appends operations to a graph and returns the view of what it computed. Weight names are
GGUF's, whatever the file calls them.
"""

from __future__ import annotations

from pyrite.graph.build import GraphBuilder
from pyrite.graph.values import Norm, View
from pyrite.models.config import ModelConfig


def embed(graph: GraphBuilder, config: ModelConfig) -> View:
    return graph.embed("token_embd.weight", config.vocabulary, config.width, config.embedding_scale)


def norm(graph: GraphBuilder, config: ModelConfig, x: View, name: str) -> View:
    return graph.norm(x, _norm(config, name))


def head_norm(graph: GraphBuilder, config: ModelConfig, x: View, name: str) -> View:
    """Each head is normalised by itself, all with one weight."""
    return graph.norm(x, _norm(config, name), group=config.head_width)


def attention(graph: GraphBuilder, config: ModelConfig, x: View, layer: int) -> View:
    """Projections, rotary positions, attention and output projection of one layer."""
    name = f"blk.{layer}.attn_"
    layer_config, bias = config.layers[layer], config.query_bias
    query = _linear(graph, x, name + "q", config.heads * config.head_width, bias)
    key = _linear(graph, x, name + "k", config.key_heads * config.head_width, bias)
    value = _linear(graph, x, name + "v", config.key_heads * config.head_width, bias)
    if config.head_norms:
        query = head_norm(graph, config, query, name + "q_norm")
        key = head_norm(graph, config, key, name + "k_norm")
    mixed = graph.attention(
        graph.rotate(query, config.head_width, layer_config.rope),
        graph.rotate(key, config.head_width, layer_config.rope),
        value,
        layer=layer,
        head_width=config.head_width,
        scale=config.attention_scale,
        window=layer_config.window,
        softcap=config.attention_softcap,
    )
    return _linear(graph, mixed, name + "output", config.width, config.output_bias)


def feed_forward(graph: GraphBuilder, config: ModelConfig, x: View, layer: int) -> View:
    """down(activation(gate(x)) * up(x))."""
    name, bias = f"blk.{layer}.ffn_", config.feed_forward_bias
    gate = _linear(graph, x, name + "gate", config.feed_forward, bias)
    up = _linear(graph, x, name + "up", config.feed_forward, bias)
    gated = graph.gate(gate, up, config.activation)
    return _linear(graph, gated, name + "down", config.width, bias)


def last_norm(graph: GraphBuilder, config: ModelConfig, x: View) -> View:
    """Hidden states of the wanted rows."""
    return norm(graph, config, graph.select_rows(x), "output_norm")


def head(graph: GraphBuilder, config: ModelConfig, x: View) -> View:
    """Logits of hidden states: projection to the vocabulary, softcap."""
    if config.tied:
        logits = graph.tied_linear(x, "token_embd.weight", config.vocabulary)
    else:
        logits = graph.linear(x, "output.weight", config.vocabulary)
    return graph.softcap(logits, config.final_softcap) if config.final_softcap else logits


def _norm(config: ModelConfig, name: str) -> Norm:
    return Norm(name + ".weight", config.norm_eps, config.norm_offset)


def _linear(graph: GraphBuilder, x: View, name: str, width: int, bias: bool) -> View:
    return graph.linear(x, name + ".weight", width, name + ".bias" if bias else None)
