"""Guesses of a draft model: a small model of the same vocabulary goes ahead, greedily.

It runs as a runner of its own, with a small pool of pages of its own: a request whose pages are
taken for another is computed anew when its turn comes. A draft model with recurrent states has two
slots for each request: where its state is, and a copy from before its guesses, which is brought
back when one fails. Knows requests by their names and tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from pyrite.backends.base import Batch, Runner
from pyrite.kv.pages import PagePool, pages_for
from pyrite.sampling.speculate import LEAST_CHANCE
from pyrite.steptimes import StepTimes

FIRST_RATE = 0.7  # of guesses that hold, before any was verified
MEMORY = 0.9  # what a rate still weighs after one more guess was verified
FORGIVENESS = 0.01  # of the way back to FIRST_RATE that each step goes: a model is tried again
SAVING_GAIN = 0.1  # what one more copy of a state weighs
CATCH_UP_TOKENS = 128  # of all requests together that one step computes besides the guesses


@dataclass(slots=True)
class _Progress:
    """`ids`: the tokens whose keys and values lie in `pages`, and after which `slot` holds the
    state; guesses that failed may be last. `saved` holds the state after `num_saved` of them."""

    ids: list[int] = field(default_factory=list)
    num_known: int = 0  # of `ids` that are the request's for certain
    pages: list[int] = field(default_factory=list)
    slot: int = -1  # of a model without states there is none
    saved: int = -1
    num_saved: int = 0
    rate: float = FIRST_RATE
    asked_at: int = 0  # the last step in which it was to guess


class DraftModel:
    """A `Guesser`. `num_tokens`: ids below are the vocabulary; `context_length`: of the draft."""

    def __init__(self, runner: Runner, *, num_tokens: int, context_length: int) -> None:
        self._runner = runner
        self._num_tokens = num_tokens
        self._context_length = context_length
        self._pool = PagePool(runner.num_pages)
        self._has_state = runner.state_bytes > 0
        slots = range(runner.num_slots - 1) if self._has_state else range(0)
        self._free_slots = [(slot, slot + 1) for slot in slots[::2]]
        self._saving_seconds = 0.0  # of one state
        self._progress: dict[str, _Progress] = {}
        self._times = StepTimes()
        self._num_steps = 0

    def chances(self, request_id: str, token_ids: Sequence[int], most: int) -> list[float]:
        progress = self._progress.setdefault(request_id, _Progress())
        progress.rate += (FIRST_RATE - progress.rate) * FORGIVENESS
        room = self._context_length - len(token_ids)
        chances = [progress.rate ** (i + 1) for i in range(max(0, min(most, room)))]
        return [chance for chance in chances if chance >= LEAST_CHANCE]

    def seconds(self, num_requests: int, most: int) -> NDArray[np.float64]:
        """One run a guess, for all requests together. Nothing, until a run has been measured."""
        if not self._times.num_observed:
            return np.zeros(most + 1)
        counts = np.arange(most + 1)
        runs: NDArray[np.float64] = np.ceil(counts / num_requests)
        saving = np.minimum(counts, num_requests) * self._saving_seconds
        return runs * float(self._times.estimate(num_requests, 0)[0]) + saving

    def guesses(self, asked: Sequence[tuple[str, Sequence[int], int]]) -> list[list[int]]:
        """None yet for a request whose tokens are still being computed, or that has no pages."""
        self._num_steps += 1
        for request_id, token_ids, _ in asked:
            self._progress[request_id].asked_at = self._num_steps
            self._cut(self._progress[request_id], token_ids)
        ready = self._catch_up(asked)
        guesses: dict[str, list[int]] = {request_id: [] for request_id, _, _ in asked}
        going = {name: [*ids[len(self._progress[name].ids) :]] for name, ids, _ in ready}
        counts = {name: count for name, _, count in ready}
        while going:
            drawn = self._run(going)
            for name, token_id in drawn.items():
                guesses[name].append(token_id)
                if len(guesses[name]) == 1 < counts[name]:
                    self._save(self._progress[name])
            going = {
                name: [token_id]
                for name, token_id in drawn.items()
                if len(guesses[name]) < counts[name]
            }
        return [guesses[request_id] for request_id, _, _ in asked]

    def learn(self, request_id: str, num_guesses: int, num_held: int) -> None:
        progress = self._progress[request_id]
        for place in range(min(num_guesses, num_held + 1)):
            progress.rate = progress.rate * MEMORY + (place < num_held) * (1 - MEMORY)

    def forget(self, request_id: str) -> None:
        progress = self._progress.pop(request_id, None)
        if progress is not None:
            self._release(progress)

    def check(self) -> None:
        """Asserts what holds between any two steps."""
        self._pool.check(progress.pages for progress in self._progress.values())
        held = [(one.slot, one.saved) for one in self._progress.values() if one.slot >= 0]
        slots = [slot for pair in (*held, *self._free_slots) for slot in pair]
        assert sorted(slots) == list(range(len(slots))), f"a slot twice, or lost: {slots}"

    def _cut(self, progress: _Progress, token_ids: Sequence[int]) -> None:
        """Forgets guesses that failed; the last token is always computed, to guess from."""
        most = min(len(progress.ids), len(token_ids) - 1)
        while progress.num_known < most and (
            progress.ids[progress.num_known] == token_ids[progress.num_known]
        ):
            progress.num_known += 1
        failed = len(progress.ids) > progress.num_known
        del progress.ids[progress.num_known :]
        if failed and self._has_state:
            self._go_back(progress)

    def _save(self, progress: _Progress) -> None:
        """Keeps the state before guesses, after all tokens that are the request's."""
        if not self._has_state:
            return
        began = perf_counter()
        self._runner.copy_state(progress.slot, progress.saved)
        seconds = perf_counter() - began
        self._saving_seconds += SAVING_GAIN * (seconds - self._saving_seconds)
        progress.num_saved = len(progress.ids)

    def _go_back(self, progress: _Progress) -> None:
        """To the state that was saved; to none, from which the first token begins, where that is
        of more tokens than are to be left."""
        if progress.num_saved > progress.num_known:
            progress.num_saved = 0
        if progress.num_saved:
            self._runner.copy_state(progress.saved, progress.slot)
        progress.num_known = progress.num_saved
        del progress.ids[progress.num_saved :]

    def _catch_up(
        self, asked: Sequence[tuple[str, Sequence[int], int]]
    ) -> list[tuple[str, Sequence[int], int]]:
        """Those that have pages, and whose tokens are all computed but a few."""
        ready = []
        budget = CATCH_UP_TOKENS
        for request_id, token_ids, count in asked:
            progress = self._progress[request_id]
            behind = len(token_ids) - len(progress.ids)
            if not self._grow(progress, len(token_ids) + count):
                continue
            if behind <= min(budget, self._runner.max_tokens // len(asked)):
                ready.append((request_id, token_ids, count))
                budget -= behind
            elif size := min(budget, self._runner.max_tokens, behind - 1):
                start = len(progress.ids)
                self._run({request_id: list(token_ids[start : start + size])})
                budget -= size
        return ready

    def _grow(self, progress: _Progress, num_tokens: int) -> bool:
        """Gives it pages, and slots for its state, from those that were not asked for the longest
        time if need be."""
        missing = max(0, pages_for(num_tokens) - len(progress.pages))
        idle = sorted(
            (one for one in self._progress.values() if one.asked_at < self._num_steps),
            key=lambda one: one.asked_at,
        )
        while not self._take(progress, missing):
            if not idle:
                return False
            self._release(idle.pop(0))
        return True

    def _take(self, progress: _Progress, num_pages: int) -> bool:
        """All that is needed, or nothing."""
        needs_slots = self._has_state and progress.slot < 0
        if needs_slots and not self._free_slots:
            return False
        taken = self._pool.take(num_pages)
        if taken is None:
            return False
        progress.pages += taken
        if needs_slots:
            progress.slot, progress.saved = self._free_slots.pop()
        return True

    def _release(self, progress: _Progress) -> None:
        """It begins anew, if it goes on."""
        self._pool.give_back(progress.pages)
        progress.pages, progress.ids, progress.num_known = [], [], 0
        if progress.slot >= 0:
            self._free_slots.append((progress.slot, progress.saved))
            progress.slot, progress.saved, progress.num_saved = -1, -1, 0

    def _run(self, going: dict[str, list[int]]) -> dict[str, int]:
        """Computes tokens of several requests; what each would go on with."""
        batch = self._batch(going)
        began = perf_counter()
        logits = self._runner.run(batch)  # (requests, vocabulary)
        self._times.observe(batch.num_tokens, perf_counter() - began)
        for name, token_ids in going.items():
            self._progress[name].ids += token_ids
        likeliest = np.argmax(logits[:, : self._num_tokens], axis=1)
        return dict(zip(going, likeliest.tolist(), strict=True))

    def _batch(self, going: dict[str, list[int]]) -> Batch:
        progress = [self._progress[name] for name in going]
        width = max(len(one.pages) for one in progress)
        tables = np.full((len(going), width), -1, np.int32)  # (sequences, pages)
        for table, one in zip(tables, progress, strict=True):
            table[: len(one.pages)] = one.pages
        ends = np.cumsum([len(token_ids) for token_ids in going.values()])
        spans = [
            np.arange(len(one.ids), len(one.ids) + len(token_ids))
            for one, token_ids in zip(progress, going.values(), strict=True)
        ]
        return Batch(
            token_ids=np.concatenate(list(going.values())).astype(np.int32),
            positions=np.concatenate(spans).astype(np.int32),
            sequence_starts=np.array([0, *ends], np.int32),
            page_tables=tables,
            output_rows=(ends - 1).astype(np.int32),
            state_slots=np.array([one.slot for one in progress], np.int32),
        )
