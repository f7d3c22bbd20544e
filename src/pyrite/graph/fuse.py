"""Passes that join operations: each one a pure function Graph -> Graph that changes no result.

`PASSES` is the order that `compile` runs them in. A joined operation stands where the last of its
parts stood, so its operands are always written before it. Passes leave dead values behind;
`eliminate` drops them. Nothing here knows a model or a backend.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import TypeGuard

from pyrite.graph.eliminate import eliminate
from pyrite.graph.ops import Add, Attention, Gate, Graph, Linear, Normalize, Op, Rotate, Softcap
from pyrite.graph.rewrite import Uses, rewritten
from pyrite.graph.select import select_early
from pyrite.graph.values import Value, View

Changes = dict[int, Op | None]


def is_plain(op: Op) -> TypeGuard[Linear]:
    """A projection to which no pass has joined anything."""
    return (
        isinstance(op, Linear)
        and op.norm is None
        and op.activation is None
        and op.residual is None
        and op.softcap == 0
    )


def join_gate(graph: Graph) -> Graph:
    """Gate(a @ g.T, a @ u.T) -> one Linear with an activation."""
    uses, changes = Uses(graph), Changes()
    for index, op in enumerate(graph.ops):
        if not isinstance(op, Gate):
            continue
        parts = (uses.sole(op.gate), uses.sole(op.up))
        if parts[0] is None or parts[1] is None:
            continue
        gate, up = graph.ops[parts[0]], graph.ops[parts[1]]
        if is_plain(gate) and is_plain(up) and gate.input == up.input:
            both = (gate.weights + up.weights, gate.biases + up.biases)
            changes[index] = Linear(op.output, gate.input, *both, activation=op.activation)
            changes[parts[0]] = changes[parts[1]] = None
    return rewritten(graph, changes)


def merge_projections(graph: Graph) -> Graph:
    """Projections of one input -> one Linear with several weights; readers view its columns."""
    groups: dict[View, list[int]] = defaultdict(list)
    for index, op in enumerate(graph.ops):
        if is_plain(op) and op.output != graph.result:
            groups[op.input].append(index)
    changes, views, new = Changes(), dict[int, View](), list[Value]()
    for indices in groups.values():
        parts = [op for op in (graph.ops[i] for i in indices) if is_plain(op)]
        if len(parts) > 1:
            merged, columns = _concatenated(graph, parts, len(graph.values) + len(new))
            new.append(merged[0])
            views |= columns
            changes |= dict.fromkeys(indices[1:])
            changes[indices[0]] = merged[1]
    return rewritten(graph, changes, views=views, new_values=tuple(new))


def _concatenated(
    graph: Graph, parts: list[Linear], value_id: int
) -> tuple[tuple[Value, Linear], dict[int, View]]:
    views, width = dict[int, View](), 0
    for part in parts:
        views[part.output] = View(value_id, width, graph.values[part.output].width)
        width += views[part.output].width
    names = tuple(name for part in parts for name in part.weights)
    biases = tuple(name for part in parts for name in part.biases)
    value = Value(value_id, width, graph.values[parts[0].output].rows)
    return (value, Linear(value_id, parts[0].input, names, biases)), views


def join_norm(graph: Graph) -> Graph:
    """Linear(Normalize(x)) -> Linear with a norm, where nothing else reads the normalised rows."""
    uses, changes = Uses(graph), Changes()
    for index, op in enumerate(graph.ops):
        if not isinstance(op, Linear) or op.norm is not None:
            continue
        before = uses.sole(op.input)
        norm = None if before is None else graph.ops[before]
        if before is None or not isinstance(norm, Normalize) or norm.group or norm.residual:
            continue
        changes[index] = replace(op, input=norm.input, norm=norm.norm)
        changes[before] = None
    return rewritten(graph, changes)


def join_rope(graph: Graph) -> Graph:
    """Attention(Rotate(q), Rotate(k), v) -> Attention with rope, where both turn alike; the same
    of a query alone, where keys are kept by another."""
    uses, changes = Uses(graph), Changes()
    for index, op in enumerate(graph.ops):
        if not isinstance(op, Attention) or op.rope or op.query_norm or op.key_norm:
            continue
        sides = [op.query] if op.key is None else [op.query, op.key]
        parts = [uses.sole(side) for side in sides]
        before = [graph.ops[part] for part in parts if part is not None]
        turns = [turn for turn in before if isinstance(turn, Rotate)]
        if len(turns) < len(sides):
            continue
        alike = {(turn.rope, turn.head_width, turn.start) for turn in turns}
        if alike == {(turns[0].rope, op.head_width, 0)}:
            key = None if op.key is None else turns[1].input
            changes[index] = replace(op, query=turns[0].input, key=key, rope=turns[0].rope)
            changes.update({part: None for part in parts if part is not None})
    return rewritten(graph, changes)


def join_head_norms(graph: Graph) -> Graph:
    """Attention of queries and keys normalised by head -> Attention with query and key norms."""
    uses, changes = Uses(graph), Changes()
    for index, op in enumerate(graph.ops):
        if not isinstance(op, Attention):
            continue
        joined = op
        query, before_query = _head_norm(uses, op, op.query)
        if query is not None and op.query_norm is None:
            joined = replace(joined, query=query.input, query_norm=query.norm)
            changes[before_query] = None
        key, before_key = (None, -1) if op.key is None else _head_norm(uses, op, op.key)
        if key is not None and op.key_norm is None:
            joined = replace(joined, key=key.input, key_norm=key.norm)
            changes[before_key] = None
        changes[index] = joined
    return rewritten(graph, changes)


def _head_norm(uses: Uses, op: Attention, side: View) -> tuple[Normalize | None, int]:
    """The norm by head that only `op` reads, and its index."""
    before = uses.sole(side)
    norm = None if before is None else uses.graph.ops[before]
    if before is None or not isinstance(norm, Normalize) or norm.residual is not None:
        return None, -1
    return (norm, before) if _is_by_head(norm, op.head_width) else (None, -1)


def _is_by_head(op: Normalize, head_width: int) -> bool:
    """Whether each head is normalised by its root mean square, all with one weight."""
    norm = op.norm
    is_rms = norm.kind == "rms" and norm.weight is not None and norm.bias is None
    return is_rms and op.group == head_width and not norm.is_wide


def join_residual(graph: Graph) -> Graph:
    """x + Linear(y), x + Normalize(y) -> the same with a residual."""
    uses, changes = Uses(graph), Changes()
    for index, op in enumerate(graph.ops):
        if not isinstance(op, Add):
            continue
        for part, other in ((op.right, op.left), (op.left, op.right)):
            before = uses.sole(part)
            source = None if before is None else graph.ops[before]
            if before is None or not _takes_residual(source):
                continue
            changes[index] = replace(source, output=op.output, residual=other)
            changes[before] = None
            break
    return rewritten(graph, changes)


def _takes_residual(op: Op | None) -> TypeGuard[Linear | Normalize]:
    if isinstance(op, Linear):
        return op.residual is None and op.softcap == 0
    return isinstance(op, Normalize) and op.residual is None


def join_softcap(graph: Graph) -> Graph:
    """Softcap(Linear(x)) -> Linear with a softcap."""
    uses, changes = Uses(graph), Changes()
    for index, op in enumerate(graph.ops):
        before = uses.sole(op.input) if isinstance(op, Softcap) else None
        source = None if before is None else graph.ops[before]
        if before is None or not isinstance(source, Linear) or source.softcap:
            continue
        if isinstance(op, Softcap):
            changes[index] = replace(source, output=op.output, softcap=op.cap)
            changes[before] = None
    return rewritten(graph, changes)


PASSES: tuple[Callable[[Graph], Graph], ...] = (
    select_early,
    join_gate,
    merge_projections,
    join_norm,
    join_rope,
    join_head_norms,
    join_residual,
    join_softcap,
    eliminate,
)


def fuse(graph: Graph) -> Graph:
    for step in PASSES:
        graph = step(graph)
    return graph
