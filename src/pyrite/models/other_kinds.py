"""Files that are opened as models and are something else: what they are, and what they are for.

Source of the names: the GGUF specification, config.json's model_type, and what converters of image
models write.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyrite.errors import FormatError, UnsupportedError
from pyrite.formats.checkpoint import Checkpoint

IMAGE_ENCODER = "an encoder of images (mmproj), which lies beside a language model"
ENCODER = "an encoder, which continues no text"
TRANSLATOR = "an encoder with a decoder, which is not executed here"
SPEECH = "a model of speech"
PAINTER = "a model that makes images or films"

KINDS: Mapping[str, str] = {
    **dict.fromkeys(("clip", "clip_vision_model", "siglip", "siglip_vision_model"), IMAGE_ENCODER),
    **dict.fromkeys(("vit", "dinov2", "mllama_vision_model"), IMAGE_ENCODER),
    **dict.fromkeys(("bert", "roberta", "xlm-roberta", "distilbert", "albert", "mpnet"), ENCODER),
    **dict.fromkeys(("electra", "deberta", "deberta-v2", "nomic_bert", "nomic-bert"), ENCODER),
    **dict.fromkeys(("nomic-bert-moe", "jina-bert-v2", "jina-bert-v3", "modernbert"), ENCODER),
    **dict.fromkeys(("modern-bert", "neo-bert", "eurobert", "t5encoder"), ENCODER),
    **dict.fromkeys(("t5", "mt5", "bart", "mbart", "pegasus", "marian", "m2m_100"), TRANSLATOR),
    **dict.fromkeys(("whisper", "wav2vec2", "hubert", "wavtokenizer-dec"), SPEECH),
    **dict.fromkeys(("flux", "sd1", "sd3", "sdxl", "aura", "hidream", "lumina2"), PAINTER),
    **dict.fromkeys(("qwen_image", "z_image", "wan", "ltxv", "hyvid", "cosmos"), PAINTER),
}
# general.type of GGUF files: what they are, and what takes them.
TYPES = {
    "adapter": ("an adapter, and no model", "load its model, and name it as --lora {path}"),
    "mmproj": (IMAGE_ENCODER, "give the language model's own file"),
}


def refuse_other_kinds(checkpoint: Checkpoint) -> None:
    """Raises FormatError for a GGUF file that is no model, or has no weights."""
    path = checkpoint.path
    kind: Any = checkpoint.metadata.get("general.type")
    if checkpoint.format == "gguf" and kind in TYPES:
        what, hint = TYPES[kind]
        raise FormatError(f"{path.name} is {what}", hint=hint.format(path=path))
    if not checkpoint.tensors:
        problem = f"{path.name} holds no weights: a vocabulary, or keys alone"
        raise FormatError(problem, hint="give the file of the whole model")


def refuse_other_architectures(name: str) -> None:
    """Raises UnsupportedError in words for what is known to be no language model."""
    if name in KINDS:
        raise UnsupportedError(
            f"architecture {name!r} is {KINDS[name]}", hint="give a language model that generates"
        )
