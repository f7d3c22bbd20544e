"""Operations that keep a state from one step of a sequence to the next.

`state` numbers it in `Plan.states`, which has the floats of each. A sequence's first token finds a
state of zeros (of `Wkv4`: nothing weighed yet).
"""

from __future__ import annotations

from pyrite.graph.values import Activation, View
from pyrite.records import dataclass


@dataclass(frozen=True, slots=True)
class ShiftTokens:
    """output = the input's row of the token before; zeros before the first.

    State: (width,), the last row.
    """

    output: int
    input: View
    state: int

    @property
    def state_floats(self) -> int:
        return self.input.width


@dataclass(frozen=True, slots=True)
class ShortConv:
    """Causal convolution of each column with taps of its own, over the tokens of a sequence.

    output[t] = activation(sum over i of weight[:, i] * input[t - (kernel - 1) + i] + bias), with
    zeros before the first token. State: (kernel - 1, width), the last rows.
    """

    output: int
    input: View
    weight: str  # (width, kernel)
    bias: str | None
    kernel: int
    activation: Activation
    state: int

    @property
    def state_floats(self) -> int:
        return (self.kernel - 1) * self.input.width


@dataclass(frozen=True, slots=True)
class Scan:
    """The selective scan of Mamba (head_width 1, `a` by state column) and Mamba 2 (`a` by head).

    dt = softplus(step + step_bias), clipped to step_low .. step_high. By head h, of group
    h // (heads / groups), with its columns x, and B and C of the group:

        S = exp(dt a) S + dt x B^T      (head_width, state_width)
        output = S C + d x

    State: (heads, head_width, state_width). Sources: arXiv 2312.00752 and 2405.21060.
    """

    output: int
    input: View  # x: (tokens, heads * head_width)
    step: View  # (tokens, heads)
    b: View  # (tokens, groups * state_width)
    c: View
    a: str  # (heads, state_width), or (heads, 1): negative
    d: str  # (heads,) or (heads, 1)
    step_bias: str | None  # (heads,)
    heads: int
    head_width: int
    state_width: int
    groups: int
    is_by_state: bool  # `a` has state_width columns
    state: int
    step_low: float = 0.0
    step_high: float = float("inf")

    @property
    def state_floats(self) -> int:
        return self.heads * self.head_width * self.state_width


@dataclass(frozen=True, slots=True)
class Wkv4:
    """RWKV-4's weighted mean of values, by columns, with w = -exp(decay):

        output = (sum of e^(k_i + (t - 1 - i) w) v_i for i < t, + e^(first + k_t) v_t) / (the same
        without v)

    State: (3, width): numerator, denominator, and the exponent that both are relative to. It is
    computed as arXiv 2305.13048 states it, so that no exponential overflows.
    """

    output: int
    key: View
    value: View
    decay: str  # (width,)
    first: str  # (width,)
    state: int

    @property
    def state_floats(self) -> int:
        return 3 * self.key.width


@dataclass(frozen=True, slots=True)
class Wkv7:
    """RWKV-7's state by head, a matrix S (head_width, head_width) of values by keys:

        w = exp(-exp(-0.5) sigmoid(decay))
        S = S diag(w) - (S removal) (removal * rate)^T + value key^T
        output = S receptance

    State: (heads, head_width, head_width). Source: arXiv 2503.14456.
    """

    output: int
    receptance: View
    decay: View
    key: View
    value: View
    removal: View
    rate: View
    head_width: int
    state: int

    @property
    def state_floats(self) -> int:
        return self.key.width * self.head_width


@dataclass(frozen=True, slots=True)
class DeltaRule:
    """The gated delta rule: by head a matrix S (value_width, key_width) of values by keys:

        kept, share = exp(a softplus(step + step_bias)), sigmoid(rate)
        S = kept S
        S = S + share (value - S key) key^T
        output = S query

    Keys are to be of unit length. Head h reads key head h // (heads / key_heads), or, where heads
    are tiled, h % key_heads. State: (heads, value_width, key_width). Source: arXiv 2412.06464.
    """

    output: int
    query: View  # (tokens, key_heads * key_width)
    key: View
    value: View  # (tokens, heads * value_width)
    step: View  # (tokens, heads)
    rate: View
    a: str  # (heads,): negative
    step_bias: str  # (heads,)
    key_heads: int
    is_tiled: bool
    state: int

    @property
    def heads(self) -> int:
        return self.step.width

    @property
    def key_width(self) -> int:
        return self.key.width // self.key_heads

    @property
    def value_width(self) -> int:
        return self.value.width // self.heads

    @property
    def state_floats(self) -> int:
        return self.value.width * self.key_width
