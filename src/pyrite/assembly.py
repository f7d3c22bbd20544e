"""A step's slices as one batch, and which rows of its logits belong to whom.

Knows slices and continuations; nothing of why the scheduler cut them so.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pyrite.backends.base import Batch
from pyrite.continuation import Continuation
from pyrite.records import dataclass
from pyrite.sequence import Slice

WIDER_BY = 16  # pages, at least, when the longest sequence outgrows the tables


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a step's logits that belong to one slice.

    Those of `scored` have a token of the prompt to score each. Of `drawn` the first is the one to
    draw the next token from, and then there is one after each draft; it is empty if the slice does
    not reach the end of its request, or no token may come after it.
    """

    scored: range
    drawn: range


class Assembler:
    """Makes batches. What a batch says of pages is true until the next one is made."""

    def __init__(self) -> None:
        self._tables = np.empty((0, 0), np.int32)  # (sequences, pages)
        self._versions: list[int] = []  # of the page tables in the rows

    def assemble(
        self, slices: Sequence[Slice], continuations: Sequence[Continuation]
    ) -> tuple[Batch, list[Rows]]:
        """`continuations` are the requests of the slices."""
        token_ids: list[int] = []
        positions: list[int] = []
        starts = [0]
        output_rows: list[int] = []
        rows = []
        for work, continuation in zip(slices, continuations, strict=True):
            first = len(output_rows)
            span = _span(work)
            output_rows += _scored(work, span, starts[-1], continuation)
            middle = len(output_rows)
            positions += span
            token_ids += continuation.token_ids[span.start : span.start + work.num_tokens]
            if work.num_drafts:
                token_ids += continuation.drafts[: work.num_drafts]
            starts.append(len(positions))
            if work.reaches_end and not continuation.full:
                output_rows += range(starts[-1] - 1 - work.num_drafts, starts[-1])
            rows.append(Rows(range(first, middle), range(middle, len(output_rows))))
        batch = Batch(
            token_ids=np.array(token_ids, np.int32),
            positions=np.array(positions, np.int32),
            sequence_starts=np.array(starts, np.int32),
            page_tables=self._page_tables(slices),
            output_rows=np.array(output_rows, np.int32),
            adapters=np.array([one.adapter for one in continuations], np.int32),
            state_slots=np.array([work.sequence.table.slot for work in slices], np.int32),
        )
        return batch, rows

    def _page_tables(self, slices: Sequence[Slice]) -> NDArray[np.int32]:
        """Rows are written only where they differ from the last step's. (sequences, pages)"""
        self._fit(len(slices), max(len(work.sequence.pages) for work in slices))
        for row, work in enumerate(slices):
            table = work.sequence.table
            if self._versions[row] != table.version:
                self._versions[row] = table.version
                self._tables[row, : len(table.pages)] = table.pages
                self._tables[row, len(table.pages) :] = -1
        return self._tables[: len(slices)]

    def _fit(self, count: int, width: int) -> None:
        rows, columns = self._tables.shape
        if count > rows or width > columns:
            shape = max(count, rows), max(width + WIDER_BY, columns)
            self._tables = np.empty(shape, np.int32)
            self._versions = [-1] * shape[0]


def _span(work: Slice) -> range:
    """The positions that it computes: of known tokens, then of drafts."""
    start = work.sequence.num_computed_tokens
    return range(start, start + work.num_tokens + work.num_drafts)


def _scored(work: Slice, span: range, row: int, continuation: Continuation) -> range:
    """Rows of the batch whose logits score the prompt; the slice begins at `row`."""
    if not work.sequence.scores_prompt:
        return range(0)
    wanted = continuation.prompt_scores.wanted(span.start, span.start + work.num_tokens)
    shift = row - span.start
    return range(wanted.start + shift, wanted.stop + shift)
