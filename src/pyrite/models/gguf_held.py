"""Keys that say what tensors, or other keys, show as well: held to them, as llama.cpp reads them.

Nothing here goes into what is computed; a key that disagrees would be ignored without a word.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pyrite.errors import FormatError
from pyrite.models import config as limits
from pyrite.models.config import LatentConfig, LayerConfig
from pyrite.models.fields import Fields, shorten

LEADING, STEP = "leading_dense_block_count", "interleave_moe_layer_step"
ROUTER = "ffn_gate_inp.weight"
PARTS = 4  # of a position: time, rows, columns, and one more


def hold_mixtures(keys: Fields, layers: Sequence[LayerConfig]) -> None:
    """Which layers have experts, by the first of them and every so many-th from there on. Where
    none has, all are dense."""
    if not any(layer.has_experts for layer in layers):
        keys.integer(LEADING, len(layers), len(layers), len(layers))
        return
    stated = [key for key in (LEADING, STEP) if keys.get(key) is not None]
    first = keys.integer(LEADING, 0, limits.MAX_LAYERS, 0)
    step = keys.integer(STEP, 1, limits.MAX_LAYERS, 1)
    if not stated:
        return
    for index, layer in enumerate(layers):
        is_told = index >= first and (index + 1) % step == 0
        if is_told != layer.has_experts:
            told = ", ".join(f"{keys.called(key)} = {shorten(keys.get(key))}" for key in stated)
            has, found = ("has", "missing") if is_told else ("has no", "there")
            problem = f"layer {index} {has} experts by that, and blk.{index}.{ROUTER} is {found}"
            raise FormatError(f"{told}: {problem}")


def hold_shared(keys: Fields, expert_width: int, width: int) -> None:
    """`width`: of the tensor that every token passes; experts that all pass lie beside each other
    in it."""
    if keys.get("expert_shared_count") is None:
        return
    count = keys.integer("expert_shared_count", 0, limits.MAX_EXPERTS)
    if count * expert_width != width:
        raise FormatError(
            f"{keys.called('expert_shared_count')} = {count} of"
            f" {keys.called('expert_feed_forward_length')} = {expert_width} columns, and"
            f" ffn_down_shexp.weight has {width}"
        )


def hold_latent(keys: Fields, latent: LatentConfig, heads: int) -> None:
    """Sizes of what is kept of keys and values: of one head, which all read, where a file also has
    those of the heads (`_mla`), and of all heads where it has not."""
    is_shared = keys.get("attention.key_length_mla") is not None
    kept = (latent.key_rank + latent.rope_width, latent.key_rank)
    own = (latent.plain_width + latent.rope_width, latent.value_width)
    key_width, value_width = kept if is_shared else own
    key_heads = 1 if is_shared else heads
    for key, wanted in (("key_length", key_width), ("value_length", value_width)):
        keys.integer(f"attention.{key}", wanted, wanted)
    keys.integer("attention.head_count_kv", key_heads, key_heads, key_heads)


def hold_sections(keys: Fields, width: int) -> None:
    """Pairs of columns that turn by each part of a position. A text's parts are all the same, so
    they change nothing here, but they are all the pairs there are."""
    parts = keys.sequence("rope.dimension_sections", PARTS)
    if parts is None:
        return
    counts = [Fields({"part": part}).integer("part", 0, width) for part in parts]
    if sum(counts) != width // 2:
        raise FormatError(
            f"{keys.called('rope.dimension_sections')} = {counts}: {sum(counts)} pairs of columns,"
            f" and {width // 2} turn"
        )


def hold_period(keys: Fields, key: str, period: int, recurrent: Sequence[bool]) -> None:
    """The layers with attention, which a list and a period may both tell."""
    stated = keys.get(key)
    by_period = [(index + 1) % period != 0 for index in range(len(recurrent))]
    if stated is not None and list(recurrent) != by_period:
        raise FormatError(
            f"{keys.called(key)} = {period}, and {keys.called('attention.recurrent_layers')} ="
            f" {shorten(list(recurrent))}: they tell different layers"
        )


def hold_feed_forward(keys: Fields, widths: Sequence[int], tensors: Collection[str]) -> None:
    """Where no layer has a tensor of a feed-forward block, or of experts, there is no width."""
    if any(widths) and not any(".ffn_" in name or ".channel_mix" in name for name in tensors):
        key = keys.called("feed_forward_length")
        raise FormatError(f"{key} = {max(widths)}, and no layer has a feed-forward block")
