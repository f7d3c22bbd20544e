"""Which size of a configuration is at fault when tensors do not fit it: shapes tell.

Looks at shapes and keys alone, and at those tensors only that are known to be wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pyrite.formats.checkpoint import Checkpoint, Tensor
from pyrite.models.arrange import LAYER

# config.json's names of GGUF's keys; families have others for some.
NAMES = {
    "embedding_length": ("hidden_size", "n_embd", "d_model"),
    "vocab_size": ("vocab_size",),
    "block_count": ("num_hidden_layers", "n_layer", "num_layers"),
    "attention.head_count": ("num_attention_heads", "n_head"),
    "attention.head_count_kv": ("num_key_value_heads",),
    "feed_forward_length": ("intermediate_size", "n_inner", "ffn_dim"),
}
PROJECTIONS = (("attention.head_count", "attn_q"), ("attention.head_count_kv", "attn_k"))
EMBEDDING = "token_embd.weight"


def faults(checkpoint: Checkpoint, unfit: Collection[str]) -> list[str]:
    """Sentences without a full stop, the likeliest cause first; none where shapes tell nothing.

    `unfit`: names of tensors that are missing, left over or of the wrong shape.
    """
    found = _layers(checkpoint, unfit)
    table = checkpoint.tensors.get(EMBEDDING)
    if EMBEDDING in unfit and table is not None and len(table.shape) == 2:
        rows, width = table.shape
        wrong = _differs(checkpoint, "embedding_length", width, EMBEDDING)
        found = wrong + _differs(checkpoint, "vocab_size", rows, EMBEDDING) + found
        if wrong:  # all else is as wide as that
            return found + _architectures(checkpoint)
    for key, part in PROJECTIONS:
        found += _heads(checkpoint, key, _first(checkpoint, unfit, f"{part}.weight"))
    inner = _first(checkpoint, unfit, "ffn_up.weight")
    if inner is not None:
        found += _differs(checkpoint, "feed_forward_length", inner.shape[0], inner.name)
    return found + _architectures(checkpoint)


def _differs(checkpoint: Checkpoint, key: str, shown: int, tensor: str) -> list[str]:
    stated = _stated(checkpoint, key)
    if not isinstance(stated, int) or stated == shown:
        return []
    return [f"{_told(checkpoint, key, stated)}, and {tensor} has {shown}"]


def _layers(checkpoint: Checkpoint, unfit: Collection[str]) -> list[str]:
    stated = _stated(checkpoint, "block_count")
    numbers = {int(match[1]) for name in checkpoint.tensors if (match := LAYER.match(name))}
    count = 1 + max(numbers, default=-1)
    is_about = any(LAYER.match(name) for name in unfit)
    if not is_about or not isinstance(stated, int) or stated == count:
        return []
    return [f"{_told(checkpoint, 'block_count', stated)}, and the weights are of {count} layers"]


def _heads(checkpoint: Checkpoint, key: str, tensor: Tensor | None) -> list[str]:
    count, width = _stated(checkpoint, key), _stated(checkpoint, "attention.key_length")
    if tensor is None or not isinstance(count, int) or not isinstance(width, int):
        return []
    rows = tensor.shape[0]
    if count * width == rows:
        return []
    made = f"{_told(checkpoint, key, count)} of width {width}: {count * width} rows"
    which = f" ({rows // width} heads)" if rows % width == 0 else ""
    return [f"{made}, and {tensor.name} has {rows}{which}"]


def _architectures(checkpoint: Checkpoint) -> list[str]:
    """config.json names the class too, which a changed model_type does not follow."""
    named, kind = checkpoint.config.get("architectures"), checkpoint.config.get("model_type")
    if not isinstance(named, list) or not named or not isinstance(kind, str):
        return []
    plain = kind.replace("_text", "").replace("_", "").lower()
    if str(named[0]).lower().startswith(plain):
        return []
    return [f"config.json says model_type = {kind!r}, and architectures = {str(named[0])[:60]!r}"]


def _stated(checkpoint: Checkpoint, key: str) -> Any:
    return checkpoint.metadata.get(f"{checkpoint.architecture}.{key}")


def _told(checkpoint: Checkpoint, key: str, stated: int) -> str:
    """As the file that was given has it, or why it has that number without a word."""
    if checkpoint.format == "gguf":
        return f"{checkpoint.architecture}.{key} = {stated}"
    names = NAMES[key]
    inner = checkpoint.config.get("text_config")
    keys = {**checkpoint.config, **(inner if isinstance(inner, Mapping) else {})}
    own = next((name for name in names if keys.get(name) is not None), None)
    return f"{own} = {stated}" if own else f"{names[0]} is not stated, which means {stated}"


def _first(checkpoint: Checkpoint, unfit: Collection[str], suffix: str) -> Tensor | None:
    """The matrix of the first layer that has it, if it is unfit."""
    names = sorted(name for name in unfit if name.startswith("blk.") and name.endswith(suffix))
    found = (checkpoint.tensors.get(name) for name in names)
    return next((one for one in found if one is not None and len(one.shape) == 2), None)
