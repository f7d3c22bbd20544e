"""A folder as the content of a GGUF file: keys, tokenizer and tensors as other engines read them.

Only what the file says is decided here; the types of its tensors are a recipe's, and `conversion`
writes it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from pyrite.formats.checkpoint import Checkpoint
from pyrite.formats.folder_text import end_ids
from pyrite.formats.gguf_tokenizer import ids_only_metadata, tokenizer_metadata, untold
from pyrite.models.other_kinds import refuse_other_kinds
from pyrite.models.registry import as_gguf
from pyrite.quant.formats import FLOATS_8

NO_TOKENIZER = "a tokenizer, for the folder has none: the file is for token ids alone"
FLOAT_RECIPES = {"F32": "f32", "F16": "f16", "BF16": "bf16"}
NATURAL = {**FLOAT_RECIPES, **dict.fromkeys(FLOATS_8, "f16")}  # GGUF has no floats of 8 bits


def as_gguf_file(checkpoint: Checkpoint) -> tuple[Checkpoint, tuple[str, ...]]:
    """With every key that a GGUF file of the model has, and sentences on what cannot be told.

    A GGUF file of a model stays as it is. Raises FormatError, TensorError, UnsupportedError.
    """
    if checkpoint.format == "gguf":
        refuse_other_kinds(checkpoint)
        return checkpoint, ()
    model = as_gguf(checkpoint)
    metadata: dict[str, Any] = {**model.metadata, "general.type": "model"}
    metadata["general.name"] = checkpoint.path.resolve().name
    if model.tokenizer is None:
        ends = tuple(one for one in end_ids(checkpoint.metadata) if one < rows_of(model))
        metadata |= ids_only_metadata(ends)
        return replace(model, metadata=metadata), (NO_TOKENIZER,)
    metadata |= tokenizer_metadata(checkpoint, size=rows_of(model))
    return replace(model, metadata=metadata), untold(model.tokenizer)


def rows_of(model: Checkpoint) -> int:
    """Of the embedding: all ids that there are."""
    return model.tensors["token_embd.weight"].shape[0]


def natural_recipe(checkpoint: Checkpoint) -> str:
    """The recipe that keeps most weights as they are, or as near as may be."""
    sizes: Counter[str] = Counter()
    for tensor in checkpoint.tensors.values():
        if len(tensor.shape) > 1 and tensor.type in NATURAL:
            sizes[NATURAL[tensor.type]] += tensor.num_rows * tensor.shape[-1]
    return sizes.most_common(1)[0][0] if sizes else "f16"
