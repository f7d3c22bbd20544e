"""Who computes what others are about to need: the next page of their prompt, or a state in it.

Whoever would compute the same waits instead, as long as the other one advances. In a model with
states a page alone is of no use, so those that lead are asked to stop where the others part from
them, and are waited for until their state is kept there. Knows sequences and keys of pages.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable

from pyrite.kv.cache import PageCache
from pyrite.kv.pages import PAGE_TOKENS
from pyrite.kv.prefix import common_length
from pyrite.kv.stops import LEAST_TOKENS
from pyrite.sequence import Sequence

STALLED_STEPS = 2  # without a slice: nobody waits any longer for the pages of such a sequence


class Leaders:
    """Of the sequences that run."""

    def __init__(self, cache: PageCache) -> None:
        self._cache = cache
        self._by_key: dict[bytes, Sequence] = {}  # who computes the page with this key

    def lead(self, sequence: Sequence) -> None:
        """Makes known which pages it is about to compute."""
        num_pages = sequence.num_tokens // PAGE_TOKENS
        for key in self._cache.keys(sequence.table, num_pages)[len(sequence.table.entries) :]:
            self._by_key.setdefault(key, sequence)

    def stop(self, sequence: Sequence, first: int, stop: int | None = None) -> None:
        """For those of its pages that were published, or never will be."""
        for key in sequence.table.keys[first:stop]:
            if self._by_key.get(key) is sequence:
                del self._by_key[key]

    def are_before(self, sequence: Sequence, running: Iterable[Sequence], step: int) -> bool:
        """True while another computes the next page that this one would find, and advances."""
        if not self._by_key or sequence.scores_prompt:
            return False
        if self._cache.states is not None and self._will_keep(sequence, running, step):
            return True
        key = self._cache.next_key(sequence.table, sequence.num_tokens)
        leader = None if key is None else self._by_key.get(key)
        if leader is None or not _advances(leader, step):
            return False
        if self._cache.states is not None:
            self._stop_for(sequence, leader)
        return True

    def check(self) -> None:
        assert all(leader.is_running for leader in self._by_key.values()), "a leader is gone"

    def _will_keep(self, sequence: Sequence, running: Iterable[Sequence], step: int) -> bool:
        """True while another is on its way to a state that is further on than what is kept."""
        own = self._own_keys(sequence)
        ends = [
            number * PAGE_TOKENS
            for leader in running
            if _advances(leader, step)
            for number in (stop // PAGE_TOKENS for stop in leader.stops)
            if own[number - 1 : number] == leader.table.keys[number - 1 : number] != []
        ]
        if not ends:
            return False
        found = self._cache.find(sequence.table, sequence.num_tokens)
        return max(ends) > len(found.entries) * PAGE_TOKENS + found.num_partial

    def _stop_for(self, sequence: Sequence, leader: Sequence) -> None:
        """The leader's state shall be kept where the one that waits will part from it."""
        if sequence.asked == leader.arrival:
            return
        sequence.asked = leader.arrival
        end = common_length(self._own_keys(sequence), leader.table.keys) * PAGE_TOKENS
        is_ahead = leader.num_computed_tokens < end >= leader.scheduled_to
        if is_ahead and end >= LEAST_TOKENS and end not in leader.stops:
            insort(leader.stops, end)

    def _own_keys(self, sequence: Sequence) -> list[bytes]:
        """Of the whole pages before its last token."""
        count = (sequence.num_tokens - 1) // PAGE_TOKENS
        return self._cache.keys(sequence.table, count)[:count]


def _advances(leader: Sequence, step: int) -> bool:
    return step - leader.advanced_at <= STALLED_STEPS
