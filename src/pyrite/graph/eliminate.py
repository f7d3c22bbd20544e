"""Drops operations whose results nobody reads, and renumbers values in the order they are written.

Operations that remember are never dropped: later steps read what they write.
"""

from __future__ import annotations

from dataclasses import replace

from pyrite.graph.ops import REMEMBERING, Graph, Op
from pyrite.graph.rewrite import map_operands, operands
from pyrite.graph.values import View


def eliminate(graph: Graph) -> Graph:
    return renumbered(graph, _live(graph))


def _live(graph: Graph) -> tuple[Op, ...]:
    wanted, kept = {graph.result}, list[Op]()
    for op in reversed(graph.ops):
        if op.output in wanted or isinstance(op, REMEMBERING):
            wanted |= {view.value for view in operands(op)}
            kept.append(op)
    return tuple(reversed(kept))


def renumbered(graph: Graph, ops: tuple[Op, ...]) -> Graph:
    """A graph of `ops` alone, whose values are those that they write, in that order."""
    ids = {op.output: index for index, op in enumerate(ops)}

    def moved(view: View) -> View:
        new = ids[view.value]
        return view if new == view.value else View(new, view.start, view.width)

    values = tuple(replace(graph.values[old], id=new) for old, new in ids.items())
    placed = tuple(map_operands(replace(op, output=ids[op.output]), moved) for op in ops)
    return Graph(values, placed, ids[graph.result])
