"""OLMo 2 and 3, whose norms follow attention and feed-forward, and OLMoE, which has experts.

All normalise the whole row of queries, and of keys. OLMo 3 has windows, where the scaling of rotary
positions does not hold; its files call it OLMo 2.

Source: arXiv 2501.00656, 2409.02060 and the published configurations.
"""

from __future__ import annotations

from pyrite.graph.build import GraphBuilder
from pyrite.graph.ops import Routing
from pyrite.graph.values import View
from pyrite.models import blocks, hub_config, llama
from pyrite.models.config import Family, ModelConfig
from pyrite.models.hub import ATTENTION, EXPERTS, FEED_FORWARD, HEAD_NORMS, PRE_NORMS, Folder, hub


def layer(graph: GraphBuilder, config: ModelConfig, x: View, index: int) -> View:
    """No norms but those of what attention and feed-forward give."""
    name = f"blk.{index}."
    mixed = blocks.attention(graph, config, x, index)
    x = graph.add(x, blocks.norm(graph, config, mixed, name + "post_attention_norm"))
    fed = blocks.feed_forward(graph, config, x, index)
    return graph.add(x, blocks.norm(graph, config, fed, name + "post_ffw_norm"))


OLMO2 = Family(
    name="olmo2", layer=layer, head_norms="row", may_have_windows=True, scales_local=False
)
OLMOE = Family(
    name="olmoe",
    layer=llama.layer,
    head_norms="row",
    routing=Routing(1, is_normalized=False),
)


def translate(folder: Folder) -> None:
    hub_config.decoder(folder, eps=1e-5)
    hub_config.biases(folder, feed_forward="")


def translate_olmo3(folder: Folder) -> None:
    translate(folder)
    hub_config.windows(folder, period=4)


def translate_olmoe(folder: Folder) -> None:
    """GGUF has no key for weights that are normalised, but ours is read."""
    translate(folder)
    hub_config.experts(folder, width=None)


_POST_NORMS = {
    "post_attention_layernorm": "post_attention_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}

POST_NORM = ATTENTION | FEED_FORWARD | HEAD_NORMS | _POST_NORMS

HUBS = {
    "olmo2": hub("olmo2", translate, POST_NORM),
    "olmo3": hub("olmo2", translate_olmo3, POST_NORM, defaults={"rope_theta": 500000.0}),
    "olmoe": hub("olmoe", translate_olmoe, ATTENTION | HEAD_NORMS | PRE_NORMS | EXPERTS),
}

FAMILIES = {family.name: family for family in (OLMO2, OLMOE)}
