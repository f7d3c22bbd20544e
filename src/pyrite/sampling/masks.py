"""The masks of one step, computed beside the model: started before it runs, awaited after.

Knows rows and constraints, no batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pyrite.errors import PyriteError
from pyrite.sampling.constraint import Constraint
from pyrite.sampling.deep_thread import DeepThread
from pyrite.sampling.sampler import BatchSampler, Masks, Sampled, Sampler

Errors = dict[int, PyriteError]  # by row


class Started:
    """Masks under way. They are there, and nobody writes them any more, once this is left."""

    def __init__(self, masks: Masks | None, errors: Future[Errors] | None) -> None:
        self.masks = masks
        self._errors = errors

    def __enter__(self) -> Started:
        return self

    def __exit__(self, *raised: object) -> None:
        if self._errors is not None:
            self._errors.exception()

    def sample(
        self,
        sampler: BatchSampler,
        samplers: Sequence[Sampler],
        logits: NDArray[np.float32],  # (rows, vocabulary)
        rows: NDArray[np.int32] | None = None,  # as BatchSampler.sample
    ) -> list[Sampled]:
        """What the masks leave to each sampler, or why its mask could not be told."""
        sampled = sampler.sample(samplers, logits, rows, self.masks)
        errors = self._errors.result() if self._errors else {}
        for row, error in errors.items():  # its mask allows nothing
            sampled[row] = replace(sampled[row], error=error)
        return sampled


class MaskTeam:
    """One thread, and the memory of the masks. One step at a time."""

    def __init__(self) -> None:
        self._thread = DeepThread("pyrite-masks")
        self._words = np.empty((0, 0), np.uint32)

    def start(self, constraints: Sequence[Constraint | None]) -> Started:
        """One row of the batch each; None: every token is allowed."""
        constrained = [(row, one) for row, one in enumerate(constraints) if one is not None]
        if not constrained:
            return Started(None, None)
        words = self._room(len(constrained), constrained[0][1].num_words)
        rows = np.full(len(constraints), -1, np.int32)
        rows[[row for row, _ in constrained]] = np.arange(len(constrained))
        errors = self._thread.submit(lambda: _fill(constrained, words))
        return Started(Masks(words, rows), errors)

    def _room(self, count: int, width: int) -> NDArray[np.uint32]:
        if self._words.shape[0] < count or self._words.shape[1] != width:
            self._words = np.zeros((count, width), np.uint32)
        return self._words[:count]


def _fill(constrained: Sequence[tuple[int, Constraint]], words: NDArray[np.uint32]) -> Errors:
    errors: Errors = {}
    for (row, constraint), mask in zip(constrained, words, strict=True):
        try:
            constraint.mask(mask)
        except PyriteError as error:
            mask[:] = 0
            errors[row] = error
    return errors
