"""What Gemma 4 states beside the usual GGUF keys: widths of heads with a window, inputs of layers'
own, layers that read the keys and values of earlier ones.

Source of the keys: what converters write.
"""

from __future__ import annotations

from dataclasses import replace

from pyrite.errors import FormatError
from pyrite.formats.checkpoint import Checkpoint
from pyrite.models import config as limits
from pyrite.models.config import Gemma4Config, LayerConfig
from pyrite.models.fields import Fields
from pyrite.models.gguf_rope import FREQUENCY_FACTORS

SHARED = "attention.shared_kv_layers"
KEPT = ("attn_k.weight", "attn_k_norm.weight", "attn_v.weight")


def read_gemma4(
    keys: Fields, checkpoint: Checkpoint, layers: tuple[LayerConfig, ...], head_width: int
) -> Gemma4Config:
    if FREQUENCY_FACTORS not in checkpoint.tensors:
        raise FormatError(f"{FREQUENCY_FACTORS} is missing: heads without a window turn by it")
    width = keys.integer("attention.key_length_swa", 2, limits.MAX_HEAD_WIDTH, head_width)
    keys.integer("attention.value_length_swa", width, width, width)
    keys.integer("attention.value_length", head_width, head_width, head_width)
    keys.integer("rope.dimension_count_swa", 2, width, width)
    keys.number("attn_logit_softcapping", 0.0, 0.0, 0.0)
    if still := [index for index, layer in enumerate(layers) if layer.key_heads == 0]:
        problem = f"layer {still[0]} has no heads of keys, and {checkpoint.architecture} needs some"
        raise FormatError(problem)
    most = limits.MAX_WIDTH // len(layers)
    num_shared = num_shared_layers(keys, len(layers))
    return Gemma4Config(
        local_head_width=width,
        input_width=keys.integer("embedding_length_per_layer_input", 0, most, 0),
        reads=_reads(keys, layers, num_shared),
        has_values=_have_values(checkpoint, layers, len(layers) - num_shared),
    )


def _have_values(
    checkpoint: Checkpoint, layers: tuple[LayerConfig, ...], num_own: int
) -> tuple[bool, ...]:
    """Of each layer: a projection of values. Those without a window all have one, or none does."""
    wide = [index for index, layer in enumerate(layers[:num_own]) if not layer.window]
    is_there = any(f"blk.{index}.attn_v.weight" in checkpoint.tensors for index in wide)
    return tuple(bool(layer.window) or is_there for layer in layers)


def num_shared_layers(keys: Fields, num_layers: int) -> int:
    """The last ones, which have no keys and values of their own."""
    return keys.integer(SHARED, 0, num_layers - 1, 0)


def _reads(keys: Fields, layers: tuple[LayerConfig, ...], num_shared: int) -> tuple[int, ...]:
    """Of each layer the one whose keys and values it reads: the last of its kind."""
    found: list[int] = []
    for index, own in enumerate(layers):
        if index < len(layers) - num_shared:
            found.append(index)
            continue
        alike = [
            other
            for other in range(len(layers) - num_shared)
            if bool(layers[other].window) == bool(own.window)
        ]
        if not alike or layers[alike[-1]].key_heads != own.key_heads:
            raise FormatError(
                f"{keys.prefix}{SHARED} = {num_shared}: no layer before has the keys and values"
                f" that layer {index} needs"
            )
        found.append(alike[-1])
    return tuple(found)


def without_shared(checkpoint: Checkpoint) -> Checkpoint:
    """Files may hold keys and values of the layers that read those of others."""
    keys = Fields(checkpoint.metadata, prefix=checkpoint.architecture + ".")
    count = keys.integer("block_count", 1, limits.MAX_LAYERS)
    first = count - num_shared_layers(keys, count)
    unread = {f"blk.{index}.{part}" for index in range(first, count) for part in KEPT}
    tensors = {name: one for name, one in checkpoint.tensors.items() if name not in unread}
    return replace(checkpoint, tensors=tensors)
