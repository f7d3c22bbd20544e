"""ERNIE 4.5, with experts or without: Llama's layers. A bias has a say in which experts are chosen.

Source: the published technical report and configurations.
"""

from __future__ import annotations

from dataclasses import replace

from pyrite.formats import derived
from pyrite.graph.ops import Routing
from pyrite.models import config as limits
from pyrite.models import deepseek, hub_config, llama
from pyrite.models.config import Family
from pyrite.models.hub import EXPERTS, PRE_NORM, Folder, hub

ERNIE = Family(name="ernie4_5", layer=llama.layer, rope_layout="pairs")
ERNIE_MOE = replace(ERNIE, name="ernie4_5-moe", routing=Routing(1, bias="exp_probs_b.bias"))

PREDICTING = "model.mtp_"  # layers that guess tokens ahead, which are not executed


def translate(folder: Folder) -> None:
    hub_config.decoder(folder, eps=1e-5)
    hub_config.told(folder, "use_bias", "attn_q.bias")
    hub_config.require_values(folder, {"compression_ratio": 1.0})
    hub_config.ignore(folder, "attention_probs_dropout_prob", "hidden_dropout_prob")


def translate_moe(folder: Folder) -> None:
    translate(folder)
    keys = folder.keys
    hub_config.experts(folder, count="moe_num_experts", normalized=None)
    shared = keys.integer("moe_num_shared_experts", 0, limits.MAX_EXPERTS, 0)
    folder.put("expert_shared_count", shared)
    width = shared * folder.stated("expert_feed_forward_length")
    folder.put("expert_shared_feed_forward_length", width)
    _mixtures(folder)
    folder.change("exp_probs_b.bias", derived.flattened)
    if keys.integer("num_nextn_predict_layers", 0, limits.MAX_LAYERS, 0):
        for name in [name for name in folder.tensors.all if name.startswith(PREDICTING)]:
            folder.tensors.take(name)
    hub_config.ignore(folder, "moe_norm_min", "moe_capacity", "moe_use_aux_free", "moe_gate")


def _mixtures(folder: Folder) -> None:
    """The first layer with experts, and every so many-th after it has some, too. Where they end
    before the last layer, GGUF has no word for it, and the tensors alone tell."""
    keys, last = folder.keys, folder.num_layers - 1
    first = keys.integer("moe_layer_start_index", 0, last, 1)
    end = keys.integer("moe_layer_end_index", -1, last, -1)
    step = keys.integer("moe_layer_interval", 1, limits.MAX_LAYERS, 1)
    layers = range(first, (last if end == -1 else end) + 1)
    hub_config.told_mixtures(folder, [index for index in layers if (index + 1) % step == 0])
    if end in (-1, last):
        folder.put("leading_dense_block_count", first)
        folder.put("interleave_moe_layer_step", step)


_MOE = {
    **PRE_NORM,
    **EXPERTS,
    **deepseek.SHARED,
    "mlp.moe_statics.e_score_correction_bias": "exp_probs_b.bias",
}
_DEFAULTS = {"rope_theta": 500000.0, "tie_word_embeddings": True}

HUBS = {
    "ernie4_5": hub("ernie4_5", translate, defaults=_DEFAULTS | {"head_dim": 128}),
    "ernie4_5_moe": hub(
        "ernie4_5-moe",
        translate_moe,
        _MOE,
        aliases={"num_experts_per_tok": "moe_k"},
        defaults=_DEFAULTS,
    ),
}

FAMILIES = {family.name: family for family in (ERNIE, ERNIE_MOE)}
