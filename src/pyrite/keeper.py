"""Keeps pages of prompts on disk and puts them back: between a runner's pages and a `PageStore`.

Reading is part of a step, and bounded by `step_pages`. Writing is not: a step copies as many pages
at most, and a thread of its own writes the copies. What is written is bounded too, for disks wear:
a page of a prompt that was seen for the first time is written while more than half of a budget is
left, one that came again while any of it is. The budget is a quarter of the store's limit at first,
and the whole limit for each hour after. The tenant that has written most leaves a quarter of the
budget to the others. What is used is noted each half hour, in which no tenant can write so much
that it would go.

A disk that refuses (full, read-only, another's) ends the writing with one warning, and no request.
Knows no request and no HTTP.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Sequence
from queue import Full, Queue

import numpy as np
from numpy.typing import NDArray

from pyrite.backends.base import Runner
from pyrite.kv.prefix import CachedPage
from pyrite.kv.store import Name, PageStore

LEAST_PAGES = 2  # of a prompt, to be kept: less is computed soon enough
STEP_BYTES = 16 << 20  # read in a step at most, and copied in one
QUEUE_BYTES = 64 << 20  # copied, and not yet written
REMEMBERED = 1 << 16  # keys of pages that were offered or written
CLOSE_SECONDS = 2.0
HOUR = 3600.0
NOTED_SECONDS = HOUR / 2  # between notes that a page on disk is used, from memory
FIRST_RESERVE = 0.5  # of the burst: what pages that were seen once leave
OTHERS_RESERVE = 0.25  # and what the tenant that has written most leaves to the others

log = logging.getLogger(__name__)


class WriteBudget:
    """Bytes that may be written: `burst` at once, and `per_second` after."""

    def __init__(self, burst: float, per_second: float) -> None:
        self.burst = burst
        self.per_second = per_second
        self._left = burst
        self._at = time.monotonic()
        self._taken: dict[str | None, int] = {}  # by each tenant that asked; None: by several

    def take(self, num_bytes: int, *, tenant: str | None = "", is_again: bool) -> bool:
        """False when less of the burst would be left than such pages leave."""
        now = time.monotonic()
        self._left = min(self.burst, self._left + (now - self._at) * self.per_second)
        self._at = now
        if self._left - num_bytes < self._reserve(tenant, is_again) * self.burst:
            return False
        self._left -= num_bytes
        self._taken[tenant] += num_bytes
        return True

    def _reserve(self, tenant: str | None, is_again: bool) -> float:
        taken = self._taken.setdefault(tenant, 0)
        is_first = len(self._taken) > 1 and 0 < taken == max(self._taken.values())
        return (not is_again) * FIRST_RESERVE + is_first * OTHERS_RESERVE


class Keeper:
    """One thread at a time uses it: the engine's. Close it, and what is still to be written is."""

    def __init__(self, runner: Runner, store: PageStore) -> None:
        self.step_pages = max(1, STEP_BYTES // runner.page_bytes)
        self.num_restored = 0  # pages, since the start
        self.num_written = 0
        self._runner = runner
        self._store = store
        self._budget = WriteBudget(store.limit_bytes / 4, store.limit_bytes / HOUR)
        self._offered: deque[tuple[CachedPage, int, bool]] = deque(maxlen=4096)
        # By key, when the file was written or its use noted; None: there is none.
        self._seen: OrderedDict[bytes, float | None] = OrderedDict()
        self._copies: Queue[tuple[Name, NDArray[np.uint8]] | None] = Queue(
            max(1, QUEUE_BYTES // runner.page_bytes)
        )
        self._writer: threading.Thread | None = None
        self._writes = True

    def has(self, key: bytes) -> bool:
        return self._store.has(key)

    def restore(self, key: bytes, token_ids: Sequence[int], depth: int, page: int) -> bool:
        """Fills a page of the runner; False when there is none on disk, or it is damaged."""
        found = self._store.get(Name(key, token_ids, depth), self._runner.page_bytes)
        if found is None:
            self._seen.pop(key, None)
            return False
        self._runner.write_page(page, np.frombuffer(found, np.uint8))
        self._remember(key, time.monotonic())
        self.num_restored += 1
        return True

    def offer(self, entries: Sequence[CachedPage]) -> None:
        """The first pages of a prompt that was computed without fault."""
        if not self._writes or len(entries) < LEAST_PAGES:
            return
        for depth, entry in enumerate(entries):
            is_again = entry.key in self._seen
            noted_at = self._noted(entry.key, depth)
            self._remember(entry.key, noted_at)
            if noted_at is None:
                self._offered.append((entry, depth, is_again))

    def step(self) -> None:
        """Copies some of the pages that were offered, for the thread that writes them."""
        try:
            for _ in range(self.step_pages):
                if not self._offered or not self._copy(*self._offered[0]):
                    return
                self._offered.popleft()
        except Exception as error:  # no memory for a copy: nobody's request depends on it
            self._stop_writing(error)

    def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Waits so long for what is still to be written, and for no more."""
        deadline = time.monotonic() + seconds
        while self._offered and self._writes and time.monotonic() < deadline:
            self.step()
            time.sleep(0.001)
        self._offered.clear()
        if self._writer is not None:
            try:
                self._copies.put(None, timeout=max(0.0, deadline - time.monotonic()))
            except Full:
                self._writes = False
            self._writer.join(max(0.0, deadline - time.monotonic()))

    def _noted(self, key: bytes, depth: int) -> float | None:
        """When the use of its file was noted: now, if that is long ago; None if there is none."""
        noted_at = self._seen.get(key)
        now = time.monotonic()
        if noted_at is None or now - noted_at < NOTED_SECONDS:
            return noted_at
        return now if self._store.note_use(key, depth) else None

    def _copy(self, entry: CachedPage, depth: int, is_again: bool) -> bool:
        """False when there is no room for a copy now."""
        if not entry.is_indexed or self._seen.get(entry.key) is not None or not self._writes:
            return True
        if self._copies.full():
            return False
        if self._store.has(entry.key):
            self._remember(entry.key, time.monotonic())
            return True
        size = self._runner.page_bytes
        if not self._budget.take(size, tenant=entry.tenant, is_again=is_again):
            return True
        copy = np.empty(size, np.uint8)
        self._runner.read_page(entry.page, copy)
        self._remember(entry.key, time.monotonic())
        self._copies.put_nowait((Name(entry.key, entry.tokens, depth), copy))
        self._start_writer()
        return True

    def _start_writer(self) -> None:
        if self._writer is not None:
            return
        self._writer = threading.Thread(target=self._write_copies, name="keeper", daemon=True)
        try:
            self._writer.start()
        except RuntimeError as error:
            self._writer = None
            self._stop_writing(error)

    def _write_copies(self) -> None:
        """The writer's thread."""
        while (one := self._copies.get()) is not None:
            if not self._writes:
                continue
            try:
                self._store.put(one[0], one[1].data)
                self.num_written += 1
            except Exception as error:
                self._stop_writing(error)

    def _stop_writing(self, error: Exception) -> None:
        self._writes = False
        log.warning("pages of prompts are not kept on disk any more: %s", str(error) or repr(error))

    def _remember(self, key: bytes, noted_at: float | None) -> None:
        self._seen[key] = noted_at
        self._seen.move_to_end(key)
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
