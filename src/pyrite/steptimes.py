"""How long a step takes as a function of the rows in its batch: measured while the engine runs.

The machine's speed, the neighbours' load and the length of the requests move all steps together;
that common part is followed faster than the curve's shape.
"""

from __future__ import annotations

import math
from bisect import bisect_left

import numpy as np
from numpy.typing import NDArray

# Numbers of rows that are told apart; others lie on the line between two of them.
SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
FIRST_SLOPE = 0.25  # of a step for each row more, while only one size has been seen
LEVEL_GAIN = 0.3  # how much of a surprise is taken for the machine's
LEAST_GAIN = 0.04  # and for the curve's, once much has been seen
SURPRISES = (-0.5, 0.2)  # nats that count at most; what is slower still is somebody else's doing
FORGIVENESS = 0.3  # nats that a size becomes cheaper in theory while it is not tried
FORGIVEN_AFTER = 1000  # steps
DRAWN_EVERY = 16  # steps: drawing the curve takes as long as a percent of a small model's step


class StepTimes:
    """The running estimate. Sizes that nobody tries become cheaper in theory, slowly, so that they
    are tried again: a single measurement on a busy machine shall not count for ever."""

    def __init__(self) -> None:
        self._level = 0.0  # log seconds
        self._shape = np.full(len(SIZES), np.nan)  # log, relative to the level; NaN: never seen
        self._count = np.zeros(len(SIZES))
        self._last = np.zeros(len(SIZES))  # step in which it was seen
        self._curve = np.empty(0)  # (rows,) seconds of 1 row, of 2, ...; drawn now and then
        self._drawn_at = 0  # step
        self.num_observed = 0

    def observe(self, num_rows: int, seconds: float) -> None:
        self.num_observed += 1
        size, measured = _size(num_rows), math.log(max(seconds, 1e-9))
        if self.num_observed == 1:
            self._level = measured
        if not self._count[size]:
            self._shape[size] = measured - self._level
            self._curve = np.empty(0)
        surprise = measured - self._level - self._shape[size]
        surprise = max(SURPRISES[0], min(SURPRISES[1], surprise))
        self._count[size] += 1
        self._last[size] = self.num_observed
        self._level += LEVEL_GAIN * surprise
        self._shape[size] += max(1 / self._count[size], LEAST_GAIN) * surprise

    def estimate(self, num_rows: int, more: int) -> NDArray[np.float64]:
        """Seconds of steps of `num_rows` to `num_rows + more` rows, never falling. (more + 1,)"""
        last = num_rows + more
        if last > len(self._curve) or self.num_observed - self._drawn_at >= DRAWN_EVERY:
            self._curve = self._draw(max(last, SIZES[-1]))
            self._drawn_at = self.num_observed
        return self._curve[num_rows - 1 : last]

    def _draw(self, most: int) -> NDArray[np.float64]:
        """The curve up to `most` rows. (most,)"""
        rows = np.arange(1, most + 1)
        known = np.flatnonzero(self._count)
        if not len(known):
            return _first_guess(rows)
        age = (self.num_observed - self._last[known]) / FORGIVEN_AFTER
        logs = self._shape[known] - FORGIVENESS * np.minimum(age, 1)
        sizes, times = np.array(SIZES)[known], np.maximum.accumulate(np.exp(self._level + logs))
        beyond = _slope_at_end(sizes, times) * np.maximum(rows - sizes[-1], 0)
        before = np.minimum(_first_guess(rows) / _first_guess(sizes[0]), 1)
        seconds: NDArray[np.float64] = (np.interp(rows, sizes, times) + beyond) * before
        return seconds


def _first_guess(rows: NDArray[np.int64]) -> NDArray[np.float64]:
    return 1.0 + FIRST_SLOPE * (rows.astype(np.float64) - 1)


def _slope_at_end(sizes: NDArray[np.int64], times: NDArray[np.float64]) -> float:
    """Of the line through the last two points: seconds a row."""
    if len(sizes) == 1:
        return FIRST_SLOPE * float(times[0] / _first_guess(sizes[0]))
    return float((times[-1] - times[-2]) / (sizes[-1] - sizes[-2]))


def _size(num_rows: int) -> int:
    """The index of the nearest size, by ratio."""
    above = min(bisect_left(SIZES, num_rows), len(SIZES) - 1)
    if above == 0 or num_rows * num_rows >= SIZES[above] * SIZES[above - 1]:
        return above
    return above - 1
