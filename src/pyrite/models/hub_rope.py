"""Rotary settings of a config.json as GGUF keys.

Older: `rope_theta` and `rope_scaling`; newer: `rope_parameters`. What the settings
mean is in `graph.rope` and `gguf_rope`.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pyrite.errors import FormatError, UnsupportedError
from pyrite.formats import derived
from pyrite.models import config as limits
from pyrite.models.fields import Fields
from pyrite.models.gguf_rope import (
    FREQUENCY_FACTORS,
    LOG_MULTIPLIER,
    LONG_FACTORS,
    SHORT_FACTORS,
    growth,
)
from pyrite.models.hub import Folder

SHOWN = ("default", "linear", "dynamic", "llama3", "yarn", "longrope")


def rope(
    folder: Folder,
    theta: float = 10000.0,
    local_theta: float = 0.0,
    width: int | None = None,
    is_partial: bool = False,
    may_stretch: bool = False,
) -> None:
    """The thetas are those that config.json may leave out; `width`: columns of a head that may
    turn, all by default; `is_partial`: the family turns a share of them where it says so;
    `may_stretch`: "dynamic" with an alpha is another theta. With `local_theta` layers with a window
    turn by their own; where that is stated of another family, reading the GGUF keys tells whether
    it is executed."""
    keys = folder.keys
    theta = keys.number("rope_theta", limits.MIN_THETA, limits.MAX_THETA, theta)
    newer, older = keys.group("rope_parameters"), keys.group("rope_scaling")
    if newer is not None and older is not None:
        raise FormatError("config.json has both rope_parameters and rope_scaling: which holds?")
    is_local = bool(local_theta) or keys.get("rope_local_base_freq") is not None
    local = keys.number(
        "rope_local_base_freq", limits.MIN_THETA, limits.MAX_THETA, local_theta or theta
    )
    stated = newer or older
    if newer is not None and (newer.get("full_attention") or newer.get("sliding_attention")):
        is_local, stated, local = True, newer.group("full_attention"), _local(newer, local)
        newer.refuse_unread("rope_parameters")
    turned = _turned(keys, stated, width or folder.stated("attention.key_length"), is_partial)
    folder.put("rope.dimension_count", turned, of="head_dim")
    folder.put("rope.freq_base", theta)
    if is_local:
        folder.put("rope.freq_base_swa", local)
    if stated is not None:
        _state(folder, stated, theta, turned, may_stretch)


def _turned(keys: Fields, stated: Fields | None, head_width: int, is_partial: bool) -> int:
    """Columns of a head."""
    share = keys.number("partial_rotary_factor", 1e-3, 1.0, 1.0)
    if stated is not None:
        share = stated.number("partial_rotary_factor", 1e-3, 1.0, share)
    if share != 1.0 and not is_partial:
        raise UnsupportedError(
            f"partial_rotary_factor = {share:g}: heads of this family turn whole"
        )
    turned = int(head_width * share)
    if turned % 2 or turned == 0:
        raise FormatError(f"{turned} of {head_width} columns of a head turn: must be even")
    return turned


def _local(keys: Fields, theta: float) -> float:
    own = keys.group("sliding_attention")
    if own is None:
        return theta
    if own.text("rope_type", "default") != "default":
        raise UnsupportedError("scaled rotary positions in layers with a window")
    theta = own.number("rope_theta", limits.MIN_THETA, limits.MAX_THETA, theta)
    own.refuse_unread("the rope settings of config.json")
    return theta


def _state(folder: Folder, keys: Fields, theta: float, width: int, may_stretch: bool) -> None:
    theta = keys.number("rope_theta", limits.MIN_THETA, limits.MAX_THETA, theta)
    folder.put("rope.freq_base", theta)
    kind = keys.text("rope_type", keys.text("type", "default"))
    kind = "longrope" if kind == "su" else kind  # its first name
    kind = "default" if kind == "mrope" else kind  # see _sections
    if kind not in SHOWN:
        raise UnsupportedError(
            f"rope type {kind[:60]!r} is not executed here",
            hint=f"those that are: {', '.join(SHOWN)}",
        )
    if may_stretch and kind == "dynamic" and keys.get("alpha") is not None:
        _stretch(folder, keys, theta, width)
    elif kind == "llama3":
        _llama3(folder, keys, theta, width)
    elif kind == "longrope":
        _long(folder, keys, width)
    elif kind != "default":
        _scaled(folder, keys, kind)
    _sections(folder, keys)
    keys.refuse_unread("the rope settings of config.json")


def _stretch(folder: Folder, keys: Fields, theta: float, width: int) -> None:
    """By a fixed alpha, whatever the context: no scaling is left, and its keys mean nothing."""
    alpha = keys.number("alpha", 1.0, 1e9)
    stretched = theta * alpha ** (width / (width - 2)) if width > 2 else theta
    folder.put("rope.freq_base", stretched)
    for key in ("beta_fast", "beta_slow", "factor", "mscale", "mscale_all_dim"):
        keys.get(key)


def _sections(folder: Folder, keys: Fields) -> None:
    """Which columns turn by an image's rows, columns and time: of a text these are all the same."""
    keys.boolean("mrope_interleaved", False)
    if (parts := keys.sequence("mrope_section", 3)) is not None:
        counts = [
            Fields({"mrope_section": part}).integer("mrope_section", 0, 4096) for part in parts
        ]
        folder.put("rope.dimension_sections", [*counts, 0], of=keys.called("mrope_section"))


