"""Phi 3, 3.5 and 4: Llama's layers; files keep query, key and value in one matrix, gate and up in
another.

Source: arXiv 2404.14219, 2412.08905.
"""

from __future__ import annotations

from pyrite.models import config as limits
from pyrite.models import hub_config, llama
from pyrite.models.config import Family
from pyrite.models.hub import PRE_NORMS, Folder, hub

PHI3 = Family(name="phi3", layer=llama.layer, may_have_windows=True)


def translate(folder: Folder) -> None:
    """`original_max_position_embeddings` is there without any scaling too."""
    hub_config.decoder(folder, eps=1e-5, is_partial=True)
    hub_config.biases(folder, feed_forward="")
    for key in ("full_attn_mod", "interpolate_factor"):  # of Phi 4 mini, where they change nothing
        folder.keys.integer(key, 1, 1, 1)
    length = folder.stated("context_length")
    original = folder.keys.integer(
        "original_max_position_embeddings", 1, limits.MAX_CONTEXT, length
    )
    folder.put("rope.scaling.original_context_length", original)
    folder.put(
        "attention.sliding_window",
        folder.keys.integer("sliding_window", 0, limits.MAX_CONTEXT, 0),
    )


_FUSED = {
    "self_attn.qkv_proj": "attn_qkv",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}

HUBS = {"phi3": hub("phi3", translate, PRE_NORMS | _FUSED)}

FAMILIES = {family.name: family for family in (PHI3,)}
