"""Passes change no result, and join what they promise to join."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from random_graphs import VOCABULARY, graphs

from pyrite.backends.reference import ReferenceBackend
from pyrite.graph.build import GraphBuilder
from pyrite.graph.compile import compile_plan
from pyrite.graph.eliminate import eliminate
from pyrite.graph.fuse import PASSES, fuse
from pyrite.graph.ops import Linear
from pyrite.graph.rewrite import weights
from pyrite.graph.values import Norm, View
from pyrite.models.registry import build_graph, build_plan, open_model, read_config
from steps import Part, make_batch

# Each case with its operations by layer after the passes; embedding, two selections and the head
# come once.
CASES = {
    "llama": {"Linear": 4, "Attention": 1},
    "llama_tied": {"Linear": 4, "Attention": 1},
    "qwen2": {"Linear": 4, "Attention": 1},
    "gemma": {"Linear": 4, "Attention": 1},
    "gemma2": {"Linear": 4, "Attention": 1, "Normalize": 2},
    "gemma3_text": {"Linear": 4, "Attention": 1, "Normalize": 2},
}
# Summation orders of a BLAS depend on the number of rows; logits are near 1.
ROUNDING = 2e-5


def logits(checkpoint_tensors, plan) -> np.ndarray:
    """Two sequences in two batches, some rows wanted."""
    runner = ReferenceBackend().prepare(
        plan, checkpoint_tensors, num_pages=4, max_tokens=16, num_slots=2
    )
    ids = np.random.default_rng(7).integers(0, VOCABULARY, 20)
    runner.run(make_batch([Part(ids[:5], [0]), Part(ids[5:9], [2])]))
    parts = [Part(ids[9:14], [0], 5, [1, 4]), Part(ids[14:], [2], 4, [0])]
    return runner.run(make_batch(parts))


def model(golden: Path, case: str):
    checkpoint = open_model(golden / "tiny" / case)
    return checkpoint, build_plan(checkpoint, passes=())


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("step", PASSES, ids=lambda step: step.__name__)
def test_one_pass_changes_no_result(golden: Path, case: str, step):
    checkpoint, plain = model(golden, case)
    passed = build_plan(checkpoint, passes=(step, eliminate))
    before, after = (logits(checkpoint.tensors, plan) for plan in (plain, passed))
    np.testing.assert_allclose(after, before, rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("count", range(1, len(PASSES) + 1))
def test_passes_in_order_change_no_result(golden: Path, case: str, count: int):
    checkpoint, plain = model(golden, case)
    passed = build_plan(checkpoint, passes=(*PASSES[:count], eliminate))
    before, after = (logits(checkpoint.tensors, plan) for plan in (plain, passed))
    np.testing.assert_allclose(after, before, rtol=0, atol=ROUNDING)


@settings(
    max_examples=500, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
@given(graphs())
def test_any_graph_keeps_its_result(drawn):
    """Also where values have several readers, are read in part, or by nobody."""
    graph, tensors = drawn
    told = {"architecture": "random", "context_length": 64, "vocabulary": VOCABULARY}
    before = logits(tensors, compile_plan(graph, **told, passes=()))
    scale = max(1.0, np.abs(before).max())
    for passes in (PASSES, PASSES + PASSES, (*PASSES[::-1], eliminate)):
        after = logits(tensors, compile_plan(graph, **told, passes=passes))
        np.testing.assert_allclose(after, before, rtol=0, atol=5e-5 * scale)


@pytest.mark.parametrize(("case", "by_layer"), CASES.items())
def test_what_is_left_after_the_passes(golden: Path, case: str, by_layer):
    checkpoint, _ = model(golden, case)
    plan = build_plan(checkpoint)
    found = Counter(type(op).__name__ for op in plan.ops)
    expected = Counter({kind: count * plan.num_layers for kind, count in by_layer.items()})
    assert found == expected + Counter(Embed=1, SelectRows=2, Linear=1)
    assert plan.savings.ops_after == len(plan.ops) < plan.savings.ops_before
    assert plan.savings.activation_bytes_after == 4 * plan.arena_columns


@pytest.mark.parametrize("case", CASES)
def test_no_pass_loses_a_weight(golden: Path, case: str):
    checkpoint, plain = model(golden, case)
    read = [
        Counter(name for op in plan.ops for name in weights(op))
        for plan in (plain, build_plan(checkpoint))
    ]
    assert read[0] == read[1]
    assert set(read[0]) == set(checkpoint.tensors) - {"rope_freqs.weight"}


def test_the_last_layer_computes_wanted_rows_only(golden: Path):
    checkpoint, _ = model(golden, "llama")
    plan = build_plan(checkpoint)
    last = next(i for i, op in enumerate(plan.ops) if getattr(op, "layer", None) == 2)
    assert {plan.values[op.output].rows for op in plan.ops[: last + 1]} == {"tokens"}
    assert {plan.values[op.output].rows for op in plan.ops[last + 1 :]} == {"outputs"}


def test_an_operation_that_nobody_reads_goes_and_its_reads_with_it():
    builder = GraphBuilder()
    x = builder.embed("table", 4, 8)
    unused = builder.norm(x, Norm("unused", 1e-5))
    builder.linear(unused, "unused_too", 8)
    graph = eliminate(builder.finish(builder.linear(x, "head", 4)))
    assert [type(op).__name__ for op in graph.ops] == ["Embed", "Linear"]
    assert [value.id for value in graph.values] == [0, 1]
    assert graph.result == 1


def test_attention_stays_for_the_keys_that_it_writes():
    builder = GraphBuilder()
    x = builder.embed("table", 4, 8)
    builder.attention(x, x, x, head_width=4, scale=1.0)
    graph = eliminate(builder.finish(builder.linear(x, "head", 4)))
    assert [type(op).__name__ for op in graph.ops] == ["Embed", "Attention", "Linear"]


def test_a_norm_with_another_reader_stays():
    builder = GraphBuilder()
    x = builder.embed("table", 4, 8)
    normed = builder.norm(x, Norm("norm", 1e-5))
    graph = fuse(builder.finish(builder.add(builder.linear(normed, "w", 8), normed)))
    assert [type(op).__name__ for op in graph.ops] == ["Embed", "Normalize", "Linear"]
    assert graph.ops[-1] == Linear(2, View(1, 0, 8), ("w",), (None,), residual=View(1, 0, 8))


def test_a_capped_projection_takes_no_residual():
    """The cap would take in what was added; the second round is the one that meets it."""
    builder = GraphBuilder()
    x = builder.embed("table", 4, 8)
    capped = builder.softcap(builder.linear(x, "w", 8), 2.0)
    graph = fuse(fuse(builder.finish(builder.add(capped, x))))
    assert [type(op).__name__ for op in graph.ops] == ["Embed", "Linear", "Add"]


def test_a_norm_with_a_residual_joins_no_attention():
    builder = GraphBuilder()
    x = builder.embed("table", 4, 8)
    query = builder.add(builder.norm(x, Norm("norm", 1e-5), group=4), x)
    mixed = builder.attention(query, x, x, head_width=4, scale=1.0)
    graph = fuse(fuse(builder.finish(builder.linear(mixed, "head", 4))))
    assert [type(op).__name__ for op in graph.ops] == ["Embed", "Normalize", "Attention", "Linear"]


def test_a_config_without_passes_is_the_model_as_written(golden: Path):
    checkpoint, plain = model(golden, "gemma3_text")
    assert plain.ops == build_graph(read_config(checkpoint), GraphBuilder()).ops
    assert plain.savings.ops_before == plain.savings.ops_after
