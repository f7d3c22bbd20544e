"""Layers that predict further tokens (multi-token prediction) are left out of a GGUF file's model.

They are its last ones, and `nextn_predict_layers` says how many. Knows no architecture.
"""

from __future__ import annotations

from dataclasses import replace

from pyrite.errors import FormatError
from pyrite.formats.checkpoint import Checkpoint
from pyrite.models import config as limits
from pyrite.models.arrange import LAYER
from pyrite.models.fields import Fields

COUNT = "nextn_predict_layers"


def without_predictors(checkpoint: Checkpoint) -> Checkpoint:
    """Keys that have an entry a layer lose theirs, too. Raises FormatError."""
    prefix = checkpoint.architecture + "."
    keys = Fields(checkpoint.metadata, prefix=prefix)
    count = keys.integer(COUNT, 0, limits.MAX_LAYERS, 0)
    if count == 0:
        return checkpoint
    whole = keys.integer("block_count", 1, limits.MAX_LAYERS)
    kept = whole - count
    parts = [
        (int(match[1]), name[match.end() :])
        for name in checkpoint.tensors
        if (match := LAYER.match(name))
    ]
    predicting = {layer for layer, part in parts if part.startswith("nextn.")}
    silent = [layer for layer in range(max(0, kept), whole) if layer not in predicting]
    if kept < 1 or silent:
        number = silent[0] if silent else 0
        raise FormatError(
            f"{prefix}{COUNT} = {count}: of {whole} layers number {number} predicts none"
        )
    own = {part for layer, part in parts if layer < kept}
    metadata = {
        key: _cut(value, whole, kept) if key.startswith(prefix) else value
        for key, value in checkpoint.metadata.items()
    }

    def is_left_out(name: str) -> bool:
        match = LAYER.match(name)
        if match is None or not kept <= int(match[1]) < whole:
            return False
        rest = name[match.end() :]
        return rest in own or rest.startswith("nextn.")

    tensors = {n: tensor for n, tensor in checkpoint.tensors.items() if not is_left_out(n)}
    metadata |= {prefix + "block_count": kept, prefix + COUNT: 0}
    return replace(checkpoint, metadata=metadata, tensors=tensors)


def _cut(value: object, whole: int, kept: int) -> object:
    is_by_layer = not isinstance(value, str) and hasattr(value, "__len__") and len(value) == whole
    return value[:kept] if is_by_layer else value  # type: ignore[index]
