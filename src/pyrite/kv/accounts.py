"""Whose cached pages go first: fair shares between tenants of what nobody else needs.

Each page of the index is on one tenant's account. The page to go is of the tenant that has most of
them, and of its own the one that was not used for longest; so a tenant that fills the memory evicts
itself, one alone may have it all, and one with less than its share keeps what it has. Pages that
several have used are on an account of their own, as if of one more tenant. What hangs below a page
goes before it, but no tenant's page goes for another's: a page below which only others' hang is
theirs from then on.

Knows pages and names: nothing of requests or keys.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyrite.kv.prefix import CachedPage

Tenant = str | None  # None: several
KEPT_SHARE = 2  # of its fair share, what is kept for a tenant while others' requests run: a half


class Accounts:
    """The pages of one index, of `num_pages` that there are."""

    def __init__(self, num_pages: int) -> None:
        self.num_idle = 0
        self._num_pages = num_pages
        self._owned: Counter[Tenant] = Counter()  # never 0
        self._idle: dict[Tenant, OrderedDict[CachedPage, None]] = {}  # the next to go first

    def enter(self, entry: CachedPage) -> None:
        """For `entry.tenant`."""
        self._owned[entry.tenant] += 1

    def leave(self, entry: CachedPage) -> None:
        self.wake(entry)
        self._owned[entry.tenant] -= 1
        if not self._owned[entry.tenant]:
            del self._owned[entry.tenant]

    def use(self, entry: CachedPage, tenant: str) -> None:
        """The tenant uses the page, which is not idle."""
        if entry.tenant not in (tenant, None):
            self._give(entry, None)

    def is_idle(self, entry: CachedPage) -> bool:
        return entry in self._idle.get(entry.tenant, ())

    def rest(self, entry: CachedPage) -> None:
        """Nobody needs it from now on."""
        self._idle.setdefault(entry.tenant, OrderedDict())[entry] = None
        self.num_idle += 1

    def wake(self, entry: CachedPage) -> None:
        """Somebody needs it, if nobody did."""
        if not self.is_idle(entry):
            return
        self.num_idle -= 1
        del self._idle[entry.tenant][entry]
        if not self._idle[entry.tenant]:
            del self._idle[entry.tenant]

    def next(self) -> CachedPage:
        """The idle page to go first."""
        while True:
            tenant = max(self._idle, key=self._owned.__getitem__)
            entry, below = self._lowest(next(iter(self._idle[tenant])))
            if below is None:
                return entry
            self._give(entry, below.tenant)
            self.rest(entry)

    def num_kept(self, tenant: str) -> int:
        """Idle pages that are not taken for another request of the tenant while some run."""
        others = self._idle.keys() - {tenant}
        if not others:
            return 0
        most = self._num_pages // (KEPT_SHARE * len(self._owned.keys() | {tenant}))
        return sum(min(most, len(self._idle[other])) for other in others)

    def check(self, reached: list[CachedPage]) -> None:
        """Asserts what holds between any two calls; `reached` are all pages of the index."""
        assert Counter(entry.tenant for entry in reached) == self._owned, self._owned
        idle = [entry for entries in self._idle.values() for entry in entries]
        assert all(self._idle.values()), "an empty list is kept"
        assert all(entry in self._idle[entry.tenant] for entry in idle), "idle elsewhere"
        assert len(idle) == self.num_idle, self.num_idle
        assert set(idle) <= set(reached), "an entry that was evicted is idle"

    def _give(self, entry: CachedPage, tenant: Tenant) -> None:
        """It is not idle then."""
        self.leave(entry)
        entry.tenant = tenant
        self.enter(entry)

    def _lowest(self, entry: CachedPage) -> tuple[CachedPage, CachedPage | None]:
        """An idle page of the same tenant at or below this one that has none below; and an idle
        one of somebody else that still hangs below it."""
        while True:
            below = [child for child in entry.children.values() if self.is_idle(child)]
            own = next((child for child in below if child.tenant == entry.tenant), None)
            if own is None:
                return entry, below[0] if below else None
            entry = own
