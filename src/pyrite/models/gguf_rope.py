"""Rotary settings of GGUF metadata: theta, scaling, tensors of factors.

What the settings mean is in `graph.rope`.
"""

from __future__ import annotations

import math
from dataclasses import replace

from pyrite.errors import FormatError, TensorError, UnsupportedError
from pyrite.formats.checkpoint import Checkpoint
from pyrite.graph.values import Rope, RopeScaling
from pyrite.models import config as limits
from pyrite.models.config import Family
from pyrite.models.fields import Fields
from pyrite.models.gguf_held import hold_sections
from pyrite.records import dataclass

FREQUENCY_FACTORS = "rope_freqs.weight"
SHORT_FACTORS = "rope_factors_short.weight"
LONG_FACTORS = "rope_factors_long.weight"
LOG_MULTIPLIER = "rope.scaling.yarn_log_multiplier"


@dataclass(frozen=True, slots=True)
class Ropes:
    whole: Rope | None  # of layers without a window
    local: Rope | None  # of layers with one


def read_ropes(
    keys: Fields,
    checkpoint: Checkpoint,
    family: Family,
    head_width: int,
    context_length: int,
    has_windows: bool,
) -> Ropes:
    """`context_length`: what the model is loaded for. Some scalings apply beyond a length only;
    which side of it a model is on is decided once, for keys are kept as they were turned."""
    if not family.turns:
        _refuse_unread(checkpoint, FREQUENCY_FACTORS, SHORT_FACTORS, LONG_FACTORS)
        return Ropes(None, None)
    width = keys.integer("rope.dimension_count", 2, head_width, head_width)
    if width % 2:
        raise FormatError(f"{keys.called('rope.dimension_count')} = {width}: must be even")
    hold_sections(keys, width)
    theta = keys.number("rope.freq_base", limits.MIN_THETA, limits.MAX_THETA, family.theta)
    scaling = _scaling(keys, family, checkpoint, width, context_length)
    factors = _factors(checkpoint, FREQUENCY_FACTORS, width)
    if scaling is not None and factors is not None:
        raise UnsupportedError(f"both {keys.prefix}rope.scaling and {FREQUENCY_FACTORS} are there")
    if scaling is not None and scaling.kind == "dynamic":
        theta, scaling = _dynamic(theta, width, scaling, context_length), None
    whole = Rope(theta, width, family.rope_layout, scaling or factors)
    if family.grows_queries:
        whole = _growing(keys, whole, head_width)
    if not has_windows or (family.local_theta == 0 and family.scales_local):
        return Ropes(whole, whole)
    default = family.local_theta or theta
    local = keys.number("rope.freq_base_swa", limits.MIN_THETA, limits.MAX_THETA, default)
    local_width = keys.integer("rope.dimension_count_swa", 2, head_width, width)
    if local_width % 2:
        raise FormatError(f"{keys.prefix}rope.dimension_count_swa = {local_width}: must be even")
    return Ropes(whole, Rope(local, local_width, family.rope_layout))


def _growing(keys: Fields, rope: Rope, head_width: int) -> Rope:
    """Queries that grow once for each length of the original context that lies before them."""
    growth = keys.number("attention.temperature_scale", 0.0, 1e3, 0.0)
    span = keys.integer("rope.scaling.original_context_length", 0, limits.MAX_CONTEXT, 0)
    if growth and (span == 0 or rope.width != head_width):
        raise FormatError(
            f"{keys.called('attention.temperature_scale')} = {growth:g} needs"
            f" {keys.called('rope.scaling.original_context_length')}, and heads that turn whole"
        )
    return replace(rope, growth=growth, growth_span=span or 1) if growth else rope


def _scaling(
    keys: Fields, family: Family, checkpoint: Checkpoint, width: int, context_length: int
) -> RopeScaling | None:
    """Each kind reads its own keys: those of another one are left over, and refused as such.

    A factor without a kind is linear, as llama.cpp takes it. The original length is in files whose
    positions are not scaled, too.
    """
    factor = _factor(keys)
    has_factors = LONG_FACTORS in checkpoint.tensors or SHORT_FACTORS in checkpoint.tensors
    default = "longrope" if has_factors else "linear" if factor else "none"
    kind = keys.text("rope.scaling.type", default)
    original = keys.integer("rope.scaling.original_context_length", 0, limits.MAX_CONTEXT, 0)
    is_long = has_factors and kind in ("none", "longrope")
    if factor not in (0.0, 1.0) and (is_long or kind == "none"):
        raise FormatError(
            f"{keys.called('rope.scaling.factor')} = {factor:g}, and"
            f" {keys.called('rope.scaling.type')} = {kind!r} has none"
        )
    if is_long:
        return _long(checkpoint, width, original, _attention(keys), context_length)
    _refuse_unread(checkpoint, SHORT_FACTORS, LONG_FACTORS)
    if kind == "none" or (kind == "linear" and factor in (0.0, 1.0)):
        return None
    if kind == "linear":
        return RopeScaling("linear", factor)
    if kind not in ("yarn", "dynamic"):
        raise UnsupportedError(
            f"{keys.called('rope.scaling.type')} = {kind!r}: not executed here",
            hint="those that are: none, linear, dynamic, yarn, longrope with its factors",
        )
    if factor < 1.0 or original == 0:
        raise FormatError(
            f"{keys.called('rope.scaling.factor')} = {factor:g} and"
            f" {keys.called('rope.scaling.original_context_length')} = {original}: {kind} needs a"
            " factor from 1 and a length"
        )
    if kind == "dynamic":
        return RopeScaling("dynamic", factor, original_context=original)
    return _yarn(keys, family, factor, original)


