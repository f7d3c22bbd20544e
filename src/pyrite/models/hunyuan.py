"""Hunyuan (dense): Llama's layers, whose queries and keys are normalised after they turned.

Source: the published configurations.
"""

from __future__ import annotations

from pyrite.graph.build import GraphBuilder
from pyrite.graph.values import View
from pyrite.models import blocks, hub_config
from pyrite.models.config import Family, ModelConfig
from pyrite.models.hub import PRE_NORM, Folder, hub


def layer(graph: GraphBuilder, config: ModelConfig, x: View, index: int) -> View:
    normed = blocks.norm(graph, config, x, f"blk.{index}.attn_norm")
    x = graph.add(x, blocks.attention(graph, config, normed, index, norms_turned=True))
    normed = blocks.norm(graph, config, x, f"blk.{index}.ffn_norm")
    return graph.add(x, blocks.feed_forward(graph, config, normed, index))


HUNYUAN = Family(name="hunyuan-dense", layer=layer, head_norms="head")


FIXED = {
    "add_classification_head": False,
    "norm_type": "rms",
    "num_experts": 1,
    "use_cla": False,
    "use_rotary_pos_emb": True,
}
# Tokens, and what the same code has for classes, images and shared attention.
_IGNORED = (
    "cla_share_factor",
    "class_num",
    "dense_list",
    "enable_lm_head_fp32",
    "eod_token_id",
    "im_end_id",
    "im_newline_id",
    "im_start_id",
    "image_token_id",
    "mask_init_id",
    "num_media_embeds",
    "org_vocab_size",
    "pad_id",
    "pool_type",
    "skip_cls_token",
    "text_end_id",
    "text_start_id",
)


def translate(folder: Folder) -> None:
    hub_config.decoder(folder, eps=1e-5, may_stretch=True)
    hub_config.biases(folder)
    hub_config.told(folder, "use_qk_norm", "attn_q_norm.weight", default=True)
    width = folder.stated("attention.key_length")
    hub_config.require_values(folder, FIXED | {"attention_head_dim": width})
    hub_config.ignore(folder, *_IGNORED)


_LAYER = {
    **PRE_NORM,
    "self_attn.query_layernorm": "attn_q_norm",
    "self_attn.key_layernorm": "attn_k_norm",
}

HUBS = {"hunyuan_v1_dense": hub("hunyuan-dense", translate, _LAYER)}

FAMILIES = {HUNYUAN.name: HUNYUAN}
