"""Rotary settings of a config.json: `rope_theta` and `rope_scaling`, or `rope_parameters`.

GGUF's are in `gguf_config`; what the settings mean is in `graph.rope`.
"""

from __future__ import annotations

import math

from pyrite.errors import FormatError, UnsupportedError
from pyrite.graph.values import Rope, RopeScaling
from pyrite.models import config as limits
from pyrite.models.config import Family
from pyrite.models.fields import Fields
from pyrite.records import dataclass


@dataclass(frozen=True, slots=True)
class Ropes:
    whole: Rope  # of layers without a window
    local: Rope  # of layers with one


def read_ropes(keys: Fields, family: Family, head_width: int, context_length: int) -> Ropes:
    partial = keys.number("partial_rotary_factor", 1e-3, 1.0, 1.0)
    width = int(head_width * partial)
    if width % 2 or width == 0:
        raise FormatError(f"{width} of {head_width} columns of a head turn: must be even")
    theta = keys.number("rope_theta", limits.MIN_THETA, limits.MAX_THETA, family.theta)
    local_theta = keys.number(
        "rope_local_base_freq", limits.MIN_THETA, limits.MAX_THETA, family.local_theta or theta
    )
    newer, older = keys.group("rope_parameters"), keys.group("rope_scaling")
    if newer is not None and older is not None:
        raise FormatError("config.json has both rope_parameters and rope_scaling: which holds?")
    reader = _Reader(width, context_length)
    if newer is not None and (newer.get("full_attention") or newer.get("sliding_attention")):
        return _by_layer_type(newer, reader, theta, local_theta)
    whole = reader.rope(newer or older, theta)
    return Ropes(whole, Rope(local_theta, width, "halves") if family.local_theta else whole)


def _by_layer_type(keys: Fields, reader: _Reader, theta: float, local_theta: float) -> Ropes:
    whole = reader.rope(keys.group("full_attention"), theta)
    local = reader.rope(keys.group("sliding_attention"), local_theta)
    keys.refuse_unread("rope_parameters")
    return Ropes(whole, local)


@dataclass(frozen=True, slots=True)
class _Reader:
    width: int  # columns of a head that turn
    context_length: int

    def rope(self, keys: Fields | None, theta: float) -> Rope:
        if keys is None:
            return Rope(theta, self.width, "halves")
        theta = keys.number("rope_theta", limits.MIN_THETA, limits.MAX_THETA, theta)
        if keys.number("partial_rotary_factor", 1e-3, 1.0, 1.0) != 1.0:
            raise UnsupportedError("partial_rotary_factor inside of rope_parameters")
        scaling = self._scaling(keys)
        keys.refuse_unread("the rope settings of config.json")
        return Rope(theta, self.width, "halves", scaling)

    def _scaling(self, keys: Fields) -> RopeScaling | None:
        kind = keys.text("rope_type", keys.text("type", "default"))
        if kind == "default":
            return None
        if kind not in ("linear", "llama3", "yarn"):
            raise UnsupportedError(
                f"rope type {kind[:60]!r} is not executed here",
                hint="those that are: default, linear, llama3, yarn",
            )
        factor = keys.number("factor", 1.0, 1e6)
        if kind == "linear":
            return RopeScaling("linear", factor)
        return self._llama3(keys, factor) if kind == "llama3" else self._yarn(keys, factor)

    def _llama3(self, keys: Fields, factor: float) -> RopeScaling:
        low = keys.number("low_freq_factor", 1e-6, 1e6)
        high = keys.number("high_freq_factor", 1e-6, 1e6)
        if low >= high:
            raise FormatError(f"low_freq_factor = {low:g}: must be below high_freq_factor {high:g}")
        return RopeScaling(
            "llama3",
            factor,
            original_context=keys.integer(
                "original_max_position_embeddings", 1, limits.MAX_CONTEXT
            ),
            low_frequency_factor=low,
            high_frequency_factor=high,
        )

    def _yarn(self, keys: Fields, factor: float) -> RopeScaling:
        return RopeScaling(
            "yarn",
            factor,
            original_context=keys.integer(
                "original_max_position_embeddings", 1, limits.MAX_CONTEXT, self.context_length
            ),
            beta_fast=keys.number("beta_fast", 1e-3, 1e6, 32.0),
            beta_slow=keys.number("beta_slow", 1e-3, 1e6, 1.0),
            attention_factor=_yarn_attention_factor(keys, factor),
            truncate=keys.boolean("truncate", True),
        )


def _yarn_attention_factor(keys: Fields, factor: float) -> float:
    mscale = keys.number("mscale", 0.0, 1e3, 0.0)
    all_widths = keys.number("mscale_all_dim", 0.0, 1e3, 0.0)
    computed = _growth(factor, 1.0)
    if mscale and all_widths:
        computed = _growth(factor, mscale) / _growth(factor, all_widths)
    return keys.number("attention_factor", 1e-3, 1e3, computed)


def _growth(factor: float, weight: float) -> float:
    return 0.1 * weight * math.log(factor) + 1.0
