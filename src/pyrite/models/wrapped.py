"""The text model of a folder that holds more: its keys, often in `text_config`, its tensors alone.

What sees and what carries images over is left out; a prompt here is text. Knows no architecture.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyrite.errors import FormatError
from pyrite.formats.checkpoint import POOLING, Checkpoint
from pyrite.models.fields import Fields

SEEING = re.compile(
    r"(model\.)?(vision_tower|vision_model|visual|multi_modal_projector"
    r"|audio_tower|embed_vision|embed_audio)\..+"
)

# Of the outer object: what concerns the text model too.
TIED = "tie_word_embeddings"
SHARED = ("generation_config", "quantization_config", TIED, POOLING)
# And what concerns images and sounds alone.
OUTER_KEYS = frozenset(
    (
        "audio_config",
        "audio_soft_tokens_per_image",
        "audio_token_id",
        "boa_token_id",
        "boi_token_id",
        "boi_token_index",
        "eoa_token_id",
        "eoa_token_index",
        "eoi_token_id",
        "eoi_token_index",
        "image_seq_length",
        "image_token_id",
        "image_token_index",
        "mm_tokens_per_image",
        "multimodal_projector_bias",
        "projector_hidden_act",
        "spatial_merge_size",
        "video_token_id",
        "vision_config",
        "vision_end_token_id",
        "vision_feature_layer",
        "vision_soft_tokens_per_image",
        "vision_start_token_id",
        "vision_token_id",
    )
)


def text_model(checkpoint: Checkpoint, harmless: frozenset[str]) -> Checkpoint:
    """Raises FormatError, UnsupportedError for an outer key that is not known."""
    tensors = {
        name: tensor for name, tensor in checkpoint.tensors.items() if not SEEING.fullmatch(name)
    }
    keys = _text_keys(checkpoint.metadata, harmless)
    inner = checkpoint.metadata.get("text_config") or {}
    if inner.get(TIED) not in (None, keys.get(TIED)):  # both are stated, and one is a default
        keys[TIED] = not any(name.endswith("lm_head.weight") for name in tensors)
    return replace(checkpoint, metadata=keys, tensors=tensors)


def _text_keys(config: Mapping[str, Any], harmless: frozenset[str]) -> dict[str, Any]:
    """Some files have them beside those of images."""
    outer = Fields(config)
    inner = outer.group("text_config")
    if inner is None and "hidden_size" in config:
        return {key: value for key, value in config.items() if key not in OUTER_KEYS}
    if inner is None:
        raise FormatError("text_config is missing: config.json describes no text model")
    shared = {key: outer.get(key) for key in SHARED if outer.get(key) is not None}
    outer.refuse_unread("config.json", harmless | OUTER_KEYS)
    return {**inner.values, **shared}
