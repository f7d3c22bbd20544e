"""Times a model's steps: a prompt in batches, or tokens one by one, after a given depth.

The runner is driven directly, as llama-bench does: no sampling, no text. Pages are taken from the
first on, for nothing else runs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from pyrite.backends.base import PAGE_TOKENS, Batch, Runner

if TYPE_CHECKING:
    from pyrite.llm import Model

SEED = 1


@dataclass(frozen=True, slots=True)
class Test:
    """`kind`: "pp" computes `count` tokens in batches, "tg" one by one; `depth` come before."""

    kind: Literal["pp", "tg"]
    count: int
    depth: int = 0

    @property
    def name(self) -> str:
        return f"{self.kind}{self.count}" + (f" @ d{self.depth}" if self.depth else "")

    @property
    def num_tokens(self) -> int:
        return self.depth + self.count


def measure(model: Model, test: Test, repetitions: int) -> list[float]:
    """Tokens a second of each repetition, after one that is not counted."""
    engine = model.loaded.engine
    ids = np.random.default_rng(SEED).integers(0, model.tokenizer.vocab_size, test.num_tokens)
    rates = [once(engine.runner, ids.astype(np.int32), test) for _ in range(repetitions + 1)]
    return rates[1:]


def once(runner: Runner, ids: np.ndarray, test: Test) -> float:
    for batch in batches(ids, 0, test.depth, runner.max_tokens):
        runner.run(batch)
    width = 1 if test.kind == "tg" else runner.max_tokens
    timed = list(batches(ids, test.depth, test.num_tokens, width))
    started = time.perf_counter()
    for batch in timed:
        runner.run(batch)
    return test.count / (time.perf_counter() - started)


def batches(ids: np.ndarray, start: int, stop: int, width: int) -> Iterator[Batch]:
    """Tokens start : stop of one sequence, `width` a batch; the last one's logits are wanted."""
    pages = np.arange(-(-len(ids) // PAGE_TOKENS), dtype=np.int32)[None]  # (1, pages)
    for begin in range(start, stop, width):
        end = min(begin + width, stop)
        yield Batch(
            token_ids=ids[begin:end],
            positions=np.arange(begin, end, dtype=np.int32),
            sequence_starts=np.array([0, end - begin], np.int32),
            page_tables=pages,
            output_rows=np.array([end - begin - 1], np.int32),
        )
