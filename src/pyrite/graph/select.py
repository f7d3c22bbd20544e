"""A pass: keeps only the rows whose logits are wanted as early as no token needs the others.

A model selects rows just before its last norm. Everything after the last operation that remembers
works on each row by itself, so the selection moves up to there: a prompt's last feed-forward block
is computed for one row, and not at all for a chunk whose logits nobody wants. Attention to what
another layer keeps remembers nothing: of a model whose last layers share keys and values, a prompt
passes the first ones alone.
"""

from __future__ import annotations

from dataclasses import replace

from pyrite.graph.ops import (
    REMEMBERING,
    AdaptEmbed,
    Attention,
    Embed,
    EmbedPositions,
    Graph,
    Op,
    SelectRows,
)
from pyrite.graph.rewrite import map_operands, operands
from pyrite.graph.values import Value, View


def needs_tokens(op: Op) -> bool:
    """It works on tokens, never on outputs."""
    if isinstance(op, Attention):
        return op.key is not None
    return isinstance(op, (Embed, AdaptEmbed, EmbedPositions, *REMEMBERING))


def select_early(graph: Graph) -> Graph:
    if not any(isinstance(op, SelectRows) for op in graph.ops):
        return graph
    return _Selector(graph, _full(graph)).run()


def _full(graph: Graph) -> set[int]:
    """Values that are needed for every token."""
    full = {graph.result} if graph.values[graph.result].rows == "tokens" else set()
    for op in reversed(graph.ops):
        if needs_tokens(op):
            full.add(op.output)
        if isinstance(op, SelectRows) and op.output == graph.result:
            full.add(op.input.value)
        if op.output in full:
            full |= {view.value for view in operands(op)}
    return full


class _Selector:
    """Rewrites ops in order. `selected` maps a view of tokens to the value of its wanted rows;
    `aliases` maps the value of a selection of the model's to where those rows are now."""

    def __init__(self, graph: Graph, full: set[int]) -> None:
        self.graph = graph
        self.full = full
        self.values = list(graph.values)
        self.ops: list[Op] = []
        self.selected: dict[View, View] = {}
        self.aliases: dict[int, View] = {}

    def run(self) -> Graph:
        for op in self.graph.ops:
            if isinstance(op, SelectRows):
                self._alias(op)
            elif op.output in self.full:
                self.ops.append(op)
            else:
                self._narrow(op)
        return replace(self.graph, values=tuple(self.values), ops=tuple(self.ops))

    def _alias(self, op: SelectRows) -> None:
        if op.output == self.graph.result:
            self.ops.append(op)
        else:
            self.aliases[op.output] = self._rows(op.input)

    def _narrow(self, op: Op) -> None:
        narrowed = map_operands(op, self._rows)
        self.values[op.output] = replace(self.values[op.output], rows="outputs")
        self.ops.append(narrowed)

    def _rows(self, view: View) -> View:
        if view.value in self.aliases:
            home = self.aliases[view.value]
            return View(home.value, home.start + view.start, view.width)
        if view.value not in self.full:
            return view
        if view not in self.selected:
            output = Value(len(self.values), view.width, "outputs")
            self.values.append(output)
            self.ops.append(SelectRows(output.id, view))
            self.selected[view] = View(output.id, 0, view.width)
        return self.selected[view]