def _scaled(folder: Folder, keys: Fields, kind: str) -> None:
    factor = keys.number("factor", 1.0, 1e6)
    folder.put("rope.scaling.type", kind)
    folder.put("rope.scaling.factor", factor)
    if kind == "linear":
        return
    length = folder.stated("context_length")
    original = keys.integer("original_max_position_embeddings", 1, limits.MAX_CONTEXT, length)
    folder.put("rope.scaling.original_context_length", original)
    if kind == "dynamic":
        folder.put("context_length", min(int(length * factor), limits.MAX_CONTEXT))
        return
    folder.put("rope.scaling.yarn_beta_fast", keys.number("beta_fast", 1e-3, 1e6, 32.0))
    folder.put("rope.scaling.yarn_beta_slow", keys.number("beta_slow", 1e-3, 1e6, 1.0))
    folder.put("rope.scaling.truncate", keys.boolean("truncate", True))
    _put_yarn_attention(folder, keys, factor)
    if folder.architecture == "mistral3":
        beta = keys.number("llama_4_scaling_beta", 0.0, 1e3, 0.0)
        folder.put("attention.temperature_scale", beta)
        keys.get("max_position_embeddings")  # the outer one holds


def _put_yarn_attention(folder: Folder, keys: Fields, factor: float) -> None:
    """What cos and sin are multiplied by. GGUF states what it is besides `growth`; besides 1
    where attention is latent, whose multiplier is a tenth; and Mistral 3's has one, too."""
    mscale = keys.number("mscale", 0.0, 1e3, 0.0)
    all_widths = keys.number("mscale_all_dim", 0.0, 1e3, 0.0)
    wanted = taken = growth(factor)
    if all_widths and folder.architecture == "mistral3":
        folder.put(LOG_MULTIPLIER, all_widths)
        taken = growth(factor) / growth(factor, all_widths)
    elif all_widths and folder.has("attention.kv_lora_rank"):
        folder.put(LOG_MULTIPLIER, 0.1 * all_widths)
        taken = 1.0
    if mscale and all_widths:
        wanted = growth(factor, mscale) / growth(factor, all_widths)
    wanted = keys.number("attention_factor", 1e-3, 1e3, wanted)
    folder.put("rope.scaling.attn_factor", wanted / taken)


def _llama3(folder: Folder, keys: Fields, theta: float, width: int) -> None:
    """Pairs that turn often in the original context stay as they are, slow ones are slowed more.

    GGUF states a divisor for each frequency. Source: `rope_scaling` of Llama 3.1's config.json and
    the release notes.
    """
    factor = keys.number("factor", 1.0, 1e6)
    low = keys.number("low_freq_factor", 1e-6, 1e6)
    high = keys.number("high_freq_factor", 1e-6, 1e6)
    original = keys.integer("original_max_position_embeddings", 1, limits.MAX_CONTEXT)
    if low >= high:
        raise FormatError(f"low_freq_factor = {low:g}: must be below high_freq_factor {high:g}")
    plain = theta ** (-np.arange(0, width, 2, dtype=np.float64) / width)
    turns = original * plain / (2 * math.pi)
    kept = np.clip((turns - low) / (high - low), 0.0, 1.0)
    _put_factors(folder, FREQUENCY_FACTORS, 1 / (kept + (1 - kept) / factor))


def _long(folder: Folder, keys: Fields, width: int) -> None:
    length = folder.stated("context_length")
    original = folder.keys.integer(
        "original_max_position_embeddings",
        2,
        limits.MAX_CONTEXT,
        keys.integer("original_max_position_embeddings", 2, limits.MAX_CONTEXT, length),
    )
    factor = keys.number("factor", 1.0, 1e6, length / original)
    for key, name in (("short_factor", SHORT_FACTORS), ("long_factor", LONG_FACTORS)):
        values = keys.sequence(key, width // 2)
        if values is None:
            raise FormatError(f"{key} is missing: longrope has a factor for each pair of columns")
        numbers = [Fields({key: value}).number(key, 1e-6, 1e6) for value in values]
        _put_factors(folder, name, np.array(numbers))
    growing = math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 else 1.0
    folder.put("rope.scaling.original_context_length", original)
    attention = keys.number("attention_factor", 1e-3, 1e3, growing)
    folder.put("rope.scaling.attn_factor", attention)


def _put_factors(folder: Folder, name: str, factors: NDArray[np.float64]) -> None:
    folder.tensors.put(name, derived.held(name, factors.astype(np.float32)))
