"""A step's slices as one batch, and which rows of its logits belong to whom.

Knows slices and continuations; nothing of why the scheduler cut them so.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pyrite.backends.base import Batch
from pyrite.continuation import Continuation
from pyrite.sequence import Slice


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a step's logits that belong to one slice.

    Those of `scored` have a token of the prompt to score each. Of `drawn` the first is the one to
    draw the next token from, and then there is one after each draft; it is empty if the slice does
    not reach the end of its request, or no token may come after it.
    """

    scored: range
    drawn: range


def assemble(
    slices: Sequence[Slice], continuations: Sequence[Continuation]
) -> tuple[Batch, list[Rows]]:
    """`continuations` are the requests of the slices."""
    pairs = list(zip(slices, continuations, strict=True))
    spans = [_span(work) for work in slices]
    ends = list(itertools.accumulate(len(span) for span in spans))
    width = max(len(work.sequence.pages) for work in slices)
    tables = np.full((len(slices), width), -1, dtype=np.int32)  # (sequences, pages)
    for table, work in zip(tables, slices, strict=True):
        table[: len(work.sequence.pages)] = work.sequence.pages
    token_ids = [token_id for pair in pairs for token_id in _token_ids(*pair)]
    wanted = [_wanted(*pair) for pair in pairs]  # positions
    shifts = [end - span.stop for end, span in zip(ends, spans, strict=True)]
    output_rows = [
        position + shift
        for ranges, shift in zip(wanted, shifts, strict=True)
        for position in itertools.chain(*ranges)
    ]
    batch = Batch(
        token_ids=np.array(token_ids, np.int32),
        positions=np.concatenate(spans).astype(np.int32),
        sequence_starts=np.array([0, *ends], np.int32),
        page_tables=tables,
        output_rows=np.array(output_rows, np.int32),
    )
    return batch, _owned(wanted)


def _owned(wanted: list[tuple[range, range]]) -> list[Rows]:
    edges = [0, *itertools.accumulate(len(part) for pair in wanted for part in pair)]
    parts = [range(*pair) for pair in itertools.pairwise(edges)]
    return [Rows(*pair) for pair in zip(parts[::2], parts[1::2], strict=True)]


def _span(work: Slice) -> range:
    """The positions that it computes: of known tokens, then of drafts."""
    start = work.sequence.num_computed_tokens
    return range(start, start + work.num_tokens + work.num_drafts)


def _token_ids(work: Slice, continuation: Continuation) -> list[int]:
    start = work.sequence.num_computed_tokens
    known = continuation.token_ids[start : start + work.num_tokens]
    return known + continuation.drafts[: work.num_drafts]


def _wanted(work: Slice, continuation: Continuation) -> tuple[range, range]:
    """Positions whose logits score the prompt, and those to draw from."""
    span = _span(work)
    scored = continuation.prompt_scores.wanted(span.start, span.start + work.num_tokens)
    draws = work.reaches_end and not continuation.full
    return scored, range(span.stop - 1 - work.num_drafts if draws else span.stop, span.stop)
