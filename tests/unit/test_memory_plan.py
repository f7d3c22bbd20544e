"""Placement in the arena: no operation reads columns that another value has taken."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from random_graphs import graphs

from pyrite.graph.fuse import fuse
from pyrite.graph.memory import ALIGNMENT, OUTSIDE, elementwise, least_columns, place
from pyrite.graph.ops import Graph
from pyrite.graph.rewrite import operands
from pyrite.models.registry import build_plan, open_model

NOBODY = -1


def check_placement(graph: Graph, columns, arena_columns: int) -> None:
    """Plays the plan over an arena that remembers which value each column holds."""
    owner = np.full(max(arena_columns, 1), NOBODY)
    for op in graph.ops:
        for view in operands(op):
            if view.value != graph.result:
                start = columns[view.value] + view.start
                assert (owner[start : start + view.width] == view.value).all(), op
        if op.output == graph.result:
            continue
        start, width = columns[op.output], graph.values[op.output].width
        assert start % ALIGNMENT == 0
        assert 0 <= start <= start + width <= arena_columns
        check_aliases(graph, columns, op, owner[start : start + width])
        owner[start : start + width] = op.output


def check_aliases(graph: Graph, columns, op, taken) -> None:
    """What the op reads and writes over must be the same columns of an element-wise operand."""
    for value in {view.value for view in operands(op)} & set(taken.tolist()):
        readers = [view for view in operands(op) if view.value == value]
        assert len(readers) == 1, f"{op} writes over what it reads twice"
        assert readers[0] in elementwise(op)
        assert readers[0].start == 0
        assert readers[0].width == graph.values[op.output].width == graph.values[value].width
        assert columns[value] == columns[op.output]
        assert graph.values[value].rows == graph.values[op.output].rows


@settings(
    max_examples=300, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
@given(graphs())
def test_values_that_live_together_lie_apart(drawn):
    for graph in (drawn[0], fuse(drawn[0])):
        columns, arena_columns = place(graph)
        check_placement(graph, columns, arena_columns)
        assert least_columns(graph) <= arena_columns
        assert columns[graph.result] == OUTSIDE


@pytest.mark.parametrize("case", ["llama", "gemma3_text", "qwen2_tied_swa"])
def test_models_lie_apart_and_close(golden, case):
    plan = build_plan(open_model(golden / "tiny" / case))
    check_placement(Graph(plan.values, plan.ops, plan.result), plan.columns, plan.arena_columns)
    least = least_columns(Graph(plan.values, plan.ops, plan.result))
    assert least <= plan.arena_columns <= 1.3 * least


def test_a_residual_is_written_in_place(golden):
    plan = build_plan(open_model(golden / "tiny" / "llama"))
    down = [op for op in plan.ops if getattr(op, "residual", None) is not None]
    assert len(down) == 2 * plan.num_layers
    assert all(plan.columns[op.output] == plan.columns[op.residual.value] for op in down)
