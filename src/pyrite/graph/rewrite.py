"""What passes share: who writes a value, who reads it, and replacing operations and operands.

Knows records only by their fields: an operand is any field of type View.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import get_args

from pyrite.graph.ops import Graph, Op, Routing
from pyrite.graph.values import Norm, Pairs, Value, View

# Names of the fields that hold a View, or a View or nothing.
OPERAND_FIELDS: Mapping[type, tuple[str, ...]] = {
    kind: tuple(field.name for field in fields(kind) if str(field.type).startswith("View"))
    for kind in get_args(Op)
}

# Names of the fields that may name a tensor, or several, or hold a record that does.
WEIGHT_FIELDS: Mapping[type, tuple[str, ...]] = {
    kind: tuple(
        field.name
        for field in fields(kind)
        if field.name in ("weights", "biases", "norm", "query_norm", "key_norm", "routing")
        or str(field.type) in ("str", "str | None", "Pairs", "Pairs | None")
    )
    for kind in get_args(Op)
}


def operands(op: Op) -> tuple[View, ...]:
    found = (getattr(op, name) for name in OPERAND_FIELDS[type(op)])
    return tuple(view for view in found if view is not None)


def map_operands(op: Op, change: Callable[[View], View]) -> Op:
    """The same op where `change` gives every view back, else a copy with the new ones."""
    found = {name: getattr(op, name) for name in OPERAND_FIELDS[type(op)]}
    moved = {name: change(view) for name, view in found.items() if view is not None}
    differ = {name: view for name, view in moved.items() if view is not found[name]}
    return replace(op, **differ) if differ else op  # type: ignore[arg-type]


def weights(op: Op) -> tuple[str, ...]:
    """Names of every tensor that the operation reads, in the order of its fields."""
    found = (getattr(op, name) for name in WEIGHT_FIELDS[type(op)])
    return tuple(name for item in found for name in _names(item) if name is not None)


def _names(item: object) -> tuple[str | None, ...]:
    if isinstance(item, Norm):
        return item.weight, item.bias
    if isinstance(item, Routing):
        return item.bias, item.expert_scale
    if isinstance(item, Pairs):
        return item.named()
    if isinstance(item, tuple):
        return item
    assert item is None or isinstance(item, str), item
    return (item,)


def is_whole(graph: Graph, view: View) -> bool:
    return view.start == 0 and view.width == graph.values[view.value].width


class Uses:
    """Who writes each value of a graph, and how many operands (and the result) read it."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.writer = {op.output: index for index, op in enumerate(graph.ops)}
        self.num_readers = Counter(view.value for op in graph.ops for view in operands(op))
        self.num_readers[graph.result] += 1

    def sole(self, view: View) -> int | None:
        """The op that writes the value, when `view` is all of it and nothing else reads it."""
        alone = self.num_readers[view.value] == 1 and is_whole(self.graph, view)
        return self.writer[view.value] if alone else None


def rewritten(
    graph: Graph,
    changes: Mapping[int, Op | None],
    *,
    views: Mapping[int, View] | None = None,
    new_values: tuple[Value, ...] = (),
) -> Graph:
    """`graph` with ops replaced by index (None removes one), and old values seen as `views`."""
    moved = views or {}

    def resolve(view: View) -> View:
        home = moved.get(view.value)
        return view if home is None else View(home.value, home.start + view.start, view.width)

    chosen = (changes.get(index, op) for index, op in enumerate(graph.ops))
    ops = tuple(map_operands(op, resolve) for op in chosen if op is not None)
    return replace(graph, values=graph.values + new_values, ops=ops)
