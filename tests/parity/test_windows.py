"""Windows of attention at their edges: the length of the window, its neighbours, and far past it.

A Gemma 3 of random weights with windows of 512 and of 8. Up to the window's length every token sees
all before it, so the logits are those of a model without windows; the first token that must not see
the first one is at the position of the window's length.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rows import Row, assert_close, prepare

from pyrite.formats.checkpoint import Checkpoint, open_checkpoint
from pyrite.models.registry import as_model
from steps import sequence_logits

VOCABULARY = 384


def gemma3(golden: Path, window: int) -> Checkpoint:
    checkpoint = open_checkpoint(golden / "tiny" / "gemma3_text")
    changes = {"sliding_window": window, "max_position_embeddings": 4096}
    return as_model(replace(checkpoint, metadata={**checkpoint.metadata, **changes}))


def prompt(num_tokens: int) -> list[int]:
    return np.random.default_rng(72).integers(0, VOCABULARY, num_tokens).tolist()


def last_rows(row: Row, checkpoint: Checkpoint, ids, chunk: int | None = None, count: int = 3):
    runner = prepare(row, checkpoint, tokens=len(ids))
    wanted = range(len(ids) - count, len(ids))
    return sequence_logits(runner, ids, chunk=chunk, wanted=wanted)


@pytest.mark.parametrize("window", [8, 512])
@pytest.mark.parametrize("beyond", [-12, -1, 0])
def test_a_window_that_holds_everything_changes_nothing(golden, row: Row, window, beyond):
    ids = prompt(max(window + beyond, 3))
    windowed, whole = (last_rows(row, gemma3(golden, size), ids) for size in (window, 4096))
    assert_close(windowed, whole, row.tolerance)


@pytest.mark.parametrize("window", [8, 512])
def test_the_first_token_leaves_the_window_after_its_length(golden, row: Row, window):
    ids = prompt(window + 1)
    windowed, whole = (last_rows(row, gemma3(golden, size), ids) for size in (window, 4096))
    assert_close(windowed[:-1], whole[:-1], row.tolerance)
    assert np.abs(windowed[-1] - whole[-1]).max() > 2 * row.tolerance * whole.std()


def check_chunks(row: Row, checkpoint: Checkpoint, num_tokens: int, chunk: int) -> None:
    ids = prompt(num_tokens)
    whole = last_rows(row, checkpoint, ids)
    assert_close(last_rows(row, checkpoint, ids, chunk), whole, row.tolerance)


@pytest.mark.parametrize(
    ("num_tokens", "chunk"),
    [(500, 128), (511, 128), (512, 128), (512, 500), (513, 128), (513, 500), (1024, 500)],
)
def test_chunks_across_the_edge(golden, row: Row, num_tokens, chunk):
    check_chunks(row, gemma3(golden, 512), num_tokens, chunk)


@pytest.mark.parametrize("num_tokens", [7, 8, 9, 31, 32, 33, 65])
def test_decoding_across_the_edge(golden, row: Row, num_tokens):
    check_chunks(row, gemma3(golden, 8), num_tokens, 1)
