"""A model's numbers, layer by layer: the CPU backend beside the reference, on a few tokens.

The residual stream is compared where some layers end. Which layer goes wrong first is where to
look; how a layer is computed is unknown here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pyrite.backends.base import PAGE_TOKENS, Backend, Batch
from pyrite.backends.cpu import CpuBackend
from pyrite.backends.reference import ReferenceBackend
from pyrite.config import Settings
from pyrite.cores import choose_threads
from pyrite.formats.checkpoint import Checkpoint
from pyrite.graph.build import GraphBuilder
from pyrite.graph.compile import compile_plan
from pyrite.graph.ops import Graph, SelectRows
from pyrite.graph.plan import Plan
from pyrite.graph.rewrite import weights
from pyrite.kv.pages import pages_for
from pyrite.models.orders import orders_of
from pyrite.models.registry import build_graph, build_plan, read_config
from pyrite.records import dataclass

PROBED = 6  # layers, evenly spread, the last one among them
LAYER = re.compile(r"blk\.(\d+)\.")

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class LayerError:
    """How far the stream after a layer is off: root mean squares, difference by whole."""

    layer: int
    error: float


def layer_errors(
    checkpoint: Checkpoint, ids: Sequence[int], settings: Settings
) -> list[LayerError]:
    """Raises CapacityError, BackendError."""
    context = len(ids)
    cpu = CpuBackend(settings.cache, checkpoint.files)
    full = build_plan(checkpoint, context_length=context)
    threads = choose_threads(settings.threads).count
    _run(cpu, full, checkpoint, ids, threads)  # all weights are packed, or mapped, at once
    found = []
    for layer, plan in layer_plans(checkpoint, context):
        expected = _run(ReferenceBackend(), plan, checkpoint, ids, threads)
        difference = _run(cpu, plan, checkpoint, ids, threads) - expected
        found.append(LayerError(layer, _rms(difference) / max(_rms(expected), 1e-30)))
    return found


def layer_plans(checkpoint: Checkpoint, context: int) -> Iterator[tuple[int, Plan]]:
    """Plans whose result is the residual stream after a layer."""
    config = read_config(checkpoint, context)
    graph = build_graph(config, GraphBuilder(orders=orders_of(checkpoint.tensors)))
    count = len(config.layers)
    for layer in sorted({(index + 1) * count // PROBED for index in range(PROBED)} - {0}):
        end = _end(graph, layer)
        cut = replace(graph, ops=graph.ops[:end], result=graph.ops[end - 1].output)
        yield (
            layer - 1,
            compile_plan(
                cut,
                architecture=config.architecture,
                context_length=config.context_length,
                vocabulary=config.vocabulary,
            ),
        )


def _end(graph: Graph, count: int) -> int:
    """The operations of the first `count` layers are those before this index."""
    for index, op in enumerate(graph.ops):
        names = [LAYER.match(name) for name in weights(op)]
        beyond = any(match and int(match[1]) >= count for match in names)
        after = index > 0 and any(name.startswith("output") for name in weights(op))
        if beyond or after:
            return index - 1 if isinstance(graph.ops[index - 1], SelectRows) else index
    return len(graph.ops)


def _run(
    backend: Backend, plan: Plan, checkpoint: Checkpoint, ids: Sequence[int], threads: int
) -> Floats:
    count = len(ids)
    runner = backend.prepare(
        plan,
        checkpoint.tensors,
        num_pages=pages_for(count),
        max_tokens=count,
        num_threads=threads,
        precision="default",
        num_slots=1,
    )
    batch = Batch(
        token_ids=np.array(ids, np.int32),
        positions=np.arange(count, dtype=np.int32),
        sequence_starts=np.array([0, count], np.int32),
        page_tables=np.arange(pages_for(count), dtype=np.int32)[None],
        output_rows=np.arange(count, dtype=np.int32),
        state_slots=np.zeros(1, np.int32),
    )
    assert count <= PAGE_TOKENS * runner.num_pages
    return runner.run(batch).copy()


def _rms(values: Floats) -> float:
    return float(np.sqrt(np.mean(np.square(values, dtype=np.float64))))
