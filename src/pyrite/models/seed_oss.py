"""Seed-OSS: Llama's layers, with biases on query, key and value.

Source: the published configuration.
"""

from __future__ import annotations

from functools import partial

from pyrite.models import hub_config, llama
from pyrite.models.config import Family
from pyrite.models.hub import ATTENTION, FEED_FORWARD, Folder, hub

SEED_OSS = Family(name="seed_oss", layer=partial(llama.layer, second_norm="post_attention_norm"))


def translate(folder: Folder) -> None:
    hub_config.decoder(folder)
    hub_config.biases(folder, default=True)
    hub_config.told(folder, "attention_out_bias", "attn_output.bias")
    hub_config.ignore(folder, "residual_dropout")


_LAYER = {
    **ATTENTION,
    **FEED_FORWARD,
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "post_attention_norm",
}

HUBS = {"seed_oss": hub("seed_oss", translate, _LAYER, defaults={"head_dim": 128})}

FAMILIES = {SEED_OSS.name: SEED_OSS}
