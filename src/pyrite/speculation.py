"""Speculation in an engine: which guesses the next step verifies, and what came of them.

A guess only says which rows are computed ahead; tokens are drawn as they are without. Knows
continuations and sequences; how guesses are made is the guesser's, and how they fit into a step
the scheduler's.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence as Many

from pyrite.continuation import Continuation
from pyrite.sampling.speculate import MOST_GUESSES, Guesser, worthwhile
from pyrite.sequence import Sequence
from pyrite.steptimes import StepTimes

MOST_AGAIN = 8  # tokens that a request computes again beside guesses: more are computed without
SAVING_GAIN = 0.1  # what one more observation weighs
CERTAIN = 0.99  # the chance of a token that a grammar forces: the request may end before it
logger = logging.getLogger("pyrite")


class Speculation:
    """`guesser`: the method; None: nothing is guessed. The engine tells what each step took."""

    def __init__(self, guesser: Guesser | None = None) -> None:
        self.times = StepTimes()
        self.num_drafts = 0  # runs of guesses that were verified
        self.num_drafted = 0  # guesses in them
        self.accepted_at = [0] * MOST_GUESSES  # guesses that held, by their place in the run
        self.saving_seconds: float | None = None  # of a state, before guesses; None: there is none
        self._guesser = guesser
        self._forced: dict[str, list[int]] = {}  # by request: what its grammar forces next

    def propose(self, running: Many[tuple[Continuation, Sequence]], budget: int) -> None:
        """Fills in the drafts of all requests. `budget`: the most tokens that a step computes."""
        if self._guesser is None:
            return
        for continuation, sequence in running:
            continuation.drafts = []
            sequence.num_drafts = 0
        try:
            self._propose(self._guesser, running, budget)
        except Exception as error:  # guesses are a help, and no reason for a request to fail
            logger.warning("nothing is guessed from now on: %s", error)
            self._guesser = None

    def _propose(
        self, guesser: Guesser, running: Many[tuple[Continuation, Sequence]], budget: int
    ) -> None:
        drawing = [pair for pair in running if _most(pair[1]) > 0]
        self._forced = {}
        chances = [self._chances(guesser, *pair) for pair in drawing]
        if any(chances):
            num_rows = min(budget, sum(sequence.num_behind for _, sequence in running))
            num_again = min(num_rows - 1, sum(sequence.num_again for _, sequence in running))
            counts = self._counts(guesser, chances, num_rows, num_again)
            self._guess(guesser, drawing, counts)

    def _chances(
        self, guesser: Guesser, continuation: Continuation, sequence: Sequence
    ) -> list[float]:
        """What a grammar forces is certain; the guesser hears of the request all the same."""
        name, most = sequence.request_id, _most(sequence)
        chances = guesser.chances(name, continuation.token_ids, most)
        if continuation.constraint is None:
            return chances
        forced = continuation.constraint.forced_tokens()[:most]
        if not forced:
            return chances
        self._forced[name] = forced
        return [CERTAIN] * len(forced)

    def observe_saving(self, seconds: float) -> None:
        """What copying one state took."""
        before = seconds if self.saving_seconds is None else self.saving_seconds
        self.saving_seconds = before + SAVING_GAIN * (seconds - before)

    def learn(self, request_id: str, num_drafts: int, num_accepted: int) -> None:
        """Of a request's drafts so many were verified, and so many of them held."""
        if num_drafts == 0:
            return
        self.num_drafts += 1
        self.num_drafted += num_drafts
        for place in range(num_accepted):
            self.accepted_at[place] += 1
        if self._guesser is not None and request_id not in self._forced:
            self._guesser.learn(request_id, num_drafts, num_accepted)

    def forget(self, request_id: str) -> None:
        if self._guesser is not None:
            self._guesser.forget(request_id)

    def _counts(
        self, guesser: Guesser, chances: list[list[float]], num_rows: int, num_again: int
    ) -> list[int]:
        most = sum(len(own) for own in chances)
        seconds = self.times.estimate(num_rows, most) + guesser.seconds(len(chances), most)
        again = 0.0 if self.saving_seconds is None else float(seconds[-1] - seconds[0]) / most
        saving = self.saving_seconds or 0.0
        return worthwhile(chances, num_rows - num_again, seconds, saving=saving, again=again)

    def _guess(
        self, guesser: Guesser, drawing: list[tuple[Continuation, Sequence]], counts: list[int]
    ) -> None:
        chosen = [(*pair, count) for pair, count in zip(drawing, counts, strict=True) if count]
        asked = [
            (sequence.request_id, one.token_ids, count)
            for one, sequence, count in chosen
            if sequence.request_id not in self._forced
        ]
        guesses = {ask[0]: told for ask, told in zip(asked, guesser.guesses(asked), strict=True)}
        for continuation, sequence, count in chosen:
            tokens = (self._forced | guesses)[sequence.request_id][:count]
            continuation.drafts = continuation.admissible(tokens)
            sequence.num_drafts = len(continuation.drafts)


def _most(sequence: Sequence) -> int:
    """Guesses that the sequence may have: it draws in this step, and one more after them."""
    if not sequence.is_stream or sequence.num_again > MOST_AGAIN:
        return 0
    return min(MOST_GUESSES, sequence.max_length - sequence.num_tokens - 1)
