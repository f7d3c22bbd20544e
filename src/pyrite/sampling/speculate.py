"""Guesses of a request's next tokens, and how many of them are worth verifying.

A guess that is verified costs a row of the step's batch, and saves a step where it holds. Tokens
are the same with and without: guesses only say which rows are computed ahead. Knows one request's
tokens at a time; nothing of pages or models.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pyrite._native.sampling import Ngrams

MOST_GUESSES = 15  # of one request in one step: with the token before them, rows to fill tiles
LEAST_CHANCE = 0.05  # of a guess that is thought about
LEAST_GAIN = 1.02  # tokens a second: below, what is known of times and chances is too vague

# How often the token after a match of at least so many tokens was foreseen: taken for granted as
# if seen PRIOR times, until the request's own text has shown better. Of a match that was resumed
# (see native/sampling/ngrams.h) a few tokens tell more.
RESUMED = 64
LENGTHS = (2, 3, 4, 6, 9, 13, 20, *(RESUMED + length for length in (1, 2, 3, 5, 9)))
CHANCES = (0.1, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, *(0.5, 0.65, 0.75, 0.85, 0.9))
PRIOR = 3.0
MEMORY = 0.95  # what an observation still weighs after the next one


class Guesser(Protocol):
    """A method of guessing. It is told all tokens of a request each time, which only grow."""

    def chances(self, request_id: str, token_ids: Sequence[int], most: int) -> list[float]:
        """That the first guess holds, the first two, and so on: at most `most`, falling."""
        ...

    def guesses(self, asked: Sequence[tuple[str, Sequence[int], int]]) -> list[list[int]]:
        """For each (request, its tokens, count) at most so many; called after `chances`."""
        ...

    def seconds(self, num_requests: int, most: int) -> NDArray[np.float64]:
        """What it takes to make 0 to `most` guesses for the requests together. (most + 1,)"""
        ...

    def learn(self, request_id: str, num_guesses: int, num_held: int) -> None:
        """So many guesses were verified, and the first so many held."""
        ...

    def forget(self, request_id: str) -> None:
        """The request has ended."""
        ...


class Repetition:
    """The n-gram method: what followed the same tokens before, in the prompt or in the answer."""

    def __init__(self) -> None:
        self._lookups: dict[str, Lookup] = {}

    def chances(self, request_id: str, token_ids: Sequence[int], most: int) -> list[float]:
        lookup = self._lookups.get(request_id)
        if lookup is None:
            lookup = self._lookups[request_id] = Lookup(token_ids)
        lookup.accept(token_ids[lookup.num_tokens :])
        return lookup.chances(most)

    def guesses(self, asked: Sequence[tuple[str, Sequence[int], int]]) -> list[list[int]]:
        return [self._lookups[request_id].guesses(count) for request_id, _, count in asked]

    def seconds(self, num_requests: int, most: int) -> NDArray[np.float64]:
        return np.zeros(most + 1)  # some microseconds

    def learn(self, request_id: str, num_guesses: int, num_held: int) -> None:
        """A lookup sees by itself what it foresaw."""

    def forget(self, request_id: str) -> None:
        self._lookups.pop(request_id, None)


class Lookup:
    """Guesses for one request.

    Each token of the answer shows whether the match before it foresaw it, also when nothing was
    guessed aloud: a request that does not repeat itself costs no guesses, and one that begins to
    is noticed at once.
    """

    def __init__(self, token_ids: Sequence[int]) -> None:
        self.num_tokens = len(token_ids)  # that it knows
        self._ngrams = Ngrams()
        self._ngrams.extend(np.array(token_ids, np.int32))
        self._seen = [PRIOR] * len(LENGTHS)
        self._held = [PRIOR * chance for chance in CHANCES]

    def accept(self, token_ids: Sequence[int]) -> None:
        """What the answer goes on with."""
        self.num_tokens += len(token_ids)
        for token_id in token_ids:
            told = self._ngrams.append(token_id)
            if told:
                self._learn(abs(told), foreseen=told > 0)

    def chances(self, count: int) -> list[float]:
        chances: list[float] = []
        together, length = 1.0, self._ngrams.length
        while length and len(chances) < count:
            bucket = _bucket(length + len(chances))
            together *= self._held[bucket] / self._seen[bucket]
            if together < LEAST_CHANCE:
                break
            chances.append(together)
        return chances

    def guesses(self, count: int) -> list[int]:
        return self._ngrams.predict(count)

    def _learn(self, length: int, *, foreseen: bool) -> None:
        bucket = _bucket(length)
        self._seen[bucket] = self._seen[bucket] * MEMORY + 1
        self._held[bucket] = self._held[bucket] * MEMORY + foreseen


def _bucket(length: int) -> int:
    return bisect_right(LENGTHS, length) - 1


def worthwhile(
    chances: Sequence[Sequence[float]],
    num_rows: int,
    seconds: NDArray[np.float64],
    *,
    saving: float = 0.0,
    again: float = 0.0,
) -> list[int]:
    """How many guesses of each request to verify: those with which a step yields most a second.

    `num_rows` rows of use are computed anyway: tokens of prompts, and rows that tokens are drawn
    from. `seconds[i]` is what a step with `i` rows more takes; guesses beyond are left. Where
    states go back when a guess fails, a request that guesses takes `saving` seconds more, and each
    of its rows that is computed again takes `again`.
    """
    ranked = sorted(
        (
            (chance, -owner, place * (before - chance) * again + (place == 1) * saving)
            for owner, own in enumerate(chances)
            for place, (before, chance) in enumerate(pairwise((1.0, *own)), start=1)
        ),
        reverse=True,
    )[: len(seconds) - 1]
    times = seconds.tolist()
    best, speed = 0, LEAST_GAIN * num_rows / times[0]
    expected, more = float(num_rows), 0.0
    for count, (chance, _, cost) in enumerate(ranked, start=1):
        expected += chance
        more += cost
        if expected > speed * (times[count] + more):
            best, speed = count, expected / (times[count] + more)
    counts = [0] * len(chances)
    for _, owner, _ in ranked[:best]:
        counts[-owner] += 1
    return counts
