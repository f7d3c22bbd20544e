"""Random graphs on the CPU backend: the reference's results, plain and fused."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from random_graphs import ROW_KINDS, STATE_KINDS, VOCABULARY, graphs

from pyrite.backends.cpu import CpuBackend
from pyrite.backends.reference import ReferenceBackend
from pyrite.graph.compile import compile_plan
from pyrite.graph.fuse import PASSES
from steps import Part, make_batch


def logits(backend, plan, weights) -> np.ndarray:
    """Two sequences in two batches, some rows wanted: where the graph selects none, the first."""
    runner = backend.prepare(
        plan,
        weights,
        num_pages=4,
        max_tokens=16,
        num_threads=2,
        precision="default",
        num_slots=2,
    )
    ids = np.random.default_rng(7).integers(0, VOCABULARY, 20)
    first = runner.run(make_batch([Part(ids[:5], [0]), Part(ids[5:9], [2])])).copy()
    parts = [Part(ids[9:14], [0], 5, [1, 4]), Part(ids[14:], [2], 4, [0])]
    return np.concatenate([first, runner.run(make_batch(parts))[:3]])


@settings(
    max_examples=300, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
@given(graphs((*ROW_KINDS, *STATE_KINDS)))
def test_any_graph_is_as_the_reference(drawn):
    """Twelve operations deep, each of which may double a difference, and products of values."""
    graph, tensors = drawn
    told = {"architecture": "random", "context_length": 64, "vocabulary": VOCABULARY}
    for passes in ((), PASSES):
        plan = compile_plan(graph, **told, passes=passes)
        with np.errstate(over="ignore", invalid="ignore"):
            expected = logits(ReferenceBackend(), plan, tensors)
        found = logits(CpuBackend(), plan, tensors)
        scale = max(1.0, np.abs(expected).max())
        np.testing.assert_allclose(found, expected, rtol=0, atol=2e-3 * scale)
