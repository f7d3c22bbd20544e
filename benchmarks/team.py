"""What working together costs: phases of a step, what one costs, and how long threads stand idle.

    python benchmarks/team.py MODEL.gguf ... [--threads 2] [--steps 40]

A phase ends when its chunks are finished, and threads that find none left stand idle until then.
The cost of a phase is that of an empty one; idle time is counted in steps of the real thing, as a
share of the threads' time.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pyrite._native.program import phase_seconds
from pyrite.backends.base import PAGE_TOKENS, Batch
from pyrite.backends.cpu import CpuRunner
from pyrite.cli.limits import thread_counts
from pyrite.cli.machine import machine_line
from pyrite.cli.markdown import table
from pyrite.config import Settings
from pyrite.cores import choose_threads
from pyrite.loading import load_engine

DEPTH = 64  # tokens of context that each stream has
PROMPT = 512
STREAMS = (1, 2, 8, 32)
PAGES = -(-PROMPT // PAGE_TOKENS)  # of a sequence, at most


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one step; `idle` is the threads' share of it without work."""

    seconds: float
    phases: int
    idle: float


def batch_of(num_sequences: int, start: int, length: int) -> Batch:
    """Each sequence continues at `start` by `length` tokens, on pages of its own."""
    tokens = num_sequences * length
    tables = np.arange(num_sequences * PAGES, dtype=np.int32).reshape(num_sequences, PAGES)
    starts = np.arange(0, tokens + 1, length, dtype=np.int32)
    return Batch(
        token_ids=np.random.default_rng(0).integers(0, 1000, tokens).astype(np.int32),
        positions=np.tile(np.arange(start, start + length, dtype=np.int32), num_sequences),
        sequence_starts=starts,
        page_tables=tables,
        output_rows=starts[1:] - 1,
    )


def cost_of(runner: CpuRunner, batch: Batch, steps: int) -> Cost:
    runner.run(batch)
    runner.profile(True)
    started = time.perf_counter()
    for _ in range(steps):
        runner.run(batch)
    seconds = time.perf_counter() - started
    phases = sum(spent > 0 for _, spent in runner.phase_times())
    idle = np.array([idle for _, idle in runner.idle_times()])  # (phases, threads)
    runner.profile(False)
    return Cost(seconds / steps, phases, float(idle.sum()) * 1e-9 / seconds / idle.shape[1])


def rows_of(model: Path, threads: int, steps: int) -> list[list[str]]:
    settings = Settings(
        threads=threads, context=PROMPT, kv_pages=max(STREAMS) * PAGES, max_batch_tokens=PROMPT
    )
    runner = load_engine(model, settings).engine.runner
    assert isinstance(runner, CpuRunner)
    empty = phase_seconds(threads)
    runner.run(batch_of(1, 0, PROMPT))
    works = [(f"prompt of {PROMPT}", batch_of(1, 0, PROMPT), max(2, steps // 10))]
    for count in STREAMS:
        for sequence in range(count):
            runner.run(one_of(batch_of(count, 0, DEPTH), sequence))
        works.append((f"{count} streams", batch_of(count, DEPTH, 1), steps))
    rows = []
    for name, batch, repeats in works:
        cost = cost_of(runner, batch, repeats)
        share = cost.phases * empty / cost.seconds
        rows.append(
            [
                model.name,
                name,
                f"{cost.seconds * 1e3:.2f}",
                str(cost.phases),
                f"{100 * share:.1f} %",
                f"{100 * cost.idle:.1f} %",
            ]
        )
    return rows


def one_of(batch: Batch, sequence: int) -> Batch:
    """A batch of that sequence alone."""
    first, end = batch.sequence_starts[sequence : sequence + 2]
    return Batch(
        token_ids=batch.token_ids[first:end],
        positions=batch.positions[first:end],
        sequence_starts=np.array([0, end - first], np.int32),
        page_tables=batch.page_tables[sequence : sequence + 1],
        output_rows=np.array([end - first - 1], np.int32),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", type=Path, nargs="*")
    parser.add_argument("--threads", type=int, default=choose_threads().count)
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args()
    print(machine_line(), end="\n\n")
    counts = thread_counts(options.threads)
    costs = [f"{phase_seconds(count) * 1e6:.2f}" for count in counts]
    print(table(["threads", *map(str, counts)], [["us a phase", *costs]], right=[]), end="\n\n")
    rows = [row for path in options.models for row in rows_of(path, options.threads, options.steps)]
    head = ["model", "work", "ms", "phases", "of it phases", "idle"]
    print(table(head, rows, right=head[2:]))


if __name__ == "__main__":
    main()
