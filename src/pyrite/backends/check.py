"""Checks a batch against a prepared plan, so that backends may trust it afterwards.

A batch is filled by the engine, which has checked what the user gave: a fault found here is a bug
above, reported as a BackendError with the offending values instead of a wild read.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyrite.backends.base import PAGE_TOKENS, Batch, Runner
from pyrite.errors import BackendError
from pyrite.graph.plan import Plan

Integers = NDArray[np.int32]


def check_batch(
    batch: Batch, plan: Plan, *, num_pages: int, max_tokens: int, num_slots: int
) -> None:
    """Raises BackendError. Costs a few passes over integers of the batch."""
    _check_sizes(batch, max_tokens)
    _check_range("token_ids", batch.token_ids, 0, plan.vocabulary)
    _check_range("positions", batch.positions, 0, plan.context_length)
    _check_range("output_rows", batch.output_rows, 0, batch.num_tokens)
    if (np.diff(batch.output_rows) <= 0).any():
        raise BackendError("output_rows do not ascend")
    _check_sequences(batch, num_pages)
    if plan.has_state:
        _check_slots(batch, num_slots)


def check_page(runner: Runner, page: int, data: NDArray[np.uint8]) -> None:
    """Raises BackendError unless the page is there and `data` has its size."""
    if not 0 <= page < runner.num_pages:
        raise BackendError(f"page {page}: must be from 0 to {runner.num_pages - 1}")
    if data.shape != (runner.page_bytes,) or data.dtype != np.uint8:
        raise BackendError(f"{data.dtype} {data.shape} for a page of {runner.page_bytes} bytes")


def check_state(runner: Runner, slot: int, data: NDArray[np.uint8]) -> None:
    """Raises BackendError unless the slot is there and `data` has its size."""
    check_slot(runner, slot)
    if data.shape != (runner.state_bytes,) or data.dtype != np.uint8:
        raise BackendError(f"{data.dtype} {data.shape} for a state of {runner.state_bytes} bytes")


def check_slot(runner: Runner, slot: int) -> None:
    if not 0 <= slot < runner.num_slots:
        raise BackendError(f"slot {slot}: must be from 0 to {runner.num_slots - 1}")


def _check_sizes(batch: Batch, max_tokens: int) -> None:
    num_tokens, starts = batch.num_tokens, batch.sequence_starts
    if not 1 <= num_tokens <= max_tokens:
        raise BackendError(f"a batch of {num_tokens} tokens: must be from 1 to {max_tokens}")
    if len(batch.positions) != num_tokens:
        raise BackendError(f"{len(batch.positions)} positions for {num_tokens} tokens")
    if len(starts) < 2 or starts[0] != 0 or starts[-1] != num_tokens:
        raise BackendError(f"sequence_starts must go from 0 to {num_tokens}")
    if (np.diff(starts) <= 0).any():
        raise BackendError("a sequence of the batch has no tokens")
    if batch.page_tables.ndim != 2 or len(batch.page_tables) != len(starts) - 1:
        raise BackendError(f"page_tables {batch.page_tables.shape} for {len(starts) - 1} sequences")


def _check_range(name: str, values: Integers, low: int, stop: int) -> None:
    wrong = values[(values < low) | (values >= stop)]
    if len(wrong):
        raise BackendError(f"{name} holds {wrong[0]}: must be from {low} to {stop - 1}")


def _check_sequences(batch: Batch, num_pages: int) -> None:
    """Positions of a sequence are consecutive, and the pages that it writes are there."""
    steps = np.diff(batch.positions)
    steps[batch.sequence_starts[1:-1] - 1] = 1
    if (steps != 1).any():
        raise BackendError("positions of a sequence are not consecutive")
    lengths = np.diff(batch.sequence_starts)
    sequences = np.repeat(np.arange(len(lengths)), lengths)
    columns = batch.positions // PAGE_TOKENS
    _check_range("positions' pages", columns, 0, batch.page_tables.shape[1])
    _check_range("page_tables", batch.page_tables[sequences, columns], 0, num_pages)


def _check_slots(batch: Batch, num_slots: int) -> None:
    """Each sequence has one, and no two the same."""
    slots, num_sequences = batch.state_slots, len(batch.sequence_starts) - 1
    if slots.shape != (num_sequences,):
        raise BackendError(f"state_slots {slots.shape} for {num_sequences} sequences")
    _check_range("state_slots", slots, 0, num_slots)
    if len(np.unique(slots)) != num_sequences:
        raise BackendError("two sequences of the batch have one state slot")
