"""GLM 4.5 and 4.6: experts by DeepSeek V3's choice, after the first layers; attention is Llama's.

Queries and keys are normalised by head in the large ones alone, and turn in half of a head.

Source: arXiv 2508.06471 and the published configurations.
"""

from __future__ import annotations

from functools import partial

from pyrite.graph.ops import Routing
from pyrite.models import deepseek, hub_config, llama
from pyrite.models.config import Family
from pyrite.models.hub import ATTENTION, EXPERTS, FEED_FORWARD, HEAD_NORMS, Folder, hub

GLM4_MOE = Family(
    name="glm4moe",
    layer=partial(llama.layer, second_norm="post_attention_norm"),
    head_norms="head",
    may_lack_head_norms=True,
    routing=Routing(1, shares="sigmoid", bias="exp_probs_b.bias", eps=1e-20),
)


def translate(folder: Folder) -> None:
    hub_config.decoder(folder, eps=1e-5, is_partial=True)
    hub_config.biases(folder, feed_forward="")
    hub_config.told(folder, "use_qk_norm", "attn_q_norm.weight")
    deepseek.drop_guessing_layers(folder)
    deepseek.experts(folder)
    deepseek.groups(folder, "noaux_tc", "sigmoid")


_LAYER = {
    **ATTENTION,
    **HEAD_NORMS,
    **FEED_FORWARD,
    **EXPERTS,
    **deepseek.SHARED,
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "post_attention_norm",
}
_DEFAULTS = {"first_k_dense_replace": 1, "n_shared_experts": 1, "norm_topk_prob": True}

HUBS = {"glm4_moe": hub("glm4moe", translate, _LAYER, defaults=_DEFAULTS)}

FAMILIES = {GLM4_MOE.name: GLM4_MOE}
