"""What one token costs a model: bytes of weights read, and multiply-adds. Read off the plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyrite.graph.ops import Linear

if TYPE_CHECKING:
    from pyrite.formats.checkpoint import Checkpoint
    from pyrite.graph.plan import Plan


@dataclass(frozen=True, slots=True)
class Work:
    """`body` is every matrix but the head, which only rows with wanted logits pass through."""

    body_bytes: int
    body_products: int
    head_bytes: int
    head_products: int

    @property
    def decode_bytes(self) -> int:
        return self.body_bytes + self.head_bytes


def work_of(plan: Plan, checkpoint: Checkpoint) -> Work:
    """Attention is left out: it depends on the length of the context."""
    body = [0, 0]
    head = [0, 0]
    for op in plan.ops:
        if isinstance(op, Linear):
            part = head if op.output == plan.result else body
            for name in op.weights:
                tensor = checkpoint.tensors[name]
                part[0] += tensor.data.nbytes
                part[1] += tensor.shape[0] * tensor.shape[1]
    return Work(*body, *head)
