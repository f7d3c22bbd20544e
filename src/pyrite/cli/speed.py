"""Times a model's steps: a prompt in batches, or tokens one by one, after a given depth.

The runner is driven directly, as llama-bench does: no sampling, no text. Pages are taken from the
first on, for nothing else runs; each stream has its own.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from pyrite.backends.base import PAGE_TOKENS, Batch, Runner
from pyrite.cli.work import Step

if TYPE_CHECKING:
    from pyrite.llm import Model

SEED = 1


@dataclass(frozen=True, slots=True)
class Test:
    """`kind`: "pp" computes `count` tokens of one prompt in batches, "tg" one by one in each of
    `streams`; `depth` tokens come before in each."""

    kind: Literal["pp", "tg"]
    count: int
    depth: int = 0
    streams: int = 1

    @property
    def name(self) -> str:
        many = f" x {self.streams}" if self.streams > 1 else ""
        return f"{self.kind}{self.count}{many}" + (f" @ d{self.depth}" if self.depth else "")

    @property
    def num_tokens(self) -> int:
        """That one stream ends with."""
        return self.depth + self.count

    @property
    def stream_pages(self) -> int:
        return -(-self.num_tokens // PAGE_TOKENS)

    @property
    def num_pages(self) -> int:
        return self.streams * self.stream_pages

    def steps(self, max_tokens: int) -> Iterator[Step]:
        """What is timed; `max_tokens` of one batch."""
        width = max_tokens if self.kind == "pp" else 1
        for start in range(self.depth, self.num_tokens, width):
            yield Step(min(width, self.num_tokens - start), self.streams, start)


def measure(model: Model, test: Test, repetitions: int) -> list[float]:
    """Tokens a second, of all streams together, of each repetition, after a step of each width that
    does not count.

    The depth is computed once: every repetition writes the same positions after it.
    """
    runner = model.loaded.engine.runner
    ids = np.random.default_rng(SEED).integers(0, model.tokenizer.vocab_size, test.num_tokens)
    tokens = ids.astype(np.int32)
    fill(runner, tokens, test)
    steps = list(test.steps(runner.max_tokens))
    warm = {step.tokens: step for step in steps}
    once(runner, tokens, test, warm.values())
    return [
        test.streams * test.count / once(runner, tokens, test, steps) for _ in range(repetitions)
    ]


def fill(runner: Runner, ids: NDArray[np.int32], test: Test) -> None:
    """Computes the depth of the first stream, and copies its pages to the others."""
    for start in range(0, test.depth, runner.max_tokens):
        tokens = min(runner.max_tokens, test.depth - start)
        runner.run(batch(ids, Step(tokens, 1, start), test.stream_pages))
    for page in range(-(-test.depth // PAGE_TOKENS)):
        for stream in range(1, test.streams):
            runner.copy_page(page, stream * test.stream_pages + page)


def once(runner: Runner, ids: NDArray[np.int32], test: Test, steps: Iterable[Step]) -> float:
    """Seconds that the steps take."""
    timed = [batch(ids, step, test.stream_pages) for step in steps]
    started = time.perf_counter()
    for one in timed:
        runner.run(one)
    return time.perf_counter() - started


def batch(ids: NDArray[np.int32], step: Step, stream_pages: int) -> Batch:
    """A step of streams that have the same tokens, each in pages of its own."""
    positions = np.arange(step.depth, step.depth + step.tokens, dtype=np.int32)
    ends = np.arange(step.streams + 1, dtype=np.int32) * step.tokens  # (streams + 1,)
    pages = np.arange(step.streams * stream_pages, dtype=np.int32)
    return Batch(
        token_ids=np.tile(ids[positions], step.streams),
        positions=np.tile(positions, step.streams),
        sequence_starts=ends,
        page_tables=pages.reshape(step.streams, stream_pages),
        output_rows=ends[1:] - 1,
        state_slots=np.arange(step.streams, dtype=np.int32),
    )
