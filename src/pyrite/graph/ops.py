"""The operation records: a model is a list of these, plain data, in the order they run.

Every value is a float32 matrix (rows, width). A row is a token of the batch (`rows = "tokens"`)
or, after `SelectRows`, a token whose logits are wanted (`rows = "outputs"`); any operation that
does not look at positions may work on either. Records say what is computed, never how;
`backends.reference` is their meaning in NumPy. A model builds the plain records; the fields marked
"fused" stay at their defaults until a pass fills them.
"""

from __future__ import annotations

from typing import Literal

from pyrite.records import dataclass

Activation = Literal["silu", "gelu_tanh"]
Rows = Literal["tokens", "outputs"]


@dataclass(frozen=True, slots=True)
class Value:
    """A float32 matrix (rows, width), written by one operation. `id` is its index in the graph."""

    id: int
    width: int
    rows: Rows = "tokens"


@dataclass(frozen=True, slots=True)
class View:
    """Columns `start : start + width` of a value. A plain operand is a view of all its columns."""

    value: int
    start: int
    width: int


@dataclass(frozen=True, slots=True)
class Norm:
    """x / sqrt(mean(x^2) + eps) * (offset + weight): `offset` is 1 where files store weight - 1."""

    weight: str
    eps: float
    offset: float = 0.0


@dataclass(frozen=True, slots=True)
class RopeScaling:
    """How long-context variants bend the frequencies; the fields are those of config.json.

    "factors" divides frequency i by factors[i]: GGUF's `rope_freqs.weight`. `rope` computes them.
    """

    kind: Literal["linear", "llama3", "yarn", "factors"]
    factor: float
    original_context: int = 0
    low_frequency_factor: float = 1.0  # llama3
    high_frequency_factor: float = 4.0  # llama3
    beta_fast: float = 32.0  # yarn
    beta_slow: float = 1.0  # yarn
    attention_factor: float = 1.0  # yarn: on cos and sin
    truncate: bool = True  # yarn: the ramp starts and ends at whole columns
    factors: tuple[float, ...] = ()  # (width / 2,) of "factors"


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary positions on the first `width` columns of each head.

    `layout`: "halves" turns columns (i, i + width/2) together, "pairs" (2i, 2i + 1).
    """

    theta: float
    width: int
    layout: Literal["halves", "pairs"]
    scaling: RopeScaling | None = None


@dataclass(frozen=True, slots=True)
class Embed:
    """output = table[token] * scale."""

    output: int
    weight: str
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class RmsNorm:
    """Each row, or each run of `group` columns when that is not 0, is normalised by itself."""

    output: int
    input: View
    norm: Norm
    group: int = 0  # columns; the norm's weight has this width
    residual: View | None = None  # fused: output = norm(input) + residual


@dataclass(frozen=True, slots=True)
class Linear:
    """output = input @ concat(weights).T + concat(biases).

    Fused: `norm` is applied to the input first; with `activation`, `weights` is (gate, up) and
    output = activation(input @ gate.T + b) * (input @ up.T + b); `residual` is added last;
    `softcap` c > 0 makes the result c * tanh(result / c).
    """

    output: int
    input: View
    weights: tuple[str, ...]
    biases: tuple[str | None, ...]
    norm: Norm | None = None
    activation: Activation | None = None
    residual: View | None = None
    softcap: float = 0.0


@dataclass(frozen=True, slots=True)
class Rotate:
    """Rotary positions applied to every head (`head_width` columns) of the input."""

    output: int
    input: View
    head_width: int
    rope: Rope


@dataclass(frozen=True, slots=True)
class Attention:
    """Causal attention of one layer; writes the keys and values of its tokens to the pages first.

    Head h reads key head h // (heads / key_heads). A token at position p sees positions
    max(0, p - window + 1) .. p, or 0 .. p when `window` is 0. Scores are scaled by `scale`, then
    capped when `softcap` c > 0: c * tanh(score / c).

    Fused: `query_norm` and `key_norm` per head, then `rope`, on query and key before anything else.
    """

    output: int
    query: View  # (tokens, heads * head_width)
    key: View  # (tokens, key_heads * head_width)
    value: View  # (tokens, key_heads * head_width)
    layer: int
    heads: int
    key_heads: int
    head_width: int
    scale: float
    window: int = 0
    softcap: float = 0.0
    query_norm: Norm | None = None
    key_norm: Norm | None = None
    rope: Rope | None = None


@dataclass(frozen=True, slots=True)
class Gate:
    """output = activation(gate) * up."""

    output: int
    gate: View
    up: View
    activation: Activation


@dataclass(frozen=True, slots=True)
class Add:
    output: int
    left: View
    right: View


@dataclass(frozen=True, slots=True)
class Softcap:
    """output = cap * tanh(input / cap)."""

    output: int
    input: View
    cap: float


@dataclass(frozen=True, slots=True)
class SelectRows:
    """Keeps the rows whose logits are wanted (`Batch.output_rows`)."""

    output: int
    input: View


Op = (
    Embed | RmsNorm | Linear | Rotate | Attention | Gate | Add | Softcap | SelectRows
)  # a new operation is a row here, in the reference backend, and in the CPU backend's lowering


@dataclass(frozen=True, slots=True)
class Graph:
    """`values[i].id == i`; `result` is the value that a run gives: logits (outputs, vocabulary)."""

    values: tuple[Value, ...]
    ops: tuple[Op, ...]
    result: int
