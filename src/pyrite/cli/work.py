"""What tokens cost a model: bytes that are read and multiply-adds. Read off the plan.

The least that a step needs: every weight is read once, of experts those that one token chooses, and
the keys, values and states of each sequence once. What a machine's limits make of it is the least
time that the step can take.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyrite.graph.ops import Attention, Experts, HeadLinear, Linear, Op
from pyrite.models.estimate import head_bytes, state_bytes_of

if TYPE_CHECKING:
    from pyrite.cli.limits import Limits
    from pyrite.formats.checkpoint import Checkpoint
    from pyrite.graph.plan import Plan

PLANES = {"default": 2, "fast": 1}


@dataclass(frozen=True, slots=True)
class Step:
    """One step's rows: `tokens` of each of `streams` sequences, after `depth` tokens of each; the
    logits of the last of each are wanted."""

    tokens: int
    streams: int = 1
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Matrices:
    """All matrices of one type that rows of one kind pass through."""

    weight_type: str
    planes: int  # of an activation
    wanted: bool  # only rows whose logits are wanted pass through
    num_bytes: int
    products: int  # of one row


@dataclass(frozen=True, slots=True)
class Layer:
    """The attention of one layer. `window`: positions that a token sees; 0 for all."""

    position_bytes: int  # keys and values of one position
    products: int  # of one token with one position
    window: int
    wanted: bool = False  # for rows whose logits are wanted alone, as `Matrices`


@dataclass(frozen=True, slots=True)
class Cost:
    """`products` by (type of weight, planes); attention multiplies floats."""

    num_bytes: int
    products: Mapping[tuple[str, int], int]

    @property
    def num_products(self) -> int:
        return sum(self.products.values())

    def read_seconds(self, limits: Limits) -> float:
        return self.num_bytes / limits.reads[0].bytes_per_second

    def product_seconds(self, limits: Limits) -> float:
        return sum(
            count / limits.peak(kind, planes).products_per_second
            for (kind, planes), count in self.products.items()
        )


@dataclass(frozen=True, slots=True)
class Work:
    matrices: tuple[Matrices, ...]
    layers: tuple[Layer, ...]
    state_bytes: int = 0  # of a sequence

    @property
    def weight_bytes(self) -> int:
        return sum(one.num_bytes for one in self.matrices)

    def cost(self, steps: Iterable[Step]) -> Cost:
        """Of several steps together."""
        num_bytes = 0
        products: dict[tuple[str, int], int] = {}
        for step in steps:
            num_bytes += self.weight_bytes + step.streams * self._kept_bytes(step)
            for one in self.matrices:
                rows = step.streams * (1 if one.wanted else step.tokens)
                key = one.weight_type, one.planes
                products[key] = products.get(key, 0) + rows * one.products
            floats = step.streams * self._attention_products(step)
            products["F32", 1] = products.get(("F32", 1), 0) + floats
        return Cost(num_bytes, products)

    def _kept_bytes(self, step: Step) -> int:
        """States, and keys and values that the tokens of one stream see, each once."""
        end = step.depth + step.tokens
        return self.state_bytes + sum(
            layer.position_bytes
            * (min(end, layer.window + step.tokens - 1) if layer.window else end)
            for layer in self.layers
        )

    def _attention_products(self, step: Step) -> int:
        return sum(
            layer.products * seen(*_rows_of(layer, step), layer.window) for layer in self.layers
        )


def _rows_of(layer: Layer, step: Step) -> tuple[int, int]:
    """How many tokens lie before those that the layer works on, and how many these are."""
    return (step.depth + step.tokens - 1, 1) if layer.wanted else (step.depth, step.tokens)


def seen(depth: int, tokens: int, window: int) -> int:
    """Positions that tokens after `depth` see, summed over the tokens."""
    growing = max(0, min(tokens, window - depth)) if window else tokens
    return growing * depth + growing * (growing + 1) // 2 + (tokens - growing) * window


def work_of(plan: Plan, checkpoint: Checkpoint, precision: str, kv_type: str) -> Work:
    """Rows whose logits are wanted keep two planes in every precision, as backends.base demands."""
    matrices: dict[tuple[str, int, bool], list[int]] = {}
    for op in plan.ops:
        for name in matrices_of(op):
            wanted = plan.values[op.output].rows == "outputs"
            planes = 2 if wanted else PLANES[precision]
            tensor = checkpoint.tensors[name]
            of, used = (tensor.shape[0], op.routing.num_used) if isinstance(op, Experts) else (1, 1)
            total = matrices.setdefault((tensor.type, planes, wanted), [0, 0])
            total[0] += tensor.num_bytes * used // of
            total[1] += math.prod(tensor.shape) * used // of
    return Work(
        tuple(Matrices(*key, *total) for key, total in matrices.items()),
        tuple(layer_of(op, plan, kv_type) for op in plan.ops if isinstance(op, Attention)),
        state_bytes_of(plan),
    )


def matrices_of(op: Op) -> tuple[str, ...]:
    """Those that rows are multiplied by."""
    if isinstance(op, Linear):
        return op.weights
    if isinstance(op, HeadLinear):
        return (op.weight,)
    if isinstance(op, Experts):
        return tuple(name for name in (op.gate, op.up, op.down) if name is not None)
    return ()


def layer_of(op: Attention, plan: Plan, kv_type: str) -> Layer:
    return Layer(
        position_bytes=op.key_heads * head_bytes(op.head_width, op.kept_value_width, kv_type),
        products=op.heads * (op.head_width + op.value_width),
        window=op.window,
        wanted=plan.values[op.output].rows == "outputs",
    )