def _factor(keys: Fields) -> float:
    """By its name, or by that of old files."""
    factor = keys.number("rope.scaling.factor", 0.0, 1e6, 0.0)
    linear = keys.number("rope.scale_linear", 0.0, 1e6, 0.0)
    if factor and linear and factor != linear:
        raise FormatError(
            f"{keys.called('rope.scaling.factor')} = {factor:g}, and"
            f" {keys.called('rope.scale_linear')} = {linear:g}: which holds?"
        )
    return factor or linear


def _attention(keys: Fields) -> float:
    return keys.number("rope.scaling.attn_factor", 0.0, 1e3, 1.0)


def _yarn(keys: Fields, family: Family, factor: float, original: int) -> RopeScaling:
    keys.number("rope.scaling.yarn_ext_factor", 1.0, 1.0, 1.0)
    stated = keys.number("rope.scaling.yarn_attn_factor", 0.0, 1e3, 0.0)
    attention = _attention(keys)
    return RopeScaling(
        "yarn",
        factor,
        original_context=original,
        beta_fast=keys.number("rope.scaling.yarn_beta_fast", 1e-3, 1e6, 32.0),
        beta_slow=keys.number("rope.scaling.yarn_beta_slow", 1e-3, 1e6, 1.0),
        attention_factor=stated or attention * _yarn_growth(keys, factor),
        truncate=keys.boolean("rope.scaling.truncate", family.truncates_yarn),
    )


def _refuse_unread(checkpoint: Checkpoint, *names: str) -> None:
    """Tables that nothing here turns by."""
    for name in names:
        if (table := checkpoint.tensors.get(name)) is not None:
            raise TensorError(f"not used: {name} {table.shape}: rotary positions do not need it")


def growth(factor: float, weight: float = 1.0) -> float:
    """How much larger yarn makes queries and keys."""
    return 0.1 * weight * math.log(factor) + 1.0 if factor > 1 else 1.0


def _yarn_growth(keys: Fields, factor: float) -> float:
    """Of queries and keys. Where they are latent the multiplier concerns the scores alone."""
    multiplier = _log_multiplier(keys)
    if multiplier and keys.get("attention.kv_lora_rank") is not None:
        return 1.0
    return growth(factor) / growth(factor, multiplier)


def latent_growth(keys: Fields) -> float:
    """Of the scores of latent attention, whose queries and keys yarn leaves as they are."""
    if keys.get("rope.scaling.type") is None:
        return 1.0
    multiplier, factor = _log_multiplier(keys), keys.number("rope.scaling.factor", 0.0, 1e6, 0.0)
    return growth(factor, 10 * multiplier) ** 2


def _log_multiplier(keys: Fields) -> float:
    return keys.number(LOG_MULTIPLIER, 0.0, 1e3, 0.0)


def _long(
    checkpoint: Checkpoint, width: int, original: int, attention: float, context_length: int
) -> RopeScaling:
    """Phi-3's: one set of divisors for short contexts, one for long ones."""
    name = LONG_FACTORS if context_length > original else SHORT_FACTORS
    factors = _factors(checkpoint, name, width)
    if factors is None:
        raise FormatError(f"{name} is missing: a context of {context_length} tokens needs it")
    return replace(factors, attention_factor=attention)


def _dynamic(theta: float, width: int, scaling: RopeScaling, context_length: int) -> float:
    """The theta of a context beyond the original one ("NTK-aware", growing with it)."""
    original, factor = scaling.original_context, scaling.factor
    if context_length <= original or width <= 2:
        return theta
    growth: float = factor * context_length / original - (factor - 1)
    return float(theta * growth ** (width / (width - 2)))


def _factors(checkpoint: Checkpoint, name: str, width: int) -> RopeScaling | None:
    """A divisor for each frequency: Llama 3's scaling, as its converter writes it, and Phi-3's."""
    tensor = checkpoint.tensors.get(name)
    if tensor is None:
        return None
    if tensor.type != "F32" or tensor.shape != (width // 2,):
        raise FormatError(f"{name} is {tensor.type} {tensor.shape}: must be F32 ({width // 2},)")
    factors = tuple(float(factor) for factor in tensor.read().view("<f4"))
    if not all(math.isfinite(factor) and factor > 0 for factor in factors):
        raise FormatError(f"{name}: every factor must be positive and finite")
    return RopeScaling("factors", 1.0, factors=factors)
