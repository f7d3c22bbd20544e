"""The operation records: a model is a list of these, plain data, in the order they run.

Records say what is computed, never how; `backends.reference` is their meaning in NumPy. A model
builds the plain records; the fields marked "fused" stay at their defaults until a pass fills them.
What they are made of is in `values`, those with a state in `recurrence`.
"""

from __future__ import annotations

from typing import Literal

from pyrite.graph.recurrence import DeltaRule, Scan, ShiftTokens, ShortConv, Wkv4, Wkv7
from pyrite.graph.values import Activation, Norm, Pairs, Rope, Value, View
from pyrite.records import dataclass


@dataclass(frozen=True, slots=True)
class Embed:
    """output = table[token] * scale."""

    output: int
    weight: str
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class EmbedPositions:
    """output = table[position]: learned positions."""

    output: int
    weight: str


@dataclass(frozen=True, slots=True)
class Normalize:
    """Each row, or each run of `group` columns when that is not 0, is normalised by itself."""

    output: int
    input: View
    norm: Norm
    group: int = 0  # columns; the norm's weight has this width, unless it is wide
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
class Adapt:
    """What an adapter (LoRA) adds to a projection of rows of the sequences that it is for:

        output = base + (input @ down.T) @ up.T

    by its matrices (rank, columns of the input) and (width, rank), where the adapter is that of the
    row's sequence (`Batch.adapters`). Rows of a sequence without one are those of the base, and so
    are all where an adapter has no tensors for this projection. Source: arXiv 2106.09685.
    """

    output: int
    input: View
    base: View  # (rows, width)
    adapters: Pairs


@dataclass(frozen=True, slots=True)
class AdaptEmbed:
    """What an adapter adds to rows of the embedding table, likewise:

        output = base + scale * down[token] @ up.T

    by matrices (vocabulary, rank) and (width, rank).
    """

    output: int
    base: View  # (tokens, width)
    adapters: Pairs
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class HeadLinear:
    """Each head by a matrix of its own: `weight` is (heads, outputs, inputs).

    A head of the input is `inputs` columns that are multiplied, then `carried` columns that follow
    the product as they are.
    """

    output: int
    input: View  # (rows, heads * (inputs + carried))
    weight: str
    heads: int
    carried: int = 0


@dataclass(frozen=True, slots=True)
class Routing:
    """How a token's experts are chosen from its scores, one an expert, and weighed.

    Shares are the softmax of the scores, or their sigmoid. `num_used` experts with the largest
    shares (plus `bias`, where there is one) are taken, the first of equals. With `groups` > 1
    experts lie in so many groups, and only those of the best `used_groups` are eligible: a group
    counts as its largest, or by `group_score` "top2" as the sum of its two largest.

    An expert's weight is its share (without bias), divided by the sum of the chosen ones' (plus
    `eps`) when `is_normalized`, times `scale`, and times its own `expert_scale`.
    """

    num_used: int
    shares: Literal["softmax", "sigmoid"] = "softmax"
    bias: str | None = None  # (experts,)
    expert_scale: str | None = None  # (experts,)
    is_normalized: bool = True
    eps: float = 0.0
    scale: float = 1.0
    groups: int = 1
    used_groups: int = 1
    group_score: Literal["max", "top2"] = "max"


@dataclass(frozen=True, slots=True)
class Experts:
    """Mixture of experts: the weighted sum of what the chosen experts give for a row.

    Expert e gives down[e] (activation(gate[e] x + b) * (up[e] x + b)) + b, in the order of its
    number; without `gate` it is down[e] activation(up[e] x + b) + b. Each product has added what
    the adapter of the row's sequence adds, as `Adapt` does: by matrices of the expert's own,
    (experts, rank, columns) and (experts, rows, rank).
    """

    output: int
    input: View
    scores: View  # (rows, experts)
    routing: Routing
    gate: str | None  # (experts, feed_forward, width)
    up: str
    down: str  # (experts, width, feed_forward)
    activation: Activation
    gate_bias: str | None = None  # (experts, feed_forward)
    up_bias: str | None = None
    down_bias: str | None = None  # (experts, width)
    gate_adapters: Pairs | None = None
    up_adapters: Pairs | None = None
    down_adapters: Pairs | None = None


@dataclass(frozen=True, slots=True)
class Rotate:
    """Rotary positions applied to every head (`head_width` columns) of the input, from column
    `start` of the head on."""

    output: int
    input: View
    head_width: int
    rope: Rope
    start: int = 0


