"""From a model's graph to the plan that backends run: passes, placement, and what they saved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from pyrite.graph.fuse import PASSES
from pyrite.graph.memory import place
from pyrite.graph.ops import STATEFUL, Attention, Graph
from pyrite.graph.plan import Plan, Savings

FLOAT_BYTES = 4


def compile_plan(
    graph: Graph,
    *,
    architecture: str,
    context_length: int,
    vocabulary: int,
    num_layers: int | None = None,
    passes: Sequence[Callable[[Graph], Graph]] = PASSES,
) -> Plan:
    """`num_layers`: of the model; by default those with attention.

    `passes` is for tests; a plan of none of them is the model as it was written.
    """
    before = graph
    for step in passes:
        graph = step(graph)
    columns, arena_columns = place(graph)
    layers = attention_layers(graph)
    return Plan(
        architecture=architecture,
        values=graph.values,
        ops=graph.ops,
        result=graph.result,
        columns=columns,
        arena_columns=arena_columns,
        vocabulary=vocabulary,
        context_length=context_length,
        num_layers=len(layers) if num_layers is None else num_layers,
        key_heads=tuple(layer.key_heads for layer in layers),
        head_widths=tuple(layer.head_width for layer in layers),
        value_widths=tuple(layer.kept_value_width for layer in layers),
        states=state_floats(graph),
        savings=Savings(
            ops_before=len(before.ops),
            ops_after=len(graph.ops),
            activation_bytes_before=_separate_bytes(before),
            activation_bytes_after=arena_columns * FLOAT_BYTES,
        ),
    )


def attention_layers(graph: Graph) -> tuple[Attention, ...]:
    """Those that write keys and values, by layer number; any may read them."""
    every = [op for op in graph.ops if isinstance(op, Attention)]
    found = sorted((op for op in every if op.key is not None), key=lambda op: op.layer)
    assert all(left.layer < right.layer for left, right in pairwise(found)), "a layer twice"
    assert not found or found[-1].layer == len(found) - 1, "a layer is missing"
    assert all(0 <= op.layer < len(found) for op in every), "a layer that nobody writes is read"
    return tuple(found)


def state_floats(graph: Graph) -> tuple[int, ...]:
    """By the number of the state; every stateful operation has one of its own."""
    found = {op.state: op.state_floats for op in graph.ops if isinstance(op, STATEFUL)}
    assert sorted(found) == list(range(len(found))), "a state is missing, or there twice"
    return tuple(found[state] for state in range(len(found)))


def _separate_bytes(graph: Graph) -> int:
    """Bytes a token if every value but the result had memory of its own."""
    widths = (value.width for value in graph.values if value.id != graph.result)
    return FLOAT_BYTES * sum(widths)
