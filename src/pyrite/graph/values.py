"""What operations are made of: values, views of their columns, norms, rotary positions.

Every value is a float32 matrix (rows, width). A row is a token of the batch (`rows = "tokens"`)
or, after `SelectRows`, a token whose logits are wanted (`rows = "outputs"`); any operation that
does not look at positions may work on either.
"""

from __future__ import annotations

from typing import Literal

from pyrite.records import dataclass

Activation = Literal[
    "identity",
    "silu",
    "gelu",
    "gelu_tanh",
    "relu",
    "relu_squared",
    "sigmoid",
    "tanh",
    "clamped_swiglu",  # of Gate and Experts alone, for it shapes both sides: see `Gate`
]
Rows = Literal["tokens", "outputs"]

SWIGLU_LIMIT = 7.0  # of clamped_swiglu
SWIGLU_SLOPE = 1.702


@dataclass(frozen=True, slots=True)
class Value:
    """A float32 matrix (rows, width), written by one operation. `id` is its index in the graph."""

    id: int
    width: int
    rows: Rows = "tokens"


@dataclass(frozen=True, slots=True)
class Pairs:
    """The two matrices of each adapter for one weight, by the adapters' numbers; None where one has
    none. What they are, operations tell."""

    down: tuple[str | None, ...]
    up: tuple[str | None, ...]  # the adapter's scale included

    def of(self, adapter: int) -> tuple[str, str] | None:
        """`adapter`: -1 for none."""
        down, up = (None, None) if adapter < 0 else (self.down[adapter], self.up[adapter])
        return None if down is None or up is None else (down, up)

    def named(self) -> tuple[str, ...]:
        return tuple(name for name in self.down + self.up if name is not None)


@dataclass(frozen=True, slots=True)
class View:
    """Columns `start : start + width` of a value. A plain operand is a view of all its columns."""

    value: int
    start: int
    width: int


@dataclass(frozen=True, slots=True)
class Norm:
    """How a run of columns x is normalised, by its kind:

    rms    x / sqrt(mean(x^2) + eps) * weight
    layer  (x - mean(x)) / sqrt(variance(x) + eps) * weight + bias
    l2     x / max(sqrt(sum(x^2)), eps)

    Without a weight the last factor is 1. `is_wide`: where runs are shorter than the row, weight
    and bias have a column for each of the row's, not for each of a run's.
    """

    weight: str | None
    eps: float
    kind: Literal["rms", "layer", "l2"] = "rms"
    bias: str | None = None
    is_wide: bool = False


@dataclass(frozen=True, slots=True)
class RopeScaling:
    """How long-context variants bend the frequencies; the fields are those of config.json.

    "factors" divides frequency i by factors[i]: GGUF's `rope_freqs.weight`. "dynamic" is another
    theta beyond a length, and is gone from a plan. `rope` computes the others.
    """

    kind: Literal["linear", "yarn", "factors", "dynamic"]
    factor: float
    original_context: int = 0
    beta_fast: float = 32.0  # yarn
    beta_slow: float = 1.0  # yarn
    attention_factor: float = 1.0  # on cos and sin
    truncate: bool = True  # yarn: the ramp starts and ends at whole columns
    factors: tuple[float, ...] = ()  # (width / 2,) of "factors"


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary positions on the first `width` columns of each head.

    `layout`: "halves" turns columns (i, i + width/2) together, "pairs" (2i, 2i + 1). With `growth`
    g the columns at position p also grow by 1 + g log(1 + floor(p / growth_span)).
    """

    theta: float
    width: int
    layout: Literal["halves", "pairs"]
    scaling: RopeScaling | None = None
    growth: float = 0.0
    growth_span: int = 1
