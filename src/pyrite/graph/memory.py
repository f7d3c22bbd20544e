"""Places every value in the arena by its lifetime: values that never live together share columns.

A row of the arena belongs to one token (or one output). A value lives from the op that writes it to
the last op that reads it, both included, so an op never writes over what it reads, with one
exception, the aliasing rule:

    An op may write to exactly the columns of an operand that dies there, when the op reads that
    operand element by element: element (row, column) once, to compute the output's element
    (row, column) and no other. `elementwise` lists these operands. The op must not read the value
    through any other operand.

A backend therefore reads such an operand in the same place and at the same time as it writes the
result, and never keeps partial sums in the output's columns. The result is outside of the arena.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from pyrite.graph.ops import (
    Activate,
    Adapt,
    AdaptEmbed,
    Add,
    Affine,
    Blend,
    Gate,
    Graph,
    Lerp,
    Linear,
    Normalize,
    Op,
    Scale,
    ScaleRows,
    Softcap,
)
from pyrite.graph.rewrite import operands
from pyrite.graph.values import View

ALIGNMENT = 16  # columns: a cache line of float32
OUTSIDE = -1  # the column of the result


@dataclass(slots=True)
class Slot:
    """Columns of one value, or of a chain of values written in place."""

    width: int
    first: int  # index of the op that writes it first
    last: int  # index of the op that reads it last
    column: int = OUTSIDE


def place(graph: Graph) -> tuple[tuple[int, ...], int]:
    """The column of each value (-1 for the result) and the width of the arena, in float32."""
    slots = _slots(graph)
    by_age = _distinct(slots)
    by_width = sorted(by_age, key=lambda slot: -slot.width)  # leaves the better gaps, most times
    width, other = _place(by_age), _place(by_width)
    if width <= other:
        _place(by_age)
    columns = tuple(
        OUTSIDE if value.id == graph.result else slots[value.id].column for value in graph.values
    )
    return columns, min(width, other)


def least_columns(graph: Graph) -> int:
    """The most that live at one time: no placement is narrower."""
    changes = [0] * (len(graph.ops) + 1)
    for slot in _distinct(_slots(graph)):
        changes[slot.first] += _aligned(slot.width)
        changes[slot.last + 1] -= _aligned(slot.width)
    return max(accumulate(changes))


def last_uses(graph: Graph) -> dict[int, int]:
    """Index of the last op that reads (or, when nothing does, writes) each value."""
    last = {op.output: index for index, op in enumerate(graph.ops)}
    for index, op in enumerate(graph.ops):
        last |= {view.value: index for view in operands(op)}
    return last


def elementwise(op: Op) -> tuple[View, ...]:
    """Operands that the op reads element by element (see the aliasing rule)."""
    if isinstance(op, Add | Lerp):
        return (op.left, op.right)
    if isinstance(op, Gate):
        return (op.gate, op.up)
    if isinstance(op, Blend):
        return (op.left, op.right, op.share)
    if isinstance(op, Adapt | AdaptEmbed):
        return (op.base,)
    if isinstance(op, Activate | Affine | Scale | ScaleRows | Softcap):
        return (op.input,)
    if isinstance(op, Normalize | Linear) and op.residual is not None:
        return (op.residual,)
    return ()


def reused(graph: Graph, index: int, last: dict[int, int]) -> int | None:
    """The value whose columns op `index` may write to, by the aliasing rule."""
    op = graph.ops[index]
    for view in elementwise(op):
        same = graph.values[view.value].width == graph.values[op.output].width
        once = sum(other.value == view.value for other in operands(op)) == 1
        if same and once and view.value != graph.result and last[view.value] == index:
            return view.value
    return None


def _slots(graph: Graph) -> dict[int, Slot]:
    last = last_uses(graph)
    slots: dict[int, Slot] = {}
    for index, op in enumerate(graph.ops):
        if op.output == graph.result:
            continue
        home = reused(graph, index, last)
        if home is None:
            slots[op.output] = Slot(graph.values[op.output].width, index, last[op.output])
        else:
            slots[op.output] = slots[home]
            slots[home].last = last[op.output]
    return slots


def _distinct(slots: dict[int, Slot]) -> list[Slot]:
    """Each once, in the order of their first ops."""
    return list({id(slot): slot for slot in slots.values()}.values())


def _place(slots: list[Slot]) -> int:
    """Gives each slot its column, in this order; how many columns they need together."""
    placed: list[Slot] = []
    for slot in slots:
        slot.column = _first_fit(slot, placed)
        placed.append(slot)
    return max((slot.column + _aligned(slot.width) for slot in placed), default=0)


def _first_fit(slot: Slot, placed: list[Slot]) -> int:
    """The lowest column where no slot that lives at the same time is in the way."""
    alive = [p for p in placed if p.first <= slot.last and slot.first <= p.last]
    column = 0
    for other in sorted(alive, key=lambda item: item.column):
        if column + slot.width <= other.column:
            break
        column = max(column, other.column + _aligned(other.width))
    return column


def _aligned(width: int) -> int:
    return -(-width // ALIGNMENT) * ALIGNMENT
