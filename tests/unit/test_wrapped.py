"""Folders that hold more than a text model: the text model alone is taken."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pyrite.errors import FormatError, TensorError, UnsupportedError
from pyrite.formats import derived
from pyrite.formats.checkpoint import open_checkpoint
from pyrite.models.registry import as_model, build_plan, read_config

WRAPPERS = [
    ("gemma3_text", "gemma3", "language_model."),
    ("gemma3_text", "gemma3", "newer"),
    ("gemma4_text", "gemma4", "newer"),
    ("mistral", "mistral3", "language_model."),
    ("qwen3_5_text", "qwen3_5", "newer"),
    ("qwen3_5_moe_text", "qwen3_5_moe", "newer"),
]


def wrapped(golden, case: str, architecture: str, layout: str = "language_model.", **outer):
    """The golden model as the text model of one that sees."""
    inner = open_checkpoint(golden / "tiny" / case)

    def renamed(name: str) -> str:
        if layout != "newer":
            return layout + name
        return name.replace("model.", "model.language_model.", 1)

    tensors = {renamed(n): replace(t, name=renamed(n)) for n, t in inner.tensors.items()}
    seeing = "vision_tower.vision_model.encoder.layers.0.self_attn.q_proj.weight"
    for name in (seeing, "multi_modal_projector.mm_input_projection_weight", "embed_audio.w"):
        where = "model." + name if layout == "newer" else name
        tensors[where] = derived.held(where, np.zeros((2, 2), np.float32))
    text = {key: value for key, value in inner.metadata.items() if key != "generation_config"}
    metadata = {
        "model_type": architecture,
        "text_config": text,
        "vision_config": {"hidden_size": 8},
        "image_token_index": 7,
        "eos_token_id": [1, 5],
        "generation_config": {},
        **outer,
    }
    return replace(inner, architecture=architecture, metadata=metadata, tensors=tensors)


@pytest.mark.parametrize(("case", "architecture", "layout"), WRAPPERS)
def test_the_text_model_is_the_same(golden, case: str, architecture: str, layout: str):
    model = as_model(wrapped(golden, case, architecture, layout))
    alone = as_model(open_checkpoint(golden / "tiny" / case))
    assert replace(read_config(model), architecture="") == replace(
        read_config(alone), architecture=""
    )
    assert model.tensors.keys() == alone.tensors.keys()
    assert model.config["eos_token_id"] == [1, 5]
    assert build_plan(model).ops == build_plan(alone).ops


def test_what_text_config_leaves_out_is_the_usual(golden):
    checkpoint = wrapped(golden, "gemma3_text", "gemma3")
    text = {
        key: value
        for key, value in checkpoint.metadata["text_config"].items()
        if key not in ("head_dim", "num_attention_heads", "num_key_value_heads")
    }
    config = read_config(
        as_model(replace(checkpoint, metadata={**checkpoint.metadata, "text_config": text}))
    )
    assert (config.head_width, config.layers[0].heads, config.layers[0].key_heads) == (256, 8, 4)


@pytest.mark.parametrize(
    ("outer", "error", "text"),
    [
        ({"touch_config": {"layers": 2}}, UnsupportedError, "touch_config"),
        ({"text_config": None}, FormatError, "text_config is missing"),
        ({"text_config": [1]}, FormatError, "text_config = [1]"),
    ],
)
def test_other_things_are_refused_by_name(golden, outer, error, text):
    with pytest.raises(error) as caught:
        as_model(wrapped(golden, "gemma3_text", "gemma3", **outer))
    assert text in str(caught.value)


def test_tensors_of_neither_are_named(golden):
    checkpoint = wrapped(golden, "gemma3_text", "gemma3")
    more = derived.held("touch_tower.layers.0.weight", np.zeros((2, 2), np.float32))
    tensors = {**checkpoint.tensors, more.name: more}
    with pytest.raises(TensorError, match=r"touch_tower\.layers\.0\.weight"):
        build_plan(as_model(replace(checkpoint, tensors=tensors)))
