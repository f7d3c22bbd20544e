"""Contexts of several spans of keys: what threads share of one row, and who joins it, is not seen.

Spans are of 256 positions. With few rows and more threads than key heads, a thread attends to some
of the spans of a row; a prompt's rows walk theirs in one go. Both give the same bits.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pyrite.backends.cpu import CpuBackend
from pyrite.formats.checkpoint import Checkpoint, open_checkpoint
from pyrite.models.registry import as_model, build_plan
from steps import Part, make_batch, num_pages, sequence_logits

TOKENS = 800
CASES = ("llama", "qwen2_tied_swa", "gemma2", "gemma3_text")


def checkpoint_of(golden: Path, case: str) -> Checkpoint:
    checkpoint = open_checkpoint(golden / "tiny" / case)
    changes = {"max_position_embeddings": 4096}
    if checkpoint.metadata.get("sliding_window"):
        changes["sliding_window"] = 300
    return as_model(replace(checkpoint, metadata={**checkpoint.metadata, **changes}))


def prepare(checkpoint: Checkpoint, threads: int, kv_type: str):
    return CpuBackend().prepare(
        build_plan(checkpoint),
        checkpoint.tensors,
        num_pages=2 * num_pages(TOKENS),
        max_tokens=TOKENS + 8,
        num_threads=threads,
        precision="default",
        kv_type=kv_type,
    )


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kv_type", ["f16", "q8"])
def test_rows_alone_in_chunks_and_on_many_threads(golden: Path, case: str, kv_type: str):
    checkpoint = checkpoint_of(golden, case)
    ids = np.random.default_rng(74).integers(3, 250, TOKENS)
    wanted = [0, 254, 255, 256, 257, 511, 512, 700, *range(TOKENS - 3, TOKENS)]
    expected = sequence_logits(prepare(checkpoint, 1, kv_type), ids, wanted=wanted)
    for threads in (1, 2, 5):
        for chunk in (None, 250, 700):
            runner = prepare(checkpoint, threads, kv_type)
            found = sequence_logits(runner, ids, chunk=chunk, wanted=wanted)
            np.testing.assert_array_equal(found, expected, f"{threads} threads, chunks of {chunk}")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_a_row_beside_others_of_any_depth(golden: Path, case: str, threads: int):
    """A deep row alone, beside a shallow one, and beside a prompt."""
    checkpoint = checkpoint_of(golden, case)
    ids = np.random.default_rng(75).integers(3, 250, TOKENS)
    expected = sequence_logits(prepare(checkpoint, 1, "f16"), ids, wanted=[TOKENS - 1])[0]
    runner = prepare(checkpoint, threads, "f16")
    deep, other = range(num_pages(TOKENS)), range(num_pages(TOKENS), 2 * num_pages(TOKENS))
    runner.run(make_batch([Part(ids[:-1], deep, 0, [0])]))
    last = Part(ids[-1:], deep, TOKENS - 1)
    for company in ([], [Part([5], other)], [Part(ids[:70], other, 0, [0])]):
        found = runner.run(make_batch([last, *company]))
        np.testing.assert_array_equal(found[0], expected)
