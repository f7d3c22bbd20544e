"""The plan: a graph after its passes, with the place of every value in the activation arena."""

from __future__ import annotations

from pyrite.graph.ops import Attention, Op
from pyrite.graph.values import Value
from pyrite.records import dataclass


@dataclass(frozen=True, slots=True)
class Savings:
    """What the passes saved: operations, and bytes of activations a token, before and after."""

    ops_before: int
    ops_after: int
    activation_bytes_before: int
    activation_bytes_after: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What a backend prepares and runs.

    `columns[v]` is where value v starts in the arena's row, in float32 columns: the arena has
    `arena_columns` float32 for each token of a batch, and values whose lifetimes do not overlap may
    share columns. The result's columns are -1: logits live in a buffer of their own, which the
    backend owns.
    """

    architecture: str
    values: tuple[Value, ...]
    ops: tuple[Op, ...]
    result: int
    columns: tuple[int, ...]
    arena_columns: int
    vocabulary: int
    context_length: int
    num_layers: int  # of the model
    key_heads: tuple[int, ...]  # per layer that has keys and values
    head_widths: tuple[int, ...]  # of keys
    value_widths: tuple[int, ...]  # of values kept beside them; 0 where they are in the keys
    savings: Savings
    states: tuple[int, ...] = ()  # floats of the state of each stateful operation, in order

    @property
    def has_state(self) -> bool:
        """Whether a sequence has more to remember than keys and values."""
        return bool(self.states)

    @property
    def window(self) -> int:
        """Positions that the layer which sees the most of them sees; 0 if one sees all."""
        windows = [op.window for op in self.ops if isinstance(op, Attention)]
        return max(windows) if all(windows) and windows else 0
