"""A folder as the content of a GGUF file: keys, tokenizer and tensors as other engines read them.

Only what the file says is decided here; the types of its tensors are a recipe's, and `conversion`
writes it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from pyrite.formats.checkpoint import Checkpoint
from pyrite.formats.gguf_tokenizer import tokenizer_metadata, untold
from pyrite.models.registry import as_gguf

FLOAT_RECIPES = {"F32": "f32", "F16": "f16", "BF16": "bf16"}


def as_gguf_file(checkpoint: Checkpoint) -> tuple[Checkpoint, tuple[str, ...]]:
    """With every key that a GGUF file of the model has, and sentences on what cannot be told.

    A GGUF file stays as it is. Raises FormatError, TensorError, UnsupportedError.
    """
    if checkpoint.format == "gguf":
        return checkpoint, ()
    model = as_gguf(checkpoint)
    metadata: dict[str, Any] = {**model.metadata, "general.type": "model"}
    metadata["general.name"] = checkpoint.path.resolve().name
    lost = ["it has no tokenizer that is known here"] if model.tokenizer is None else []
    if model.tokenizer is not None:
        rows = model.tensors["token_embd.weight"].shape[0]
        metadata |= tokenizer_metadata(checkpoint, size=rows)
        lost += untold(model.tokenizer)
    return replace(model, metadata=metadata), tuple(lost)


def natural_recipe(checkpoint: Checkpoint) -> str:
    """The recipe that keeps most weights as they are."""
    sizes: Counter[str] = Counter()
    for tensor in checkpoint.tensors.values():
        if len(tensor.shape) > 1 and tensor.type in FLOAT_RECIPES:
            sizes[tensor.type] += tensor.num_bytes
    return FLOAT_RECIPES[sizes.most_common(1)[0][0]] if sizes else "f16"
