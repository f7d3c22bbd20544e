"""Logits of a model with adapters, for sequences that are computed with one or another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pyrite.backends.base import Runner
from pyrite.backends.reference import ReferenceBackend
from pyrite.formats.checkpoint import Checkpoint
from pyrite.models.registry import build_plan
from steps import Part, make_batch, num_pages

IDS = list(range(5, 25))


def prepared(model: Checkpoint, backend=None, threads: int = 1) -> Runner:
    plan = build_plan(model)
    return (backend or ReferenceBackend()).prepare(
        plan,
        model.tensors,
        num_pages=16,
        num_slots=8 if plan.has_state else 0,
        max_tokens=160,
        num_threads=threads,
        precision="default",
    )


def logits(
    model: Checkpoint,
    adapters: Sequence[int],
    backend=None,
    threads: int = 1,
    ids: Sequence[int] = IDS,
    cuts: Sequence[int] = (),
) -> NDArray[np.float32]:
    """Of the same tokens as sequences with each of these adapters, in one batch, or in several
    that each sequence is cut for. (sequences, tokens, vocabulary)"""
    runner = prepared(model, backend, threads)
    pages = num_pages(len(ids))
    found = []
    for start, stop in zip((0, *cuts), (*cuts, len(ids)), strict=True):
        parts = [
            Part(ids[start:stop], range(pages * n, pages * (n + 1)), start, range(stop - start))
            for n in range(len(adapters))
        ]
        batch = replace(make_batch(parts), adapters=np.array(adapters, np.int32))
        found.append(runner.run(batch).reshape(len(adapters), stop - start, -1).copy())
    return np.concatenate(found, axis=1)
