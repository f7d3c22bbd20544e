"""Which sequence computes how many tokens in the next step. Pure policy: no arrays, no text.

There is no prefill phase and no decode phase. Every sequence has `num_computed_tokens` chasing
`num_tokens` under one budget of tokens a step: a long prompt is cut into chunks by the budget, and
a sequence that was preempted simply chases from zero again.

The order of sequences is (priority, arrival). Sequences one token behind go first in a step, so
that a long prompt delays the streams of the others by one step at most. When pages run out, the
last sequence of the order gives its pages back and is computed anew later; numbers do not depend
on company, so its output is the same.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator
from dataclasses import dataclass, field

from pyrite.backends.base import PAGE_TOKENS
from pyrite.errors import CapacityError
from pyrite.kv.pages import PagePool

SCORED_TOKENS = 64  # prompt tokens with logits of their own in one step: each is a whole row


@dataclass(slots=True, eq=False)
class Sequence:
    """One request as the scheduler sees it. Filled by the engine; changed by the scheduler only."""

    request_id: str
    num_tokens: int  # known so far: the prompt and what was sampled
    max_length: int  # num_tokens never exceeds it
    priority: int = 0  # lower goes first
    arrival: int = 0  # filled by Scheduler.add
    num_computed_tokens: int = 0  # whose keys and values are in `pages`
    num_cached_tokens: int = 0  # of the prompt, found in the prefix index when it was admitted
    pages: list[int] = field(default_factory=list)
    num_drafts: int = 0  # guessed tokens after the known ones, to be computed if there is room
    scores_prompt: bool = False  # logits of all its prompt are wanted: no cached prefix may serve

    @property
    def num_behind(self) -> int:
        """Tokens that are known and not computed."""
        return self.num_tokens - self.num_computed_tokens

    @property
    def order(self) -> tuple[int, int]:
        return (self.priority, self.arrival)


@dataclass(frozen=True, slots=True)
class Slice:
    """`num_tokens` tokens of a sequence to compute, from its `num_computed_tokens` on; then the
    first `num_drafts` of its guessed ones."""

    sequence: Sequence
    num_tokens: int
    num_drafts: int = 0

    @property
    def reaches_end(self) -> bool:
        """True when the next token can be sampled after this slice."""
        return self.num_tokens == self.sequence.num_behind


def pages_for(num_tokens: int) -> int:
    return -(-num_tokens // PAGE_TOKENS)


class Scheduler:
    """Owns the page lists of all sequences; every sequence is waiting (no pages) or running."""

    def __init__(self, pool: PagePool, max_batch_tokens: int) -> None:
        assert max_batch_tokens > 0, max_batch_tokens
        self.pool = pool
        self.max_batch_tokens = max_batch_tokens
        self.waiting: list[Sequence] = []  # by order
        self.running: list[Sequence] = []  # by order
        self.num_preemptions = 0  # since the start
        self.num_computed_tokens = 0  # since the start
        self._num_arrived = 0

    @property
    def has_work(self) -> bool:
        return bool(self.waiting or self.running)

    def add(self, sequence: Sequence) -> None:
        """Raises CapacityError when the sequence would not fit even alone."""
        needed, available = pages_for(sequence.max_length), self.pool.num_pages
        if needed > available:
            raise CapacityError(
                f"the request may grow to {sequence.max_length} tokens, which take {needed} pages, "
                f"and there are {available}",
                hint="ask for fewer tokens, or load the model with more pages",
            )
        sequence.arrival = self._num_arrived
        self._num_arrived += 1
        insort(self.waiting, sequence, key=_order)

    def remove(self, sequence: Sequence) -> None:
        """Forgets a sequence that ended, failed or was cancelled; its pages are free at once."""
        (self.running if sequence in self.running else self.waiting).remove(sequence)
        self._release(sequence)

    def schedule(self) -> list[Slice]:
        """The slices of the next step, with pages for their tokens; empty when there is no work."""
        step = _Step(self.max_batch_tokens)
        for sequence in sorted(self.running, key=lambda one: (one.num_behind > 1, one.order)):
            if sequence in self.running:  # it may have been preempted by one before it
                self._extend(sequence, step)
        while self.waiting and step.budget > 0 and self._may_admit(self.waiting[0]):
            sequence = self.waiting.pop(0)
            insort(self.running, sequence, key=_order)
            self._extend(sequence, step)
        assert step.slices or not self.has_work, "work, and nothing scheduled"
        return step.slices

    def commit(self, work: Slice, num_sampled: int) -> None:
        """The slice was computed, and `num_sampled` tokens were added after it.

        All of these but the last equal drafts, which are computed; what was written for the drafts
        after them is written anew in time.
        """
        sequence = work.sequence
        sequence.num_computed_tokens += work.num_tokens + max(0, num_sampled - 1)
        self.num_computed_tokens += work.num_tokens
        sequence.num_tokens += num_sampled
        assert sequence.num_computed_tokens <= sequence.num_tokens <= sequence.max_length, sequence

    def check(self) -> None:
        """Asserts what holds between any two steps."""
        self.pool.check(sequence.pages for sequence in self.running)
        for sequence in self.running:
            held = len(sequence.pages) * PAGE_TOKENS
            assert sequence.num_computed_tokens <= held, f"{sequence}: computed without pages"
        for sequence in self.waiting:
            assert not sequence.pages, f"{sequence}: waits with pages"
            assert sequence.num_computed_tokens == 0, f"{sequence}: waits, partly computed"
        for queue in (self.waiting, self.running):
            assert queue == sorted(queue, key=_order), "a queue is out of order"

    def _extend(self, sequence: Sequence, step: _Step) -> None:
        """Adds a slice for the sequence if the budget and the pages allow one."""
        room = min(step.budget, step.scored_budget) if sequence.scores_prompt else step.budget
        count = min(sequence.num_behind, room)
        if count > 0 and self._grow(sequence, sequence.num_computed_tokens + count, step):
            step.add(Slice(sequence, count, self._granted_drafts(sequence, count, step)))

    def _granted_drafts(self, sequence: Sequence, count: int, step: _Step) -> int:
        """As many of its drafts as budget and pages have room for; none is preempted for them."""
        if count < sequence.num_behind:
            return 0
        wanted = min(sequence.num_drafts, step.budget - count)
        end = sequence.num_computed_tokens + count
        missing = pages_for(end + wanted) - len(sequence.pages)
        if missing > 0 and missing <= self.pool.num_free - self._num_claimed():
            sequence.pages += self.pool.take(missing) or ()
        return max(0, min(wanted, len(sequence.pages) * PAGE_TOKENS - end))

    def _grow(self, sequence: Sequence, num_tokens: int, step: _Step) -> bool:
        """Gives the sequence pages for `num_tokens` tokens, preempting others if need be."""
        missing = max(0, pages_for(num_tokens) - len(sequence.pages))
        victims = self._victims(sequence, step)
        while (taken := self.pool.take(missing)) is None:
            victim = next(victims, None)
            if victim is None:
                return False
            self._preempt(victim)
        sequence.pages += taken
        return True

    def _victims(self, sequence: Sequence, step: _Step) -> Iterator[Sequence]:
        """Who may be preempted for the sequence: those after it that have no slice yet, last first.

        The first of the order can therefore take every page, unless another has a slice already:
        each step computes something.
        """
        for other in reversed(self.running.copy()):
            if other.order > sequence.order and id(other) not in step.scheduled:
                yield other

    def _preempt(self, sequence: Sequence) -> None:
        self.running.remove(sequence)
        self._release(sequence)
        self.num_preemptions += 1
        insort(self.waiting, sequence, key=_order)

    def _release(self, sequence: Sequence) -> None:
        self.pool.give_back(sequence.pages)
        sequence.pages = []
        sequence.num_computed_tokens = 0

    def _may_admit(self, sequence: Sequence) -> bool:
        """True when the pages for all its tokens and one more are free.

        Pages that running sequences still need for tokens they know count as taken.
        """
        return _num_claimed(sequence) <= self.pool.num_free - self._num_claimed()

    def _num_claimed(self) -> int:
        return sum(_num_claimed(other) for other in self.running)


class _Step:
    """The slices of a step while it is being scheduled, and the tokens left in its budget."""

    def __init__(self, budget: int) -> None:
        self.slices: list[Slice] = []
        self.scheduled: set[int] = set()  # id() of their sequences
        self.budget = budget
        self.scored_budget = SCORED_TOKENS

    def add(self, work: Slice) -> None:
        self.slices.append(work)
        self.scheduled.add(id(work.sequence))
        self.budget -= work.num_tokens + work.num_drafts
        self.scored_budget -= work.num_tokens * work.sequence.scores_prompt


def _order(sequence: Sequence) -> tuple[int, int]:
    return sequence.order


def _num_claimed(sequence: Sequence) -> int:
    """Pages that it does not have and needs for its known tokens and the next one."""
    num_tokens = min(sequence.num_tokens + 1, sequence.max_length)
    return max(0, pages_for(num_tokens) - len(sequence.pages))
