"""A mixture of experts beside a dense feed-forward of the same work.

    python benchmarks/mixture.py [--experts 64] [--used 8] [--width 2048] [--ff 768] [--type Q4_K]

Both are layers of random weights. The dense one is as wide as all experts that a row uses together:
one row reads as many bytes of either, and many rows multiply as much. A mixture reads the experts
that some row uses, each once: `GB/s` counts those. Rows are routed by a random router. The two run
in turn; times are medians.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping

import numpy as np

from models import random_blocks
from pyrite.backends.base import Batch
from pyrite.backends.cpu import CpuBackend, CpuRunner
from pyrite.backends.mixture import route
from pyrite.backends.weights import LazyWeights
from pyrite.cli.machine import machine_line
from pyrite.cli.markdown import table
from pyrite.cores import choose_threads
from pyrite.formats.checkpoint import Tensor
from pyrite.graph.build import GraphBuilder
from pyrite.graph.compile import compile_plan
from pyrite.graph.fuse import PASSES
from pyrite.graph.ops import Routing
from pyrite.graph.plan import Plan
from pyrite.quant.formats import FORMATS

ROWS = (1, 2, 4, 16, 64, 512)
VOCABULARY = 1024


def experts_plan(options: argparse.Namespace) -> tuple[Plan, Mapping[str, tuple[int, ...]]]:
    builder = GraphBuilder()
    x = builder.embed("table", VOCABULARY, options.width)
    for layer in range(options.layers):
        scores = builder.linear(x, f"{layer}.router", options.experts)
        names = (f"{layer}.gate", f"{layer}.up", f"{layer}.down")
        mixed = builder.experts(
            x, scores, Routing(options.used), names, feed_forward=options.ff, activation="silu"
        )
        x = builder.add(x, mixed)
    return compiled(builder, x)


def dense_plan(options: argparse.Namespace) -> tuple[Plan, Mapping[str, tuple[int, ...]]]:
    builder = GraphBuilder()
    x = builder.embed("table", VOCABULARY, options.width)
    inner = options.used * options.ff
    for layer in range(options.layers):
        gate = builder.linear(x, f"{layer}.gate", inner)
        up = builder.linear(x, f"{layer}.up", inner)
        down = builder.linear(builder.gate(gate, up, "silu"), f"{layer}.down", options.width)
        x = builder.add(x, down)
    return compiled(builder, x)


def compiled(builder: GraphBuilder, result) -> tuple[Plan, Mapping[str, tuple[int, ...]]]:
    graph = builder.finish(builder.select_rows(result))
    plan = compile_plan(
        graph, architecture="", context_length=4096, passes=PASSES, vocabulary=VOCABULARY
    )
    return plan, builder.weights


def tensors(shapes: Mapping[str, tuple[int, ...]], kind: str) -> dict[str, Tensor]:
    rng = np.random.default_rng(1)
    made = {}
    for name, shape in shapes.items():
        own = "F32" if name == "table" or name.endswith("router") else kind
        deviation = 1.0 if name == "table" else shape[-1] ** -0.5
        made[name] = Tensor(name, own, shape, random_blocks(rng, own, shape, deviation).reshape(-1))
    return made


def prepared(plan: Plan, weights: Mapping[str, Tensor], options: argparse.Namespace) -> CpuRunner:
    return CpuBackend().prepare(
        plan,
        weights,
        num_pages=1,
        max_tokens=max(ROWS),
        num_threads=options.threads,
        precision=options.precision,
    )


def batch_of(rows: int) -> Batch:
    ids = np.random.default_rng(rows).integers(0, VOCABULARY, rows).astype(np.int32)
    return Batch(
        token_ids=ids,
        positions=np.zeros(rows, np.int32),
        sequence_starts=np.arange(rows + 1, dtype=np.int32),
        page_tables=np.zeros((rows, 1), np.int32),
        output_rows=np.arange(rows, dtype=np.int32),
    )


def step_seconds(runners: list[CpuRunner], rows: int, seconds: float) -> list[float]:
    batch = batch_of(rows)
    times: list[list[float]] = [[] for _ in runners]
    stop = time.perf_counter() + seconds
    while len(times[0]) < 3 or time.perf_counter() < stop:
        for runner, taken in zip(runners, times, strict=True):
            start = time.perf_counter()
            runner.run(batch)
            taken.append(time.perf_counter() - start)
    return [float(np.median(taken)) for taken in times]


def experts_hit(options: argparse.Namespace, weights: Mapping[str, Tensor], rows: int) -> int:
    """Of the first layer."""
    lazy = LazyWeights(weights)
    x = lazy.rows("table", batch_of(rows).token_ids)
    chosen, _ = route(Routing(options.used), lazy.project("0.router", x), lazy)
    return len(np.unique(chosen))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--experts", type=int, default=64)
    parser.add_argument("--used", type=int, default=8)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--ff", type=int, default=768)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--type", choices=sorted(FORMATS), default="Q4_K")
    parser.add_argument("--precision", choices=("default", "fast"), default="default")
    parser.add_argument("--threads", type=int, default=choose_threads().count)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each number of rows")
    options = parser.parse_args()
    print(machine_line(), end="\n\n")
    runners, made = [], {}
    for make in (dense_plan, experts_plan):
        plan, shapes = make(options)
        made = tensors(shapes, options.type)
        runners.append(prepared(plan, made, options))
    row = FORMATS[options.type]
    products = 3 * options.width * options.ff * options.layers
    expert_bytes = products // row.block_columns * row.block_bytes
    lines = []
    for rows in ROWS:
        dense, mixed = step_seconds(runners, rows, options.seconds)
        hit = experts_hit(options, made, rows)
        lines.append(
            [
                str(rows),
                f"{dense * 1e3:.2f}",
                f"{mixed * 1e3:.2f}",
                f"{options.used * expert_bytes / dense / 1e9:.1f}",
                str(hit),
                f"{hit * expert_bytes / mixed / 1e9:.1f}",
                f"{rows * options.used * products / dense / 1e9:.0f}",
                f"{rows * options.used * products / mixed / 1e9:.0f}",
            ]
        )
    head = ["rows", "dense ms", "mixture ms", "dense GB/s", "experts hit", "mixture GB/s"]
    head += ["dense GMAC/s", "mixture GMAC/s"]
    print(table(head, lines, right=head))


if __name__ == "__main__":
    main()
