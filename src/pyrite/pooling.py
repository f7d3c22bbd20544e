"""Pooling: the hidden states of a text, row by row as they are computed, into one vector.

Rows are added in order of their positions, one at a time, so that the vector does not depend on
how the text was cut. Knows no model and no batch.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyrite.errors import BackendError, ParameterError

Floats = NDArray[np.float32]

POOLINGS = ("mean", "last", "cls", "none")


class Pool:
    """One text of `num_tokens` tokens. "cls" is the first token's state, "none" keeps them all."""

    def __init__(self, pooling: str, num_tokens: int) -> None:
        self.pooling = pooling
        self.num_tokens = num_tokens
        self._rows: list[Floats] = []
        self._total: NDArray[np.float64] | None = None

    def wanted(self, start: int, stop: int) -> range:
        """Which of the positions start : stop the pool takes."""
        if self.pooling == "last":
            return range(max(start, self.num_tokens - 1), stop)
        if self.pooling == "cls":
            return range(start, min(stop, 1))
        return range(start, stop)

    def add(self, rows: Floats) -> None:
        """States of the next wanted positions. (positions, width)"""
        if self.pooling != "mean":
            self._rows.append(rows.copy())
            return
        if self._total is None:
            self._total = np.zeros(rows.shape[1])
        for row in rows:  # never a sum over rows: its order would follow the cut
            self._total += row

    def vector(self, *, normalize: bool, dimensions: int | None) -> Floats:
        """(width,), or (tokens, width) of "none"; width is `dimensions` where that is given.

        Raises BackendError for states that are not finite.
        """
        pooled = self._pooled()[..., :dimensions]
        if not np.isfinite(pooled).all():
            raise BackendError("the model gave a hidden state that is no number")
        return (unit(pooled) if normalize else pooled).astype(np.float32)

    def _pooled(self) -> NDArray[np.float64]:
        if self._total is not None:
            return self._total / self.num_tokens
        states = np.concatenate(self._rows).astype(np.float64)
        return states if self.pooling == "none" else states[0]


def unit(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each vector at length 1; zeros stay zeros."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    scaled: NDArray[np.float64] = vectors / np.where(lengths == 0, 1, lengths)
    return scaled


def check_pooling(pooling: object) -> None:
    if pooling not in POOLINGS:
        raise ParameterError("pooling", pooling, "one of " + ", ".join(POOLINGS))


def check_dimensions(dimensions: object, width: int) -> None:
    whole = isinstance(dimensions, int) and not isinstance(dimensions, bool)
    if dimensions is not None and not (whole and 1 <= dimensions <= width):  # type: ignore[operator]
        raise ParameterError("dimensions", dimensions, f"a whole number from 1 to {width}")
