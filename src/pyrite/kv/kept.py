"""What outlives the pool: pages of a table, and states after them, that a keeper has elsewhere.

Knows token ids, keys and numbers of pages; what a keeper does is its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from pyrite.kv.keys import state_key
from pyrite.kv.pages import PAGE_TOKENS
from pyrite.kv.prefix import CachedPage
from pyrite.kv.states import StateBytes
from pyrite.kv.table import Found, PageTable, tokens_of

if TYPE_CHECKING:
    from pyrite.kv.cache import PageCache

LEAST_READ = 2  # pages before a state that is read, at least


class Keeper(Protocol):
    """Where pages outlive the pool."""

    step_pages: int  # that one step may read

    def has(self, key: bytes) -> bool: ...

    def restore(self, key: bytes, token_ids: Sequence[int], depth: int, page: int) -> bool:
        """Fills a page of the pool, which nobody reads yet; False when it cannot be had."""
        ...

    def state(self, key: bytes, token_ids: Sequence[int], depth: int) -> StateBytes | None:
        """The state after a page; None when it cannot be had."""
        ...

    def offer(self, entries: Sequence[CachedPage]) -> None:
        """Pages that may be worth keeping, from the first one on, with their checkpoints."""
        ...


class Kept:
    """What `keeper` has for tables of `cache`."""

    def __init__(self, cache: PageCache, keeper: Keeper) -> None:
        self.keeper = keeper
        self._cache = cache

    def has_page(self, table: PageTable, number: int, num_tokens: int) -> bool:
        """Whether it has a page which does not hold the last of `num_tokens`."""
        if number >= (num_tokens - 1) // PAGE_TOKENS:
            return False
        return self.keeper.has(self._cache.keys(table, number + 1)[number])

    def restore(self, table: PageTable, num_computed: int, num_tokens: int, most: int) -> int:
        """Reads what is kept of a table's next pages, `most` at most; gives how many it read.

        None of them holds the last of `num_tokens`. They are to be committed.
        """
        if not self.may_restore(table, num_computed, num_tokens):
            return 0
        first = number = num_computed // PAGE_TOKENS
        while number < first + most and self.has_page(table, number, num_tokens):
            if not self._read(table, number):
                break
            number += 1
        return number - first

    def may_restore(self, table: PageTable, num_computed: int, num_tokens: int) -> bool:
        """Whether the page after the computed ones is kept, and would be found by others."""
        number, rest = divmod(num_computed, PAGE_TOKENS)
        if rest or not table.is_published or len(table.entries) != number:
            return False
        return self.has_page(table, number, num_tokens)

    def state_at(self, table: PageTable, found: Found, num_tokens: int) -> int:
        """Tokens after which a state is kept, further on than what was found; 0 if none is."""
        begun = len(found.entries) + (found.partial is not None)
        last = (num_tokens - 1) // PAGE_TOKENS
        keys = self._cache.keys(table, last)
        numbers = range(last, begun + LEAST_READ - 1, -1)
        kept = (number for number in numbers if self.keeper.has(state_key(keys[number - 1])))
        return next(kept, 0) * PAGE_TOKENS

    def restore_state(self, table: PageTable, kept_to: int, most: int) -> int | None:
        """Reads the table's next pages up to `kept_to`, `most` at most, and then the state there.

        Gives how many it read, which are fewer than `most` once all is there; None when something
        cannot be had. The pages are the table's own until they are committed.
        """
        first = number = max(len(table.entries), table.num_read)
        stop = kept_to // PAGE_TOKENS
        while number < min(stop, first + most):
            if not self._read(table, number):
                return None
            number += 1
        table.num_read = number
        if number - first < most and not self._read_state(table, stop - 1):
            return None
        return number - first

    def offer(self, table: PageTable, num_tokens: int) -> None:
        """The first `num_tokens` tokens are a prompt, and were computed without fault."""
        self.keeper.offer(table.entries[: num_tokens // PAGE_TOKENS])

    def _read(self, table: PageTable, number: int) -> bool:
        if not self._cache.grow(table, (number + 1) * PAGE_TOKENS):
            return False
        key, tokens = table.keys[number], tokens_of(table, number)
        return self.keeper.restore(key, tokens, number, table.pages[number])

    def _read_state(self, table: PageTable, number: int) -> bool:
        """After a page."""
        assert self._cache.states is not None
        key = state_key(table.keys[number])
        state = self.keeper.state(key, tokens_of(table, number), number)
        if state is None:
            return False
        self._cache.states.fill(table, state)
        return True
