"""Pages for sequences: found by their tokens, taken, published when computed, given back.

A page is written by one sequence alone: full pages are shared as they are, and of a page that is
shared in part a copy is taken. Pages become known to others only when the step that computed them
was committed. Pages hold all layers together, so a page can be given back before its sequence ends
only in a model whose every layer has a window; models that mix keep all pages.

A model with states goes on from a page only where a checkpoint of its state was kept: at chosen
ends of whole pages of a prompt, and wherever a sequence came to its end.

Knows token ids and numbers of pages: nothing of priorities, nor of what lies in a page.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable

from pyrite.kv.kept import Keeper, Kept
from pyrite.kv.keys import page_key
from pyrite.kv.pages import PAGE_TOKENS, PagePool, pages_for
from pyrite.kv.prefix import CachedPage, PrefixIndex
from pyrite.kv.states import States
from pyrite.kv.table import Found, PageTable, Parting, tokens_of

LEAST_COPIED = 4  # tokens: to compute fewer costs less than to copy their page
SHOWN = 8  # tokens that tell where a prompt parts from a cached one
_versions = itertools.count(1)  # of page tables


class PageCache:
    """`window`: positions that some layer sees, 0 for all; a table grows by `step_tokens` at most
    before the pages outside of it are given back. `fingerprint` names what computes the pages.
    `states` has the slots of a model with states."""

    def __init__(
        self,
        pool: PagePool,
        *,
        window: int = 0,
        step_tokens: int = 1,
        fingerprint: str = "",
        is_on: bool = True,
        keeper: Keeper | None = None,
        states: States | None = None,
    ) -> None:
        self.pool = pool
        self.states = states
        self.kept = Kept(self, keeper) if keeper is not None and is_on else None
        self.index = PrefixIndex(pool, fingerprint, states)
        self.window = window
        self.is_on = is_on
        self._most_in_sight = pages_for(window + step_tokens) + 1
        self._copies: deque[tuple[int, int]] = deque()  # each holds its source until it is done

    @property
    def num_free(self) -> int:
        """Pages that can be taken: nobody but the index holds them."""
        return self.pool.num_free + self.index.num_idle

    @property
    def has_copies(self) -> bool:
        return bool(self._copies)

    def take(self, count: int) -> list[int] | None:
        """`count` pages with one holder each, or None when fewer are free: all or nothing."""
        if count > self.num_free:
            return None
        while self.pool.num_free < count:
            self.index.evict()
        return self.pool.take(count)

    def find(self, table: PageTable, num_tokens: int, *, copies: bool = True) -> Found:
        """What the index has of the first `num_tokens` tokens, the last of which is left out.

        It has to be computed in any case, for the logits after it. `copies`: a page may be copied.
        """
        if not self.is_on:
            return Found()
        entries = self._walk(table, (num_tokens - 1) // PAGE_TOKENS)
        if self.states is not None:
            return self._find_checkpoint(table, num_tokens, entries, copies=copies)
        parent = entries[-1] if entries else self.index.root(table.namespace)
        rest = table.token_ids[len(entries) * PAGE_TOKENS : num_tokens - 1][:PAGE_TOKENS]
        partial, common = self.index.nearest(parent, rest)
        is_kept = self.kept is not None and self.kept.has_page(table, len(entries), num_tokens)
        if not copies or common < LEAST_COPIED or is_kept:
            return Found(tuple(entries), num_known=len(entries))
        return Found(tuple(entries), partial, common, len(entries))

    def checkpoint(self, table: PageTable, num_computed: int) -> None:
        """Keeps the state after so many tokens, which are whole pages, if these are known."""
        if self.states is not None and len(table.entries) * PAGE_TOKENS == num_computed > 0:
            self.states.checkpoint(table, table.entries[-1])

    def part(self, table: PageTable, num_tokens: int) -> Parting | None:
        """Where the first `num_tokens` tokens part from what is cached; None: nowhere."""
        entries = self._walk(table, num_tokens // PAGE_TOKENS) if self.is_on else []
        parent = entries[-1] if entries else self.index.root(table.namespace)
        begun = len(entries) * PAGE_TOKENS
        rest = table.token_ids[begun:num_tokens]
        nearest, common = self.index.nearest(parent, rest[:PAGE_TOKENS])
        if common == len(rest):
            return None
        cached = () if nearest is None else _following(nearest, common)
        return Parting(begun + common, cached, tuple(rest[common:][:SHOWN]))

    def num_most(self, num_tokens: int, num_dropped: int = 0) -> int:
        """Pages that a table holds at a time, at most, until it has `num_tokens` tokens."""
        pages = pages_for(num_tokens) - num_dropped
        return min(pages, self._most_in_sight) if self.window else pages

    def num_lacking(self, table: PageTable, num_tokens: int) -> int:
        """Pages that the table has to take until it has `num_tokens` tokens."""
        held = len(table.pages) - table.num_dropped
        return max(0, self.num_most(num_tokens, table.num_dropped) - held)

    def num_taken(self, found: Found, num_tokens: int) -> int:
        """The same of a table that begins with what was found; idle pages count as taken."""
        num_dropped = self._num_out_of_sight(len(found.entries) * PAGE_TOKENS)
        kept = found.entries[num_dropped:]
        lacking = max(0, self.num_most(num_tokens, num_dropped) - len(kept))
        return lacking + sum(map(self.index.is_idle, kept))

    def num_kept(self, table: PageTable, found: Found) -> int:
        """Of the free pages, those that are kept for other tenants than the table's."""
        shared = (one for one in found.entries if one.tenant != table.tenant)
        return max(0, self.index.num_kept(table.tenant) - sum(map(self.index.is_idle, shared)))

    def adopt(self, table: PageTable, found: Found, *, copies: bool) -> int:
        """Begins a table without pages with what was found; gives the number of its tokens.

        `copies`: there is a page to spare for the source of a copy, until that is done.
        """
        assert not table.pages, table
        self.index.hold(found.entries, table.tenant)
        table.entries = list(found.entries)
        table.pages = [entry.page for entry in found.entries]
        table.version = next(_versions)
        num_computed = len(table.pages) * PAGE_TOKENS
        self._slide(table, num_computed)
        last = found.entries[-1] if found.entries else None
        if copies and found.partial is not None and self._copy(table, found.partial):
            num_computed += found.num_partial
            last = found.partial
        if self.states is not None:
            self.states.begin(table, last)
        return num_computed

    def grow(self, table: PageTable, num_tokens: int) -> bool:
        """Gives the table pages for `num_tokens` tokens; False when too few are free."""
        missing = pages_for(num_tokens) - len(table.pages)
        if missing <= 0:
            return True
        taken = self.take(missing)
        if taken is None:
            return False
        table.pages += taken
        table.version = next(_versions)
        return True

    def commit(self, table: PageTable, num_computed: int) -> None:
        """The first `num_computed` tokens have their keys and values in the pages."""
        if len(table.entries) < num_computed // PAGE_TOKENS:
            self._publish(table, num_computed)
        if self.window:
            self._slide(table, num_computed)

    def release(self, table: PageTable, num_computed: int) -> None:
        """Gives all pages back. What was computed stays known while nobody needs the pages."""
        last = self._publish_last(table, num_computed)
        if self.states is not None:
            self.states.end(table, None if table.is_moving else last)
        self.index.release(table.pages[table.num_dropped :])
        table.pages = []
        table.entries = []
        table.num_dropped = 0
        table.num_read = 0
        table.is_published = True
        table.is_moving = False
        table.next_key_at = -1
        table.known = None
        table.version = next(_versions)

    def run_copies(self, copy_page: Callable[[int, int], None]) -> None:
        """Copies the pages that `adopt` promised, in order, before anything is computed."""
        while self._copies:
            source, target = self._copies[0]
            copy_page(source, target)
            self._copies.popleft()
            self.index.release([source])

    def next_key(self, table: PageTable, num_tokens: int) -> bytes | None:
        """The key of its first full page that is not known; None when all are."""
        if self.is_on and table.next_key_at != self.index.version:
            table.next_key = self._next_key(table, num_tokens // PAGE_TOKENS)
            table.next_key_at = self.index.version
        return table.next_key

    def keys(self, table: PageTable, num_pages: int) -> list[bytes]:
        """Keys of the table's first full pages: `num_pages` of them at least; none if it is off."""
        if not self.is_on:
            return []
        for number in range(len(table.keys), num_pages):
            before = table.keys[-1] if number else self.index.root_key(table.namespace)
            table.keys.append(page_key(before, tokens_of(table, number)))
        return table.keys

    def check(self, tables: Iterable[PageTable]) -> None:
        """Asserts what holds between any two calls; `tables` are all that have pages."""
        tables = list(tables)
        held = [table.pages[table.num_dropped :] for table in tables]
        sources = [source for source, _ in self._copies]
        self.pool.check([*held, self.index.check(), sources])
        if self.states is not None:
            self.states.check(tables, self.index.entries())
        for table in tables:
            assert set(table.pages[: table.num_dropped]) <= {-1}, table
            for entry, page in zip(table.entries, table.pages, strict=False):
                assert page in (-1, entry.page), f"page {page} is not {entry.page}, its entry's"
                assert not entry.is_indexed or self.index.by_page(entry.page) is entry

    def _walk(self, table: PageTable, num_pages: int) -> list[CachedPage]:
        """The entries of the table's first pages that are known, at most `num_pages`."""
        entries: list[CachedPage] = []
        parent = self.index.root(table.namespace)
        while parent.children and len(entries) < num_pages:
            number = len(entries)
            key = self.keys(table, number + 1)[number]
            found = self.index.child(parent, key, tokens_of(table, number))
            if found is None:
                break
            entries.append(found)
            parent = found
        return entries

    def _find_checkpoint(
        self, table: PageTable, num_tokens: int, entries: list[CachedPage], *, copies: bool
    ) -> Found:
        """Of the known pages those up to the last checkpoint, which may lie inside of one more."""
        for number in range(len(entries), -1, -1):
            parent = entries[number - 1] if number else self.index.root(table.namespace)
            rest = table.token_ids[number * PAGE_TOKENS : num_tokens - 1][:PAGE_TOKENS]
            partial = self.index.last_checkpoint(parent, rest) if copies else None
            if partial is not None:
                count = len(partial.tokens)
                return Found(tuple(entries[:number]), partial, count, len(entries))
            if parent.slot >= 0:
                return Found(tuple(entries[:number]), num_known=len(entries))
        return Found(num_known=len(entries))

    def _next_key(self, table: PageTable, num_pages: int) -> bytes | None:
        """Goes on from where it came to the last time, for it is asked after each step."""
        known, number = table.known, table.num_known
        if known is None or not known.is_indexed:
            known, number = self.index.root(table.namespace), 0
        key: bytes | None = None
        while number < num_pages:
            key = self.keys(table, number + 1)[number]
            child = self.index.child(known, key, tokens_of(table, number))
            if child is None:
                break
            known, number, key = child, number + 1, None
        table.known, table.num_known = (known, number) if number else (None, 0)
        return key

    def _copy(self, table: PageTable, source: CachedPage) -> bool:
        """Adds a page that will be a copy; False when there is none to spare for it."""
        self.index.hold([source], table.tenant)
        taken = self.take(1)
        if taken is None:
            self.index.release([source.page])
            return False
        table.pages += taken
        self._copies.append((source.page, taken[0]))
        return True

    def _publish(self, table: PageTable, num_computed: int) -> None:
        num_full = num_computed // PAGE_TOKENS if self.is_on else 0
        while table.is_published and len(table.entries) < num_full:
            number = len(table.entries)
            key = self.keys(table, number + 1)[number]
            entry = self._enter(table, key, tokens_of(table, number), table.pages[number])
            if entry is None:
                table.is_published = False
            else:
                self._adopt_page(table, number, entry)

    def _publish_last(self, table: PageTable, num_computed: int) -> CachedPage | None:
        """The page that is filled in part; others may copy it. Gives the entry, or the last one if
        that page is whole; None if it is not known."""
        number, count = divmod(num_computed, PAGE_TOKENS)
        is_known = self.is_on and table.is_published and len(table.entries) == number
        if is_known and number and not count:
            return table.entries[-1]
        if not is_known or count < (LEAST_COPIED if self.states is None else 1):
            return None
        tokens = tokens_of(table, number)[:count]
        before = table.keys[number - 1] if number else self.index.root_key(table.namespace)
        return self._enter(table, page_key(before, tokens), tokens, table.pages[number])

    def _enter(
        self, table: PageTable, key: bytes, tokens: tuple[int, ...], page: int
    ) -> CachedPage | None:
        parent = table.entries[-1] if table.entries else self.index.root(table.namespace)
        return self.index.publish(table.namespace, parent, key, tokens, page, table.tenant)

    def _adopt_page(self, table: PageTable, number: int, entry: CachedPage) -> None:
        """Appends the entry; if another sequence was first, its page replaces the table's own."""
        own = table.pages[number]
        table.entries.append(entry)
        if entry.page != own:
            self.index.hold([entry], table.tenant)
            table.pages[number] = entry.page
            self.index.release([own])
            table.version = next(_versions)

    def _slide(self, table: PageTable, num_computed: int) -> None:
        """Gives back the pages that no layer sees from the next token on."""
        stop = min(self._num_out_of_sight(num_computed), len(table.pages))
        if stop > table.num_dropped:
            self.index.release(table.pages[table.num_dropped : stop])
            table.pages[table.num_dropped : stop] = [-1] * (stop - table.num_dropped)
            table.num_dropped = stop
            table.version = next(_versions)

    def _num_out_of_sight(self, num_computed: int) -> int:
        if not self.window:
            return 0
        return max(0, num_computed - self.window + 1) // PAGE_TOKENS


def _following(entry: CachedPage, position: int) -> tuple[int, ...]:
    """A few tokens from a position of the entry on, if need be of the newest page after it."""
    after = next(reversed(entry.children.values()), None)
    tokens = entry.tokens[position:] + (after.tokens if after else ())
    return tokens[:SHOWN]
