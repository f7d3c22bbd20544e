"""Which sequence computes how many tokens in the next step. Pure policy: no arrays, no text.

There is no prefill phase and no decode phase. Every sequence has `num_computed_tokens` chasing
`num_tokens` under one budget of tokens a step: a long prompt is cut into chunks by the budget, and
a sequence that was preempted simply chases from zero again, or from what the cache kept.

Streams, one token behind, go first in a step, and beside them the others get `prefill_chunk`
tokens, so that a prompt, however long, delays the streams by that much a step. For a crowd it is
as many again for every two more prompts that could be computed now, up to the whole step: so many
wait for their first token that longer gaps of the others cost less. A tenant's crowd is one prompt
beside the streams of another. Guessed tokens of the streams have what is left of the step. Who gets
a prompt's tokens is decided by priority, then by the fair share of tenants, then by arrival.
Waiting makes a priority better, a level each `aging_steps`, up to the best that anyone here has: so
nobody waits for ever, and a tenant's old heap goes before nobody else's new prompt. A sequence
whose next page is being computed by another waits for it, as long as that one advances.

When pages run out, the last of the order (priority, arrival) gives its pages back and is computed
anew later; numbers do not depend on company, so its output is the same.

A sequence of a model with states runs in a slot; one that gets none waits. Its prompt is cut where
the state is to be kept. A state that went on over guesses that failed is given up for the one that
was saved before them, and the tokens that held are computed again with the next.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from pyrite.errors import CapacityError
from pyrite.kv.cache import PageCache
from pyrite.kv.kept import Kept
from pyrite.kv.pages import PAGE_TOKENS, pages_for
from pyrite.kv.stops import stops_of
from pyrite.kv.table import Found
from pyrite.leaders import Leaders
from pyrite.records import dataclass
from pyrite.sequence import Sequence, Slice
from pyrite.shares import Queues, Shares, num_beside
from pyrite.step import Step

LOOKED_AT = 32  # sequences of a queue: for one that waits for no other's pages; for a crowd


@dataclass(frozen=True, slots=True)
class Policy:
    """The numbers that steer a scheduler."""

    max_batch_tokens: int  # of one step
    prefill_chunk: int = 112  # of one step that streams are part of, for a prompt beside them
    fair_tokens: int = 512  # that a tenant may be ahead before another interrupts its prompt
    aging_steps: int = 200  # of waiting for each level of priority

    def chunk(self, crowd: int) -> int:
        """Tokens of one step for so many prompts beside streams; the step may hold fewer."""
        return self.prefill_chunk * max(1, (crowd + 1) // 2)


class Scheduler:
    """Owns the page tables of all sequences; each is waiting (without pages) or running."""

    def __init__(self, cache: PageCache, policy: Policy) -> None:
        assert min(policy.max_batch_tokens, policy.prefill_chunk, policy.aging_steps) > 0, policy
        self.cache = cache
        self.policy = policy
        self.waiting = Queues()
        self.running: list[Sequence] = []
        self.num_preemptions = 0  # since the start, as those below
        self.num_computed_tokens = 0
        self.num_queried_tokens = 0  # of prompts that were looked up in the prefix index
        self.num_found_tokens = 0  # of these
        self._shares = Shares()
        self._leaders = Leaders(cache)
        self._num_arrived = 0
        self._num_steps = 0
        self._best_priority = 0  # of those who are here, without what waiting adds

    @property
    def has_work(self) -> bool:
        return bool(self.waiting or self.running)

    def add(self, sequence: Sequence) -> None:
        """Raises CapacityError when the sequence would not fit even alone."""
        needed = self.cache.num_most(sequence.max_length)
        available = self.cache.pool.num_pages
        if needed > available:
            raise CapacityError(
                f"the request may grow to {sequence.max_length} tokens, which take {needed} pages, "
                f"and there are {available}",
                hint="ask for fewer tokens, or load the model with more pages",
            )
        sequence.arrival = self._num_arrived
        sequence.arrived_at = self._num_steps
        self._num_arrived += 1
        self._shares.enter(sequence.tenant)
        self.waiting.add(sequence)

    def remove(self, sequence: Sequence) -> None:
        """Forgets a sequence that ended, failed or was cancelled; its pages are free at once."""
        if sequence.is_running:
            self._stop(sequence)
        else:
            self.waiting.remove(sequence)
        self._shares.leave(sequence.tenant)

    def schedule(self) -> list[Slice]:
        """The slices of the next step, with pages for their tokens; empty when there is no work."""
        self._num_steps += 1
        heads = (queue[0] for queue in self.waiting.each())
        here = itertools.chain(self.running, heads)
        self._best_priority = min((sequence.priority for sequence in here), default=0)
        self.running.sort(key=self._order)
        step = Step(self.policy.max_batch_tokens, self.cache.kept)
        for sequence in self.running.copy():
            if sequence.table.is_moving:  # the last step was broken off
                self._preempt(sequence)
        for sequence in self.running.copy():
            if sequence.is_stream and sequence.is_running:  # else: preempted meanwhile
                self._extend(sequence, step)
        if step.slices:
            streams = [work.sequence.tenant for work in step.slices]
            crowd = num_beside(streams, (one.tenant for one in self._prompts()))
            step.budget = min(step.budget, self.policy.chunk(crowd))
        self._catch_up(step)
        self._grant_drafts(step)
        is_idle = not (step.slices or self.cache.has_copies or step.has_read)
        assert not (is_idle and self.has_work), "work, and nothing scheduled"
        return step.slices

    def commit(self, work: Slice, num_sampled: int) -> None:
        """The slice was computed, and `num_sampled` tokens were added after it.

        All of these but the last equal drafts, which are computed; what was written for the drafts
        after them is written anew in time.
        """
        sequence = work.sequence
        num_held = max(0, num_sampled - 1)
        sequence.table.is_moving = False
        if self.cache.states is not None and num_held < work.num_drafts:
            self.cache.states.settle(sequence.table, goes_back=True)
            sequence.num_again = work.num_tokens + num_held
        else:
            self._advance(sequence, work.num_tokens + num_held)
        self.num_computed_tokens += work.num_tokens + work.num_drafts
        sequence.num_tokens += num_sampled
        assert sequence.num_computed_tokens <= sequence.num_tokens <= sequence.max_length, sequence
        self._publish(sequence)
        if num_sampled and not sequence.is_offered:
            sequence.is_offered = True
            if self.cache.kept is not None:
                self.cache.kept.offer(sequence.table, sequence.num_tokens - num_sampled)

    def check(self) -> None:
        """Asserts what holds between any two steps."""
        self.cache.check(sequence.table for sequence in self.running)
        for sequence in self.running:
            assert sequence.is_running, sequence
            has_slot = sequence.table.slot >= 0
            assert has_slot == (self.cache.states is not None), f"{sequence}: its slot"
            stops = [sequence.num_computed_tokens, *sequence.stops]
            assert all(one < other for one, other in itertools.pairwise(stops)), stops
            held = len(sequence.pages) * PAGE_TOKENS
            assert sequence.num_computed_tokens <= held, f"{sequence}: computed without pages"
        for sequence in self.waiting:
            assert not sequence.is_running, sequence
            assert not sequence.pages, f"{sequence}: waits with pages"
            assert sequence.table.slot == sequence.table.spare == -1, f"{sequence}: waits in a slot"
            assert sequence.num_computed_tokens == 0, f"{sequence}: waits, partly computed"
        self._leaders.check()
        self.waiting.check()
        self._shares.check(sequence.tenant for sequence in [*self.running, *self.waiting])

    def _advance(self, sequence: Sequence, count: int) -> None:
        if self.cache.states is not None:
            self.cache.states.settle(sequence.table, goes_back=False)
        sequence.num_computed_tokens += count
        sequence.num_again = max(0, sequence.num_again - count)

    def _publish(self, sequence: Sequence) -> None:
        """Makes its computed pages known, and keeps its state where that is wanted."""
        num_published = len(sequence.table.entries)
        self.cache.commit(sequence.table, sequence.num_computed_tokens)
        table = sequence.table
        if not table.is_published:
            self._leaders.stop(sequence, num_published)
        elif len(table.entries) > num_published:
            self._leaders.stop(sequence, num_published, len(table.entries))
        while sequence.stops and sequence.stops[0] <= sequence.num_computed_tokens:
            stop = sequence.stops.pop(0)
            if stop == sequence.num_computed_tokens:  # else: guesses went over it
                self.cache.checkpoint(table, stop)

    def _prompts(self) -> Iterator[Sequence]:
        """Those further behind than a stream: who run, and who wait and would find pages."""
        yield from (sequence for sequence in self.running if not sequence.is_stream)
        spare = self.cache.num_free - self._num_claimed_by_running() if self.waiting else 0
        slots = LOOKED_AT if self.cache.states is None else self.cache.states.num_available
        for queue in self.waiting.each():
            for sequence in queue[:LOOKED_AT]:
                spare -= self._num_claimed(sequence)
                slots -= self.cache.states is not None
                if spare < 0 or slots < 0:
                    return
                yield sequence

    def _catch_up(self, step: Step) -> None:
        """Slices for those that are further behind, running or not, by turns."""
        may_admit = True
        while step.budget > 0:
            found = self._next(step, may_admit)
            if found is None:
                return
            if found.is_running or self._admit(found):
                self._extend(found, step)
                step.tried.add(id(found))
            else:
                may_admit = False  # nor anyone smaller: it would never find room

    def _next(self, step: Step, may_admit: bool) -> Sequence | None:
        candidates = [
            sequence
            for sequence in self.running
            if not sequence.is_stream and id(sequence) not in step.tried
        ]
        if may_admit:
            candidates += self._heads(step)
        return min(candidates, key=self._turn, default=None)

    def _heads(self, step: Step) -> list[Sequence]:
        """Those who may be admitted next, one of each queue at most; looked for once in a step,
        and anew when others were admitted or preempted."""
        state = (self.num_preemptions, len(self.running))
        if step.heads_at != state:
            heads = map(self._head, self.waiting.each())
            step.heads = [head for head in heads if head is not None]
            step.heads_at = state
        return step.heads

    def _head(self, queue: list[Sequence]) -> Sequence | None:
        """The first of a queue that does not wait for another's pages."""
        first = itertools.islice(queue, LOOKED_AT)
        return next((sequence for sequence in first if not self._follows(sequence)), None)

    def _follows(self, sequence: Sequence) -> bool:
        """True while it had better wait for what another computes."""
        return self._leaders.are_before(sequence, self.running, self._num_steps)

    def _turn(self, sequence: Sequence) -> tuple[int, int, int]:
        """Whose turn it is goes first; one that has begun goes on for a while."""
        used = self._shares.used(sequence.tenant)
        bonus = self.policy.fair_tokens if sequence.is_running else 0
        return (self._rank(sequence), used - bonus, sequence.arrival)

    def _order(self, sequence: Sequence) -> tuple[int, int]:
        return (self._rank(sequence), sequence.arrival)

    def _rank(self, sequence: Sequence) -> int:
        """Its priority, the better the longer it has been here, at most level with the best."""
        num_levels = (self._num_steps - sequence.arrived_at) // self.policy.aging_steps
        return max(sequence.priority - num_levels, self._best_priority)

    def _extend(self, sequence: Sequence, step: Step) -> None:
        """Adds a slice for the sequence if the budget and the pages allow one."""
        if sequence.num_behind > PAGE_TOKENS and not self._restore(sequence, step):
            return
        room = min(step.budget, step.scored_budget) if sequence.scores_prompt else step.budget
        count = min(sequence.num_behind, room)
        if sequence.stops:
            count = min(count, sequence.stops[0] - sequence.num_computed_tokens)
        if count > 0 and self._grow(sequence, sequence.num_computed_tokens + count, step):
            step.add(Slice(sequence, count))
            sequence.table.is_moving = self.cache.states is not None
            sequence.scheduled_to = sequence.num_computed_tokens + count
            sequence.advanced_at = self._num_steps
            self._shares.charge(sequence.tenant, count)

    def _restore(self, sequence: Sequence, step: Step) -> bool:
        """Reads what is kept of its next pages; False: there is more of it for the next step."""
        kept = self.cache.kept
        if kept is None or sequence.scores_prompt:
            return True
        if self.cache.states is not None:
            return self._restore_state(sequence, step, kept)
        table = sequence.table
        known = (sequence.num_computed_tokens, sequence.num_tokens)
        count = kept.restore(table, *known, step.num_readable)
        if count:
            step.num_readable -= count
            step.has_read = True
            sequence.advanced_at = self._num_steps
            self._count_found(sequence, count * PAGE_TOKENS)
            self._publish(sequence)
        known = (sequence.num_computed_tokens, sequence.num_tokens)
        return step.num_readable > 0 or not kept.may_restore(table, *known)

    def _restore_state(self, sequence: Sequence, step: Step, kept: Kept) -> bool:
        """The same of pages and the state after them, of which neither is of use alone."""
        if not sequence.kept_to:
            return True
        if step.num_readable == 0:
            return False
        count = kept.restore_state(sequence.table, sequence.kept_to, step.num_readable)
        if count is None:
            sequence.kept_to = 0
            return True
        step.has_read = True
        sequence.advanced_at = self._num_steps
        if count == step.num_readable:
            step.num_readable = 0
            return False
        step.num_readable = 0  # a state is as large as many pages
        self._count_found(sequence, sequence.kept_to - sequence.num_computed_tokens)
        sequence.stops = [stop for stop in sequence.stops if stop > sequence.kept_to]
        self._publish(sequence)
        self.cache.checkpoint(sequence.table, sequence.kept_to)
        sequence.kept_to = 0
        return True

    def _count_found(self, sequence: Sequence, num_tokens: int) -> None:
        sequence.num_computed_tokens += num_tokens
        if not sequence.is_offered:  # else: preempted, and its own prompt is read again
            sequence.num_cached_tokens += num_tokens
            self.num_found_tokens += num_tokens

    def _grant_drafts(self, step: Step) -> None:
        """As many guessed tokens as budget and pages leave room for; none is preempted for them."""
        room = self.policy.max_batch_tokens - step.num_tokens
        for number, work in enumerate(step.slices):
            if work.sequence.num_drafts and work.reaches_end:
                granted = self._drafts(work, min(work.sequence.num_drafts, room))
                step.slices[number] = Slice(work.sequence, work.num_tokens, granted)
                room -= granted

    def _drafts(self, work: Slice, wanted: int) -> int:
        sequence = work.sequence
        end = sequence.num_computed_tokens + work.num_tokens
        missing = pages_for(end + wanted) - len(sequence.pages)
        if missing > 0 and missing <= self.cache.num_free - self._num_claimed_by_running():
            self.cache.grow(sequence.table, end + wanted)
        count = max(0, min(wanted, len(sequence.pages) * PAGE_TOKENS - end))
        if count and self.cache.states is not None and not self.cache.states.save(sequence.table):
            return 0
        return count

    def _grow(self, sequence: Sequence, num_tokens: int, step: Step) -> bool:
        """Gives the sequence pages for `num_tokens` tokens, preempting others if need be."""
        if self.cache.grow(sequence.table, num_tokens):
            return True
        for victim in self._victims(sequence, step):
            self._preempt(victim)
            if self.cache.grow(sequence.table, num_tokens):
                return True
        return False

    def _victims(self, sequence: Sequence, step: Step) -> Iterator[Sequence]:
        """Who may be preempted for the sequence: those after it that have no slice yet, last first.

        The first of the order can therefore take every page, unless another has a slice already:
        each step computes something.
        """
        own = self._order(sequence)
        for other in sorted(self.running, key=self._order, reverse=True):
            if self._order(other) > own and id(other) not in step.scheduled:
                yield other

    def _preempt(self, sequence: Sequence) -> None:
        self._stop(sequence)
        self.num_preemptions += 1
        self.waiting.add(sequence)

    def _stop(self, sequence: Sequence) -> None:
        self.running.remove(sequence)
        sequence.is_running = False
        self._leaders.stop(sequence, 0)
        self.cache.release(sequence.table, sequence.num_computed_tokens)
        sequence.num_computed_tokens = 0
        sequence.num_again = 0
        sequence.kept_to = 0
        sequence.scheduled_to = 0
        sequence.stops = []

    def _admit(self, sequence: Sequence) -> bool:
        """Lets it run if the pages for all its tokens and one more are free, and a slot."""
        if self.cache.states is not None and self.cache.states.num_available == 0:
            return False
        found = self._find(sequence)
        spare = self._num_spare(sequence, found)
        kept_to = self._kept_to(sequence, found) if spare >= 0 else 0
        if self.cache.states is not None and (kept_to or spare == 0):
            found = self._find(sequence, copies=False)
            spare = self._num_spare(sequence, found)
        if spare < 0:
            return False
        sequence.kept_to = kept_to
        self.waiting.remove(sequence)
        # A page that is copied is held until then, besides its copy.
        sequence.num_computed_tokens = self.cache.adopt(sequence.table, found, copies=spare > 0)
        sequence.is_running = True
        self.running.append(sequence)
        self._note(sequence)
        self._leaders.lead(sequence)
        if self.cache.states is not None and self.cache.is_on:
            sequence.stops = stops_of(
                sequence.num_computed_tokens,
                found.num_known,
                sequence.num_tokens,
                kept=found.num_kept_tokens,
            )
        return True

    def _find(self, sequence: Sequence, *, copies: bool = True) -> Found:
        if sequence.scores_prompt:
            return Found()
        return self.cache.find(sequence.table, sequence.num_tokens, copies=copies)

    def _kept_to(self, sequence: Sequence, found: Found) -> int:
        if self.cache.states is None or self.cache.kept is None or sequence.scores_prompt:
            return 0
        return self.cache.kept.state_at(sequence.table, found, sequence.num_tokens)

    def _num_spare(self, sequence: Sequence, found: Found) -> int:
        """Pages that are left if it runs.

        Those that running sequences still need for tokens they know count as taken, and while any
        runs so do those that are kept for other tenants: what runs may grow into them.
        """
        needed = self.cache.num_taken(found, _num_next(sequence))
        kept = self.cache.num_kept(sequence.table, found) if self.running else 0
        return self.cache.num_free - self._num_claimed_by_running() - needed - kept

    def _note(self, sequence: Sequence) -> None:
        """What the cache had for it when it came; not what it finds after a preemption."""
        if sequence.was_admitted:
            return
        sequence.was_admitted = True
        if sequence.explains:
            sequence.parting = self.cache.part(sequence.table, sequence.num_tokens)
        if self.cache.is_on and not sequence.scores_prompt:
            sequence.num_cached_tokens = sequence.num_computed_tokens
            self.num_queried_tokens += sequence.num_tokens
            self.num_found_tokens += sequence.num_computed_tokens

    def _num_claimed_by_running(self) -> int:
        return sum(map(self._num_claimed, self.running))

    def _num_claimed(self, sequence: Sequence) -> int:
        """Pages that it does not have and needs for its known tokens and the next one."""
        return self.cache.num_lacking(sequence.table, _num_next(sequence))


def _num_next(sequence: Sequence) -> int:
    return min(sequence.num_tokens + 1, sequence.max_length)