@dataclass(frozen=True, slots=True)
class Attention:
    """Causal attention of one layer; writes the keys and values of its tokens to the pages first.

    Head h reads key head h // (heads / key_heads). A token at position p sees positions
    max(0, p - window + 1) .. p, or 0 .. p when `window` is 0. Scores are scaled by `scale`, then
    capped when `softcap` c > 0: c * tanh(score / c). A sink is one more score of the head, the
    same for every token, that takes its share of the softmax and adds nothing.

    Without `value` a head's values are the first `value_width` columns of its keys as they are
    kept, normalised and rotated, and are not kept again. Without `key`, too, nothing is written:
    keys and values are those that another operation with the same `layer` wrote before.

    Fused: `query_norm` and `key_norm` per head, then `rope`, on query and key before anything else.
    """

    output: int
    query: View  # (tokens, heads * head_width)
    key: View | None  # (tokens, key_heads * head_width); None: kept by another
    value: View | None  # (tokens, key_heads * value_width); None: in the keys, or kept by another
    layer: int
    heads: int
    key_heads: int
    head_width: int  # of queries and keys
    value_width: int
    scale: float
    window: int = 0
    softcap: float = 0.0
    sinks: str | None = None  # (heads,)
    query_norm: Norm | None = None
    key_norm: Norm | None = None
    rope: Rope | None = None

    @property
    def kept_value_width(self) -> int:
        """Columns that are kept beside a head's keys."""
        return 0 if self.has_values_in_keys else self.value_width

    @property
    def has_values_in_keys(self) -> bool:
        return self.value is None and self.key is not None


@dataclass(frozen=True, slots=True)
class Gate:
    """output = activation(gate) * up.

    clamped_swiglu: with g = min(gate, limit) and u = up clipped to +-limit, g sigmoid(slope g)
    (u + 1); limit and slope are SWIGLU_LIMIT and SWIGLU_SLOPE.
    """

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
class Activate:
    """output = activation(input)."""

    output: int
    input: View
    activation: Activation


@dataclass(frozen=True, slots=True)
class Scale:
    """output = input * factor."""

    output: int
    input: View
    factor: float


@dataclass(frozen=True, slots=True)
class Affine:
    """output = input * weight + bias, by columns; either may be absent."""

    output: int
    input: View
    weight: str | None
    bias: str | None = None


@dataclass(frozen=True, slots=True)
class ScaleRows:
    """output = input * activation(factor), by rows: `factor` is one column."""

    output: int
    input: View
    factor: View  # (rows, 1)
    activation: Activation


@dataclass(frozen=True, slots=True)
class Lerp:
    """output = left + (right - left) * weight, by columns."""

    output: int
    left: View
    right: View
    weight: str


@dataclass(frozen=True, slots=True)
class Blend:
    """output = left + (right - left) * share."""

    output: int
    left: View
    right: View
    share: View


@dataclass(frozen=True, slots=True)
class Concat:
    """output = the columns of left, then those of right."""

    output: int
    left: View
    right: View


@dataclass(frozen=True, slots=True)
class Pick:
    """output[:, i] = input[:, order[i]]: for a matrix whose columns are in another order."""

    output: int
    input: View
    order: str


@dataclass(frozen=True, slots=True)
class HeadDot:
    """By heads: output = sum(left * right * weight) * value, the sum over a head's columns."""

    output: int
    left: View
    right: View
    value: View
    weight: str
    head_width: int


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
    Embed
    | EmbedPositions
    | Normalize
    | Linear
    | Adapt
    | AdaptEmbed
    | HeadLinear
    | Experts
    | Rotate
    | Attention
    | Gate
    | Add
    | Activate
    | Scale
    | Affine
    | ScaleRows
    | Lerp
    | Blend
    | Concat
    | Pick
    | HeadDot
    | ShiftTokens
    | ShortConv
    | Scan
    | Wkv4
    | Wkv7
    | DeltaRule
    | Softcap
    | SelectRows
)  # a new operation is a row here, in the reference backend, and in the CPU backend's lowering

# They keep a state, numbered by `state`.
STATEFUL = (ShiftTokens, ShortConv, Scan, Wkv4, Wkv7, DeltaRule)
REMEMBERING = (Attention, *STATEFUL)  # what they write is read in later steps


@dataclass(frozen=True, slots=True)
class Graph:
    """`values[i].id == i`; `result` is the value that a run gives: logits (outputs, vocabulary)."""

    values: tuple[Value, ...]
    ops: tuple[Op, ...]
    result: int
