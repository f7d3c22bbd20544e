"""Rotary frequencies: what every backend turns queries and keys by.

The angle of column pair i at position p is p * inverse_frequencies(rope)[i]; cos and sin of it are
multiplied by attention_factor(rope), and by what `Rope` grows by at p. Computed in float64 and
rounded once to float32. Backends decide where tables live.

Sources: rotary positions, arXiv 2104.09864; linear interpolation, arXiv 2306.15595; YaRN,
arXiv 2309.00071.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pyrite.graph.values import Rope, RopeScaling

Frequencies = NDArray[np.float64]
CosSin = tuple[NDArray[np.float32], NDArray[np.float32]]


def inverse_frequencies(rope: Rope) -> NDArray[np.float32]:
    """Radians a position, one for each pair of columns: (rope.width / 2,)."""
    plain = rope.theta ** (-np.arange(0, rope.width, 2, dtype=np.float64) / rope.width)
    return _scaled(plain, rope).astype(np.float32)


def attention_factor(rope: Rope) -> float:
    return 1.0 if rope.scaling is None else rope.scaling.attention_factor


def cos_sin(rope: Rope, positions: NDArray[np.int32]) -> CosSin:
    """cos and sin, times the attention factor and the growth: (tokens, rope.width / 2) each."""
    frequencies = inverse_frequencies(rope).astype(np.float64)
    angles = positions[:, None].astype(np.float64) * frequencies
    grown = 1 + rope.growth * np.log1p(positions[:, None] // rope.growth_span)
    factor = attention_factor(rope) * grown
    return (np.cos(angles) * factor).astype(np.float32), (np.sin(angles) * factor).astype(
        np.float32
    )


def _scaled(plain: Frequencies, rope: Rope) -> Frequencies:
    scaling = rope.scaling
    if scaling is None:
        return plain
    if scaling.kind == "linear":
        return plain / scaling.factor
    if scaling.kind == "factors":
        return plain / np.array(scaling.factors, dtype=np.float64)
    return _yarn(plain, rope, scaling)


def _yarn(plain: Frequencies, rope: Rope, scaling: RopeScaling) -> Frequencies:
    """A ramp over column pairs between those that turn beta_fast and beta_slow times."""
    low = _pair_with_turns(scaling.beta_fast, rope, scaling)
    high = _pair_with_turns(scaling.beta_slow, rope, scaling)
    if scaling.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0.0), min(high, rope.width - 1.0)
    span = (high - low) or 0.001
    slowed = np.clip((np.arange(rope.width // 2) - low) / span, 0.0, 1.0)
    kept: Frequencies = plain * (1 - slowed + slowed / scaling.factor)
    return kept


def _pair_with_turns(turns: float, rope: Rope, scaling: RopeScaling) -> float:
    """The (fractional) pair that turns so often within the original context."""
    context = scaling.original_context
    return rope.width * math.log(context / (turns * 2 * math.pi)) / (2 * math.log(rope.theta))
