"""Whose turn it is: fair shares of computed tokens between tenants, and the queues of who waits.

Fairness is by virtual time: what was computed for a tenant since it became busy. One that comes
back from idling starts level with the busy ones: idling earns no credit, nor does a short pause
wipe out what it has used. Knows nothing of pages or steps.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Iterable, Iterator

from pyrite.sequence import Sequence


class Shares:
    """Tokens computed for each tenant, comparable between those that are busy."""

    def __init__(self) -> None:
        self._num_busy: Counter[str] = Counter()  # sequences of each tenant, never 0
        self._used: dict[str, int] = {}  # of the busy, and of the idle that are ahead of them

    def enter(self, tenant: str) -> None:
        """One more sequence of the tenant."""
        if tenant not in self._num_busy:
            self._used[tenant] = max(self._used.get(tenant, 0), self._level())
        self._num_busy[tenant] += 1

    def leave(self, tenant: str) -> None:
        self._num_busy[tenant] -= 1
        if self._num_busy[tenant] == 0:
            del self._num_busy[tenant]
            self._forget()

    def charge(self, tenant: str, num_tokens: int) -> None:
        self._used[tenant] += num_tokens

    def used(self, tenant: str) -> int:
        return self._used[tenant]

    def check(self, tenants: Iterable[str]) -> None:
        """Asserts that `tenants`, of each sequence one, are exactly the busy ones."""
        assert Counter(tenants) == self._num_busy, self._num_busy
        assert self._num_busy.keys() <= self._used.keys(), "a tenant without a count"
        assert self._num_busy or not self._used, "idle tenants are remembered for ever"

    def _level(self) -> int:
        """Of the busy tenant that has had the least."""
        return min((self._used[tenant] for tenant in self._num_busy), default=0)

    def _forget(self) -> None:
        """Drops the idle tenants that would start level with the busy ones anyway."""
        level = self._level()
        self._used = {
            tenant: used
            for tenant, used in self._used.items()
            if tenant in self._num_busy or (self._num_busy and used > level)
        }


def num_beside(streams: Iterable[str], prompts: Iterable[str]) -> int:
    """How many prompts wait beside streams, both given by their tenants.

    For a stream those of its own tenant count, and each other tenant is one; of all streams the
    least. So nobody's heap of prompts is more than one to the streams of others.
    """
    waiting = Counter(prompts)
    return min(waiting[own] + len(waiting.keys() - {own}) for own in set(streams))


class Queues:
    """Those that wait: one queue by arrival for each priority of each tenant."""

    def __init__(self) -> None:
        self._queues: dict[tuple[int, str], list[Sequence]] = {}  # none is empty

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def __bool__(self) -> bool:
        return bool(self._queues)

    def __iter__(self) -> Iterator[Sequence]:
        for queue in self._queues.values():
            yield from queue

    def each(self) -> list[list[Sequence]]:
        """The queues, in no order; to be read only."""
        return list(self._queues.values())

    def add(self, sequence: Sequence) -> None:
        queue = self._queues.setdefault((sequence.priority, sequence.tenant), [])
        insort(queue, sequence, key=_arrival)

    def remove(self, sequence: Sequence) -> None:
        key = (sequence.priority, sequence.tenant)
        self._queues[key].remove(sequence)
        if not self._queues[key]:
            del self._queues[key]

    def check(self) -> None:
        for (priority, tenant), queue in self._queues.items():
            assert queue == sorted(queue, key=_arrival), "a queue is out of order"
            assert queue, "an empty queue is kept"
            assert all((one.priority, one.tenant) == (priority, tenant) for one in queue), queue


def _arrival(sequence: Sequence) -> int:
    return sequence.arrival
