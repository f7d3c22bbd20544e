"""An adapter as llama.cpp takes it: a GGUF file of type `adapter`.

Gives its pairs by the names of a GGUF file's weights, each with its scale. Whether a model has
these is unknown here.

Source of the keys and names: llama.cpp's documentation of adapters, and what its loader takes.
"""

from __future__ import annotations

import re
from dataclasses import replace

from pyrite.errors import FormatError, TensorError, UnsupportedError
from pyrite.formats.checkpoint import Checkpoint, Tensor
from pyrite.models.blocks import TABLE, is_embedding
from pyrite.models.fields import Fields
from pyrite.models.lora import ANOTHER, Pair, paired

MATRIX = re.compile(r"(?P<weight>.+\.weight)\.lora_(?P<side>[ab])")
UNTOLD = frozenset({"lora.task_name", "lora.prompt_prefix"})  # keys that say nothing of products


def read_lora(file: Checkpoint, base: Checkpoint) -> dict[str, Pair]:
    """`base`: its model, as a GGUF file has it. Raises FormatError, TensorError,
    UnsupportedError."""
    kind, sort = file.metadata.get("general.type"), file.metadata.get("adapter.type")
    if kind != "adapter" or sort != "lora":
        is_model = TABLE in file.tensors
        raise FormatError(
            "it is a model, and no adapter"
            if is_model
            else f"it is no LoRA adapter: general.type = {kind!r}, adapter.type = {sort!r}",
            hint="give a GGUF file with the matrices of an adapter, or a folder that PEFT wrote",
        )
    if file.architecture != base.architecture:
        problem = f"it is of architecture {file.architecture}"
        raise UnsupportedError(f"{problem}, and the model of {base.architecture}", hint=ANOTHER)
    keys = Fields(file.metadata, prefix="adapter.")
    alpha = keys.number("lora.alpha", 0.0, 1e9, 0.0)
    keys.get("type")
    keys.refuse_unread("the file", UNTOLD)
    pairs = paired(map(_matrix, file.tensors.values()), is_table=is_embedding)
    # By llama.cpp's word an alpha of 0 is none: products are taken as they are.
    return {
        weight: replace(pair, scale=alpha / pair.rank if alpha else 1.0)
        for weight, pair in pairs.items()
    }


def _matrix(tensor: Tensor) -> tuple[str, str, Tensor]:
    match = MATRIX.fullmatch(tensor.name)
    if match is None:
        raise TensorError(f"tensor {tensor.name} is no part of a LoRA adapter")
    return match["weight"], match["side"], tensor
