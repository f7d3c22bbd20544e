"""Drives a prepared backend without an engine: batches by hand, for tests of models and kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pyrite.backends.base import PAGE_TOKENS, Batch


@dataclass
class Part:
    """New tokens of one sequence in a batch. `wanted`: which of them need logits; None: all."""

    ids: Sequence[int]
    pages: Sequence[int]
    start: int = 0  # position of the first of `ids`
    wanted: Sequence[int] | None = None
    slot: int | None = None  # of its state; None: the number of the part in the batch


def num_pages(num_tokens: int) -> int:
    return -(-num_tokens // PAGE_TOKENS)


def make_batch(parts: Sequence[Part]) -> Batch:
    lengths = [len(part.ids) for part in parts]
    starts = np.cumsum([0, *lengths]).astype(np.int32)
    tables = np.full((len(parts), max(len(part.pages) for part in parts)), -1, np.int32)
    rows: list[int] = []
    for index, part in enumerate(parts):
        tables[index, : len(part.pages)] = part.pages
        wanted = range(len(part.ids)) if part.wanted is None else part.wanted
        rows += [int(starts[index]) + row for row in wanted]
    slots = [index if part.slot is None else part.slot for index, part in enumerate(parts)]
    positions = [np.arange(part.start, part.start + len(part.ids)) for part in parts]
    return Batch(
        token_ids=np.concatenate([np.asarray(part.ids) for part in parts]).astype(np.int32),
        positions=np.concatenate(positions).astype(np.int32),
        sequence_starts=starts,
        page_tables=tables,
        output_rows=np.array(rows, np.int32),
        state_slots=np.array(slots, np.int32),
    )


def sequence_logits(runner, ids, *, chunk: int | None = None, pages=None, wanted=None):
    """Logits of one sequence's tokens (all, or `wanted`), computed `chunk` tokens at a time."""
    size = chunk or len(ids)
    pages = list(range(num_pages(len(ids)))) if pages is None else pages
    chosen = range(len(ids)) if wanted is None else wanted
    found = []
    for start in range(0, len(ids), size):
        piece = ids[start : start + size]
        rows = [row - start for row in chosen if start <= row < start + len(piece)]
        found.append(runner.run(make_batch([Part(piece, pages, start, rows)])).copy())
    return np.concatenate(found)
