"""Granite 3, with experts or without: Llama's layers, with multipliers.

The embedding, what a block adds to the residual stream, the scores of attention and the logits are
scaled each by a number of the configuration.

Source: arXiv 2408.13359 (which explains the multipliers) and the published configurations.
"""

from __future__ import annotations

from dataclasses import replace

from pyrite.graph.ops import Routing
from pyrite.models import config as limits
from pyrite.models import hub_config, llama
from pyrite.models.config import Family
from pyrite.models.hub import ATTENTION, PRE_NORM, PRE_NORMS, Folder, hub

GRANITE = Family(
    name="granite",
    layer=llama.layer,
    rope_layout="pairs",
    divides_logits=True,
    scales_residual=True,
)
GRANITE_MOE = replace(GRANITE, name="granitemoe", routing=Routing(1))

# Of config.json, which has 1 where it says nothing, and of GGUF.
MULTIPLIERS = {
    "attention_multiplier": "attention.scale",
    "embedding_multiplier": "embedding_scale",
    "residual_multiplier": "residual_scale",
    "logits_scaling": "logit_scale",
}


def translate(folder: Folder) -> None:
    llama.translate(folder)
    for key, name in MULTIPLIERS.items():
        folder.put(name, folder.keys.number(key, 1e-6, 1e6, 1.0))


def translate_moe(folder: Folder) -> None:
    translate(folder)
    hub_config.experts(folder, count="num_local_experts", width=None, normalized=None)
    folder.tensors.split_fused()


def translate_moe_shared(folder: Folder) -> None:
    """With a feed-forward that every token passes."""
    translate_moe(folder)
    width = folder.keys.integer("shared_intermediate_size", 0, limits.MAX_WIDTH, 0)
    folder.put("expert_shared_feed_forward_length", width)


EXPERTS = {
    "block_sparse_moe.input_linear": "ffn_gate_up_exps",
    "block_sparse_moe.output_linear": "ffn_down_exps",
    "block_sparse_moe.router.layer": "ffn_gate_inp",
    "block_sparse_moe.router": "ffn_gate_inp",  # to newer versions of transformers
}
SHARED = {
    "shared_mlp.input_linear": "ffn_up_shexp",
    "shared_mlp.output_linear": "ffn_down_shexp",
}
_MOE = ATTENTION | PRE_NORMS | EXPERTS

HUBS = {
    "granite": hub("granite", translate, PRE_NORM),
    "granitemoe": hub("granitemoe", translate_moe, _MOE),
    "granitemoeshared": hub("granitemoe", translate_moe_shared, _MOE | SHARED),
}

FAMILIES = {family.name: family for family in (GRANITE, GRANITE_MOE)}
