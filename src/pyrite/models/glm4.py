"""GLM-4 (0414) and GLM-Z1: norms before and after attention and feed-forward, as Gemma 2 has them.

Neighbouring columns turn together, in half of a head. Files keep gate and up in one matrix.

Source: the published configurations.
"""

from __future__ import annotations

from pyrite.models import gemma, hub_config
from pyrite.models.config import Family
from pyrite.models.hub import ATTENTION, Folder, hub

GLM4 = Family(name="glm4", layer=gemma.layer, rope_layout="pairs")


def translate(folder: Folder) -> None:
    hub_config.decoder(folder, is_partial=True)
    hub_config.biases(folder, feed_forward="")


_LAYER = {
    **ATTENTION,
    "mlp.gate_up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_self_attn_layernorm": "post_attention_norm",
    "post_attention_layernorm": "ffn_norm",
    "post_mlp_layernorm": "post_ffw_norm",
}

HUBS = {"glm4": hub("glm4", translate, _LAYER, defaults={"partial_rotary_factor": 0.5})}

FAMILIES = {GLM4.name: GLM4}
