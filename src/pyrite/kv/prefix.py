"""The prefix index: pages of keys and values, found again by the tokens they were computed from.

A tree: each cached page hangs below the one that holds the tokens before its own, and the first
ones below the root of their namespace. A child is found by its key, a strong hash, and its tokens
are compared before it is believed, so that a weak hash could cost hits and never an answer.

The index is one holder of each of its pages. A page that nobody else holds is idle; idle pages are
evicted when others need them, in the order that `Accounts` tells. Knows token ids and numbers of
pages: nothing of requests, nor of what lies in a page.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from pyrite.kv.accounts import Accounts
from pyrite.kv.keys import root_key
from pyrite.kv.pages import PAGE_TOKENS, PagePool
from pyrite.kv.states import States

NEIGHBOURS = 64  # children that are compared for the longest common beginning, the newest first


@dataclass(slots=True, eq=False)
class CachedPage:
    """One page in the tree, or the root of a namespace, which has no page and no tokens.

    With fewer than PAGE_TOKENS tokens it is the last one of a sequence that ended: it has no
    children, and who goes on from it needs a copy of the page.
    """

    key: bytes = field(repr=False)
    tokens: tuple[int, ...] = field(default=(), repr=False)
    page: int = -1
    parent: CachedPage | None = field(default=None, repr=False)
    children: dict[bytes, CachedPage] = field(default_factory=dict, repr=False)  # the newest last
    is_indexed: bool = True  # False once it was evicted
    tenant: str | None = ""  # on whose account it is, None: several's; changed by `Accounts` only
    slot: int = -1  # with the state after its last token; changed by `States` only


class PrefixIndex:
    """Pages of `pool` by what they hold. `fingerprint` names what computed them.

    `states` keeps checkpoints of some, for a model with states.
    """

    def __init__(self, pool: PagePool, fingerprint: str = "", states: States | None = None) -> None:
        self.version = 0  # changes whenever a page is published or forgotten
        self._pool = pool
        self._fingerprint = fingerprint
        self._states = states
        self._roots: dict[str, CachedPage] = {}  # by namespace; none is without children
        self._by_page: dict[int, CachedPage] = {}
        self._accounts = Accounts(pool.num_pages)

    @property
    def num_idle(self) -> int:
        """Pages that are free as soon as they are evicted."""
        return self._accounts.num_idle

    def is_idle(self, entry: CachedPage) -> bool:
        return self._accounts.is_idle(entry)

    def num_kept(self, tenant: str) -> int:
        """See `Accounts.num_kept`."""
        return self._accounts.num_kept(tenant)

    def by_page(self, page: int) -> CachedPage | None:
        return self._by_page.get(page)

    def root_key(self, namespace: str) -> bytes:
        return root_key(namespace, self._fingerprint)

    def root(self, namespace: str) -> CachedPage:
        """Of a namespace without pages it is one that the index does not keep."""
        return self._roots.get(namespace) or CachedPage(self.root_key(namespace))

    def child(self, parent: CachedPage, key: bytes, tokens: tuple[int, ...]) -> CachedPage | None:
        found = parent.children.get(key)
        return found if found is not None and found.tokens == tokens else None

    def nearest(self, parent: CachedPage, tokens: Sequence[int]) -> tuple[CachedPage | None, int]:
        """The child that begins most alike, and how many tokens it has in common."""
        best: CachedPage | None = None
        length = -1
        for child in islice(reversed(parent.children.values()), NEIGHBOURS):
            if (common := common_length(child.tokens, tokens)) > length:
                best, length = child, common
        return best, max(0, length)

    def last_checkpoint(self, parent: CachedPage, tokens: Sequence[int]) -> CachedPage | None:
        """The longest child that `tokens` begin with, of those with a checkpoint inside a page."""
        found = [
            child
            for child in islice(reversed(parent.children.values()), NEIGHBOURS)
            if child.slot >= 0
            and len(child.tokens) < PAGE_TOKENS
            and child.tokens == tuple(tokens[: len(child.tokens)])
        ]
        return max(found, key=lambda child: len(child.tokens), default=None)

    def publish(
        self,
        namespace: str,
        parent: CachedPage,
        key: bytes,
        tokens: tuple[int, ...],
        page: int,
        tenant: str = "",
    ) -> CachedPage | None:
        """Makes a page known whose tokens were all computed; the index becomes a holder of it.

        Gives the entry of these tokens, which may be one with another page that was there before.
        None when the key is taken by other tokens, or when the parent was evicted.
        """
        assert 0 < len(tokens) <= PAGE_TOKENS, tokens
        assert page not in self._by_page, f"page {page} is published twice"
        if not parent.is_indexed:
            return None
        if key in parent.children:
            return self.child(parent, key, tokens)
        if parent.parent is None:
            self._roots[namespace] = parent
        entry = CachedPage(key, tokens, page, parent, tenant=tenant)
        parent.children[key] = self._by_page[page] = entry
        self._accounts.enter(entry)
        self._pool.share([page])
        self.version += 1
        return entry

    def hold(self, entries: Iterable[CachedPage], tenant: str = "") -> None:
        """One more holder for the page of each, which the tenant uses."""
        for entry in entries:
            self._pool.share([entry.page])
            self._accounts.wake(entry)
            self._accounts.use(entry, tenant)

    def release(self, pages: Sequence[int]) -> None:
        """One holder fewer for each page, which are given in the order of their tokens."""
        self._pool.give_back(pages)
        for page in reversed(pages):
            entry = self._by_page.get(page)
            if entry is not None and self._pool.num_holders(page) == 1:
                self._accounts.rest(entry)

    def evict(self) -> None:
        """Frees one idle page. A page below it that others still hold is forgotten with it."""
        self._forget(self._accounts.next())

    def entries(self) -> Collection[CachedPage]:
        """All that it holds."""
        return self._by_page.values()

    def check(self) -> list[int]:
        """Asserts what holds between any two calls; gives the pages that the index holds."""
        reached = [entry for root in self._roots.values() for entry in _below(root)]
        assert {entry.page: entry for entry in reached} == self._by_page, "an entry out of reach"
        assert len(reached) == len(self._by_page), "two entries with one page"
        for entry in reached:
            assert entry.is_indexed, f"page {entry.page} was evicted"
            assert entry.parent is not None, entry.page
            assert entry.parent.children[entry.key] is entry, entry.page
            assert len(entry.tokens) == PAGE_TOKENS or not entry.children, entry.page
            is_idle = self._pool.num_holders(entry.page) == 1
            assert is_idle == self.is_idle(entry), f"page {entry.page}: idle is {not is_idle}"
        assert all(root.children for root in self._roots.values()), "an empty root is kept"
        self._accounts.check(reached)
        return list(self._by_page)

    def _forget(self, top: CachedPage) -> None:
        assert top.parent is not None, "a root is not evicted"
        self.version += 1
        del top.parent.children[top.key]
        for entry in [top, *_below(top)]:
            entry.is_indexed = False
            del self._by_page[entry.page]
            self._accounts.leave(entry)
            self._pool.give_back([entry.page])
            if self._states is not None:
                self._states.forget(entry)
        if top.parent.parent is None and not top.parent.children:
            self._roots = {name: root for name, root in self._roots.items() if root.children}


def common_length(left: Sequence[object], right: Sequence[object]) -> int:
    pairs = zip(left, right, strict=False)
    shorter = min(len(left), len(right))
    return next((i for i, (one, other) in enumerate(pairs) if one != other), shorter)


def _below(top: CachedPage) -> list[CachedPage]:
    """Everything below an entry, in an order in which parents go first."""
    found = list(top.children.values())
    for entry in found:  # it grows meanwhile
        found += entry.children.values()
    return found
