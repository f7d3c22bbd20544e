"""Gemma 1, 2 and 3 (text).

The embedding is scaled by sqrt(width), norms multiply by 1 + weight, and the head is the embedding
table. From Gemma 2 on a norm also follows attention and feed-forward, and most layers see only a
window; Gemma 3 normalises queries and keys, and turns them by a theta of their own in those layers.

Source: arXiv 2403.08295, 2408.00118, 2503.19786.
"""

from __future__ import annotations

from dataclasses import replace

from pyrite.graph.build import GraphBuilder
from pyrite.graph.values import View
from pyrite.models import blocks, llama
from pyrite.models.config import Family, ModelConfig


def layer(graph: GraphBuilder, config: ModelConfig, x: View, index: int) -> View:
    """A norm before and a norm after attention and feed-forward (Gemma 2 and 3)."""
    name = f"blk.{index}."
    normed = blocks.norm(graph, config, x, name + "attn_norm")
    mixed = blocks.attention(graph, config, normed, index)
    x = graph.add(x, blocks.norm(graph, config, mixed, name + "post_attention_norm"))
    normed = blocks.norm(graph, config, x, name + "ffn_norm")
    fed = blocks.feed_forward(graph, config, normed, index)
    return graph.add(x, blocks.norm(graph, config, fed, name + "post_ffw_norm"))


GEMMA = Family(
    name="gemma",
    layer=llama.layer,
    activation="gelu_tanh",
    hub_norm_offset=1.0,
    tied=True,
    scales_embeddings=True,
)

GEMMA2 = replace(
    GEMMA,
    name="gemma2",
    layer=layer,
    window=4096,
    window_pattern=2,
    query_scalar=256.0,
    wide_scale_layers=46,  # the 27B model
    attention_softcap=50.0,
    final_softcap=30.0,
)

GEMMA3 = replace(
    GEMMA,
    name="gemma3",
    layer=layer,
    theta=1e6,
    local_theta=10000.0,
    window_pattern=6,
    query_scalar=256.0,
    wide_scale_layers=62,  # the 27B model
    head_norms=True,
)
