"""Llama (1 to 3), and what shares its layers: SmolLM2, Mistral before windows, TinyLlama, Yi.

Source: arXiv 2302.13971 and 2407.21783.
"""

from __future__ import annotations

from pyrite.graph.build import GraphBuilder
from pyrite.graph.values import View
from pyrite.models import blocks
from pyrite.models.config import Family, ModelConfig


def layer(graph: GraphBuilder, config: ModelConfig, x: View, index: int) -> View:
    """Norms before attention and feed-forward; each adds to the residual stream."""
    normed = blocks.norm(graph, config, x, f"blk.{index}.attn_norm")
    x = graph.add(x, blocks.attention(graph, config, normed, index))
    normed = blocks.norm(graph, config, x, f"blk.{index}.ffn_norm")
    return graph.add(x, blocks.feed_forward(graph, config, normed, index))


# GGUF's converter permutes q and k rows so that pairs of neighbours turn together.
LLAMA = Family(name="llama", layer=layer, activation="silu", gguf_rope_layout="pairs")
