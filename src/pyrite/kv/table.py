"""What the cache keeps of one sequence, and what it tells of one: plain records.

Knows token ids and numbers of pages and slots, as the cache does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from pyrite.kv.pages import PAGE_TOKENS
from pyrite.kv.prefix import CachedPage
from pyrite.records import dataclass


@dataclass(slots=True, eq=False)
class PageTable:
    """The pages of one sequence. Filled by its owner; changed by the cache only.

    `token_ids` is the owner's own list, which grows; a cache that is off never looks at it.
    """

    token_ids: Sequence[int] = field(default=(), repr=False)
    namespace: str = field(default="", repr=False)
    tenant: str = field(default="", repr=False)  # on whose account its cached pages are
    pages: list[int] = field(default_factory=list)  # -1: outside of the window, given back
    version: int = 0  # of `pages`: no two tables, nor one that changed, have the same
    entries: list[CachedPage] = field(default_factory=list, repr=False)  # of its published pages
    keys: list[bytes] = field(default_factory=list, repr=False)  # of its first full pages
    num_dropped: int = 0  # pages at the front that are -1
    num_read: int = 0  # pages at the front that are whole, though no state goes with them yet
    is_published: bool = True  # False: what follows `entries` stays its own
    next_key: bytes | None = field(default=None, repr=False)  # see PageCache.next_key
    next_key_at: int = -1  # the index's version for which `next_key` holds
    slot: int = -1  # where its state moves along, if the model has states
    spare: int = -1  # the slot with its state before guessed tokens, while these are computed
    is_moving: bool = False  # a step was begun: what the slot holds is not known until its end
    known: CachedPage | None = field(default=None, repr=False)  # the last page before that key,
    num_known: int = 0  # and how many pages there are up to it


@dataclass(frozen=True, slots=True)
class Found:
    """What the index has of a sequence: whole pages, then the beginning of one more."""

    entries: tuple[CachedPage, ...] = ()
    partial: CachedPage | None = None
    num_partial: int = 0  # tokens of `partial`
    num_known: int = 0  # whole pages that are known, of which `entries` may be the first only

    @property
    def num_kept_tokens(self) -> int:
        """Up to the end of the last whole page with a checkpoint."""
        kept = (number for number, entry in enumerate(self.entries, start=1) if entry.slot >= 0)
        return max(kept, default=0) * PAGE_TOKENS


@dataclass(frozen=True, slots=True)
class Parting:
    """Where tokens part from the cached ones that are nearest to them."""

    position: int
    cached_ids: tuple[int, ...]
    prompt_ids: tuple[int, ...]


def tokens_of(table: PageTable, number: int) -> tuple[int, ...]:
    """Of one page."""
    return tuple(table.token_ids[number * PAGE_TOKENS : (number + 1) * PAGE_TOKENS])
