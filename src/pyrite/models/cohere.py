"""Cohere's Command R: attention and feed-forward side by side, behind one norm.

Norms subtract the mean and have no bias. Command R+ also normalises queries and keys, each head by
weights of its own.

Source: the published configurations and weights.
"""

from __future__ import annotations

from pyrite.formats import derived
from pyrite.graph.build import GraphBuilder
from pyrite.graph.values import View
from pyrite.models import blocks, hub_config
from pyrite.models import config as limits
from pyrite.models.arrange import Tensors
from pyrite.models.config import Family, ModelConfig
from pyrite.models.hub import ATTENTION, FEED_FORWARD, HEAD_NORMS, Folder, hub


def layer(graph: GraphBuilder, config: ModelConfig, x: View, index: int) -> View:
    normed = blocks.norm(graph, config, x, f"blk.{index}.attn_norm")
    mixed = blocks.attention(graph, config, normed, index)
    fed = blocks.feed_forward(graph, config, normed, index)
    return graph.add(graph.add(x, mixed), fed)


def flatten_head_norms(tensors: Tensors) -> None:
    """Files have a row for each head."""
    for name in tensors.layers():
        for part in ("attn_q_norm.weight", "attn_k_norm.weight"):
            tensors.change(name + part, derived.flattened)


COMMAND_R = Family(
    name="command-r",
    layer=layer,
    norm="layer",
    rope_layout="pairs",
    head_norms="own",
    arrange=flatten_head_norms,
)


def translate(folder: Folder) -> None:
    """`model_max_length`, where it is there, is what the model was trained for."""
    keys = folder.keys
    hub_config.decoder(folder, "layer", eps=1e-5)
    hub_config.biases(folder, feed_forward="")
    length = folder.stated("context_length")
    folder.put("context_length", keys.integer("model_max_length", 1, limits.MAX_CONTEXT, length))
    folder.put("logit_scale", keys.number("logit_scale", 1e-6, 1e6, 0.0625))
    keys.boolean("use_qk_norm", False)  # the tensors show it


HUBS = {
    "cohere": hub(
        "command-r",
        translate,
        ATTENTION | FEED_FORWARD | HEAD_NORMS | {"input_layernorm": "attn_norm"},
        aliases={"rms_norm_eps": "layer_norm_eps"},
        defaults={"tie_word_embeddings": True},
    )
}

FAMILIES = {family.name: family for family in (COMMAND_R,)}
