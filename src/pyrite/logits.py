"""Logits after every token of a text, for those who look at a model and not at its answer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pyrite.backends.base import Batch
from pyrite.continuation import check_prompt
from pyrite.engine import Engine
from pyrite.errors import CapacityError, ContextLengthError
from pyrite.kv.pages import pages_for

ROWS = 32  # of one run: each is as wide as the vocabulary


def all_logits(engine: Engine, token_ids: Sequence[int], adapter: str = "") -> NDArray[np.float32]:
    """Logits after each of the tokens. (tokens, vocabulary)

    Runs between two steps of the engine, in pages that are free. Raises ParameterError,
    ContextLengthError, CapacityError when too few are free, BackendError.
    """
    check_prompt(token_ids, engine.vocabulary)
    adapters = np.array([engine.adapter_number(adapter)], np.int32)
    if len(token_ids) > engine.context_length:
        raise ContextLengthError(len(token_ids), engine.context_length)
    cache, needed = engine.scheduler.cache, pages_for(len(token_ids))
    if cache.states is not None and cache.states.num_available == 0:
        hint = "end other requests first, or load the model with more state slots"
        raise CapacityError("each state slot is a request's", hint=hint)
    pages = cache.take(needed)
    if pages is None:
        raise CapacityError(
            f"{len(token_ids)} tokens take {needed} pages, and {cache.num_free} are free",
            hint="end other requests first, or load the model with more pages",
        )
    slot = -1 if cache.states is None else cache.states.take()
    try:
        ids, tables = np.array(token_ids, np.int32), np.array([pages], np.int32)
        return _in_chunks(engine, ids, tables, slot, adapters)
    finally:
        cache.pool.give_back(pages)
        if cache.states is not None:
            cache.states.give_back(slot)


def _in_chunks(
    engine: Engine,
    token_ids: NDArray[np.int32],
    page_tables: NDArray[np.int32],
    slot: int,
    adapters: NDArray[np.int32],
) -> NDArray[np.float32]:
    logits = np.empty((len(token_ids), engine.vocabulary), np.float32)
    rows = min(ROWS, engine.runner.max_tokens)
    for start in range(0, len(token_ids), rows):
        positions = np.arange(start, min(start + rows, len(token_ids)), dtype=np.int32)
        batch = Batch(
            token_ids=token_ids[positions],
            positions=positions,
            sequence_starts=np.array([0, len(positions)], np.int32),
            page_tables=page_tables,
            output_rows=positions - np.int32(start),
            state_slots=np.array([slot], np.int32),
            adapters=adapters,
        )
        logits[positions] = engine.runner.run(batch)
    return logits
