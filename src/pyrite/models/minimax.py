"""MiniMax M2: Llama's layers with experts in each, chosen by sigmoids and a bias.

The whole row of queries is normalised, and of keys; half of a head turns.

Source: the published configuration.
"""

from __future__ import annotations

from pyrite.errors import FormatError
from pyrite.graph.ops import Routing
from pyrite.models import hub_config, llama
from pyrite.models.config import Family
from pyrite.models.hub import ATTENTION, HEAD_NORMS, PRE_NORMS, Folder, hub

MINIMAX_M2 = Family(
    name="minimax-m2",
    layer=llama.layer,
    head_norms="row",
    routing=Routing(1, shares="sigmoid", bias="exp_probs_b.bias"),
)

FIXED = {
    "layernorm_full_attention_beta": 1.0,
    "layernorm_mlp_beta": 1.0,
    "qk_norm_type": "per_layer",
    "scoring_func": "sigmoid",
    "shared_intermediate_size": 0,
}
# Guessing layers, and what other models of the same code have.
_IGNORED = (
    "layernorm_linear_attention_beta",
    "mtp_transformer_layers",
    "num_mtp_modules",
    "shared_moe_mode",
    "use_mtp",
)


def translate(folder: Folder) -> None:
    hub_config.decoder(folder, is_partial=True)
    _turned(folder)
    hub_config.experts(folder, count="num_local_experts", width=None, normalized=None)
    folder.put("expert_gating_func", 2)
    hub_config.told(folder, "use_qk_norm", "attn_q_norm.weight", default=True)
    hub_config.told(folder, "use_routing_bias", "exp_probs_b.bias", default=True)
    hub_config.require_values(folder, FIXED | {"attn_type_list": [1] * folder.num_layers})
    hub_config.no_windows(folder)
    hub_config.ignore(folder, *_IGNORED)


def _turned(folder: Folder) -> None:
    """Columns of a head that turn, where they are counted and are no share."""
    keys, shared = folder.keys, folder.stated("rope.dimension_count")
    width = folder.stated("attention.key_length")
    counted = keys.integer("rotary_dim", 2, width, shared)
    if counted % 2 or shared not in (width, counted):
        raise FormatError(f"rotary_dim = {counted}, and {shared} of {width} columns turn")
    folder.put("rope.dimension_count", counted)


_LAYER = {
    **ATTENTION,
    **HEAD_NORMS,
    **PRE_NORMS,
    **llama.MIXTRAL_EXPERTS,
    "block_sparse_moe.e_score_correction_bias": "exp_probs_b.bias",
}

HUBS = {"minimax_m2": hub("minimax-m2", translate, _LAYER, defaults={"rope_theta": 5e6})}

FAMILIES = {MINIMAX_M2.name: MINIMAX_M2}
