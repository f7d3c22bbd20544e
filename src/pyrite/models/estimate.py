"""How many bytes a model takes once it runs, known before any of its weights are read.

Where memory comes from and how much is left is the caller's knowledge (`pyrite.memory`).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from pyrite._native import kernels
from pyrite.errors import CapacityError
from pyrite.formats.checkpoint import Tensor
from pyrite.graph.plan import Plan
from pyrite.quant.formats import FORMATS
from pyrite.records import dataclass

KEY_GROUP = 32  # columns of 8-bit keys under one scale of 4 bytes; a value beside has one scale
HALF_BYTES = 2
FLOAT_BYTES = 4
PANEL_ROWS = 16  # of a matrix are packed together
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Bytes. Weights count once: packed or as the file has them, one copy is in use."""

    weights: int
    keys_and_values: int
    activations: int  # the arena and the logits of one batch
    states: int = 0

    @property
    def total(self) -> int:
        return self.weights + self.keys_and_values + self.activations + self.states


def kv_bytes_per_token(plan: Plan, kv_type: str = "f16") -> int:
    """Keys and values of one token in all layers."""
    layers = zip(plan.key_heads, plan.head_widths, plan.value_widths, strict=True)
    return sum(heads * head_bytes(key, value, kv_type) for heads, key, value in layers)


def state_bytes_of(plan: Plan) -> int:
    """One slot: the states of a sequence."""
    return FLOAT_BYTES * sum(plan.states)


def head_bytes(key_width: int, value_width: int, kv_type: str) -> int:
    """Key and value of one head of one token; `value_width` is 0 where it is in the key."""
    if kv_type == "f16":
        return (key_width + value_width) * HALF_BYTES
    scales = -(-key_width // KEY_GROUP) + (value_width > 0)
    return key_width + value_width + FLOAT_BYTES * scales


def weight_bytes(tensor: Tensor) -> int:
    """A quantised matrix as it is packed: points of grids become digits, of more bits."""
    if len(tensor.shape) < 2 or FORMATS[tensor.type].block_columns == 1:
        return tensor.num_bytes
    rows = prod(tensor.shape[:-1])
    return -(-rows // PANEL_ROWS) * kernels.packed_panel_bytes(tensor.type, tensor.shape[-1])


def estimate_memory(
    plan: Plan,
    weights: Mapping[str, Tensor],
    *,
    kv_tokens: int,
    max_tokens: int,
    max_outputs: int = 1,
    kv_type: str = "f16",
    num_slots: int = 0,
) -> MemoryEstimate:
    """`kv_tokens`: tokens whose keys and values are kept, `num_slots`: states; the other two are of
    one batch."""
    arena = max_tokens * plan.arena_columns * FLOAT_BYTES
    return MemoryEstimate(
        weights=sum(weight_bytes(tensor) for tensor in weights.values()),
        keys_and_values=kv_tokens * kv_bytes_per_token(plan, kv_type),
        activations=arena + max_outputs * plan.vocabulary * FLOAT_BYTES,
        states=num_slots * state_bytes_of(plan),
    )


def require_memory(estimate: MemoryEstimate, available: int | None) -> None:
    """CapacityError when `available` bytes are too few; None (nobody knows) refuses nothing."""
    if available is None or estimate.total <= available:
        return
    parts = (
        f"{_mib(estimate.weights)} for weights, {_mib(estimate.keys_and_values)} for keys and"
        f" values, {_mib(estimate.activations)} for activations"
    ) + (f", {_mib(estimate.states)} for states" if estimate.states else "")
    raise CapacityError(
        f"the model needs {_mib(estimate.total)} ({parts}); {_mib(available)} are available",
        hint="load it with a smaller context, take a file with fewer bits a weight, or free memory",
    )


def _mib(count: int) -> str:
    return f"{-(-count // MIB)} MiB"
