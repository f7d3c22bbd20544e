"""Cohere's Command R, R+ and R7B: attention and feed-forward side by side, behind one norm.

Norms subtract the mean and have no bias. Command R+ also normalises queries and keys, each head by
weights of its own. R7B has windows in three layers of four, and the others have no positions.

Source: the published configurations and weights.
"""

from __future__ import annotations

from dataclasses import replace

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
    """Files have a row for each head, as wide for queries as for keys. Other shapes are left, and
    refused when they are compared."""
    for layer in tensors.layers():
        names = [layer + part for part in ("attn_q_norm.weight", "attn_k_norm.weight")]
        shapes = [tensors[name].shape for name in names if name in tensors]
        if all(len(shape) == 2 and shape[-1] == shapes[0][-1] for shape in shapes):
            for name in names:
                tensors.change(name, derived.flattened)


COMMAND_R = Family(
    name="command-r",
    layer=layer,
    norm="layer",
    rope_layout="pairs",
    head_norms="own",
    may_lack_head_norms=True,
    arrange=flatten_head_norms,
)

COHERE2 = replace(
    COMMAND_R,
    name="cohere2",
    head_norms="",
    may_lack_head_norms=False,
    arrange=None,
    window_pattern=4,
    still_period=4,
)

# Keys that say what the architecture is, with the only values that are executed.
FIXED = {
    "layer_switch": 4,
    "order_of_interleaved_layers": "local_attn_first",
    "position_embedding_type": "rope_gptj",
    "rotary_pct": 1.0,
    "use_embedding_sharing": True,
    "use_gated_activation": True,
    "use_parallel_block": True,
    "use_parallel_embedding": False,
    "use_qk_norm": False,
}


def translate_cohere2(folder: Folder) -> None:
    hub_config.decoder(folder, "layer", eps=1e-5)
    hub_config.biases(folder, feed_forward="")
    hub_config.windows(folder, COHERE2.window_pattern, default=4096)
    narrow = folder.stated("attention.sliding_window_pattern")
    folder.put("rope.layer_pattern", narrow)
    folder.put("logit_scale", folder.keys.number("logit_scale", 1e-6, 1e6, 0.0625))
    hub_config.require_values(folder, FIXED)


def translate(folder: Folder) -> None:
    """`model_max_length`, where it is there, is what the model was trained for."""
    keys = folder.keys
    hub_config.decoder(folder, "layer", eps=1e-5)
    hub_config.biases(folder, feed_forward="")
    length = folder.stated("context_length")
    folder.put("context_length", keys.integer("model_max_length", 1, limits.MAX_CONTEXT, length))
    folder.put("logit_scale", keys.number("logit_scale", 1e-6, 1e6, 0.0625))
    hub_config.told(folder, "use_qk_norm", "attn_q_norm.weight")


_LAYER = ATTENTION | FEED_FORWARD | {"input_layernorm": "attn_norm"}
_ALIASES = {"rms_norm_eps": "layer_norm_eps"}
_TIED = {"tie_word_embeddings": True}

HUBS = {
    "cohere": hub(
        "command-r",
        translate,
        _LAYER | HEAD_NORMS,
        aliases=_ALIASES,
        defaults=_TIED | {"rope_theta": 500000.0},
    ),
    "cohere2": hub("cohere2", translate_cohere2, _LAYER, aliases=_ALIASES, defaults=_TIED),
}

FAMILIES = {family.name: family for family in (COMMAND_R, COHERE2)}
