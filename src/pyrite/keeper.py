"""Keeps pages of prompts on disk and puts them back: between a runner's pages and a `PageStore`.

Of a model with states the checkpoints are kept as well, each in a file of its own, and no page that
lies beyond the last of them.

Reading is part of a step, and bounded by `step_pages`. Writing is not: a step copies as many bytes
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
from pyrite.kv.keys import state_key
from pyrite.kv.prefix import CachedPage
from pyrite.kv.store import Name, PageStore
from pyrite.records import dataclass

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


@dataclass(frozen=True, slots=True)
class Offer:
    """A page, or the state after it, that was computed without fault."""

    entry: CachedPage
    depth: int  # pages before it
    key: bytes
    is_state: bool
    is_again: bool  # it was offered before


class Keeper:
    """One thread at a time uses it: the engine's. Close it, and what is still to be written is."""

    def __init__(self, runner: Runner, store: PageStore) -> None:
        self.step_pages = max(1, STEP_BYTES // max(1, runner.page_bytes))
        self.num_restored = 0  # pages, since the start
        self.num_written = 0
        self._runner = runner
        self._store = store
        self._budget = WriteBudget(store.limit_bytes / 4, store.limit_bytes / HOUR)
        self._offered: deque[Offer] = deque(maxlen=4096)
        # By key, when the file was written or its use noted; None: there is none.
        self._seen: OrderedDict[bytes, float | None] = OrderedDict()
        self._copies: Queue[tuple[Name, NDArray[np.uint8]] | None] = Queue(
            max(1, QUEUE_BYTES // max(1, runner.page_bytes, runner.state_bytes))
        )
        self._writer: threading.Thread | None = None
        self._writes = True

    def has(self, key: bytes) -> bool:
        return self._store.has(key)

    def restore(self, key: bytes, token_ids: Sequence[int], depth: int, page: int) -> bool:
        """Fills a page of the runner; False when there is none on disk, or it is damaged."""
        if self._runner.page_bytes:
            found = self._get(Name(key, token_ids, depth), self._runner.page_bytes)
            if found is None:
                return False
            self._runner.write_page(page, found)
        self.num_restored += 1
        return True

    def state(self, key: bytes, token_ids: Sequence[int], depth: int) -> NDArray[np.uint8] | None:
        """None when there is none on disk, or it is damaged."""
        return self._get(Name(key, token_ids, depth), self._runner.state_bytes)

    def offer(self, entries: Sequence[CachedPage]) -> None:
        """The first pages of a prompt that was computed without fault."""
        if self._runner.state_bytes:
            kept = [depth for depth, entry in enumerate(entries) if entry.slot >= 0]
            entries = entries[: kept[-1] + 1] if kept else []
        if not self._writes or len(entries) < LEAST_PAGES:
            return
        for depth, entry in enumerate(entries):
            if self._runner.page_bytes:
                self._offer(entry, depth, entry.key, is_state=False)
            if entry.slot >= 0:
                self._offer(entry, depth, state_key(entry.key), is_state=True)

    def step(self) -> None:
        """Copies some of what was offered, for the thread that writes it."""
        left = STEP_BYTES
        try:
            while self._offered and left > 0 and self._copy(self._offered[0]):
                left -= self._size_of(self._offered.popleft())
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

    def _get(self, name: Name, num_bytes: int) -> NDArray[np.uint8] | None:
        found = self._store.get(name, num_bytes)
        if found is None:
            self._seen.pop(name.key, None)
            return None
        self._remember(name.key, time.monotonic())
        return np.frombuffer(found, np.uint8)

    def _offer(self, entry: CachedPage, depth: int, key: bytes, *, is_state: bool) -> None:
        is_again = key in self._seen
        noted_at = self._noted(key, depth)
        self._remember(key, noted_at)
        if noted_at is None:
            self._offered.append(Offer(entry, depth, key, is_state, is_again))

    def _size_of(self, offer: Offer) -> int:
        return self._runner.state_bytes if offer.is_state else self._runner.page_bytes

    def _noted(self, key: bytes, depth: int) -> float | None:
        """When the use of its file was noted: now, if that is long ago; None if there is none."""
        noted_at = self._seen.get(key)
        now = time.monotonic()
        if noted_at is None or now - noted_at < NOTED_SECONDS:
            return noted_at
        return now if self._store.note_use(key, depth) else None

    def _copy(self, offer: Offer) -> bool:
        """False when there is no room for a copy now."""
        entry, key = offer.entry, offer.key
        is_gone = not entry.is_indexed or (offer.is_state and entry.slot < 0)
        if is_gone or self._seen.get(key) is not None or not self._writes:
            return True
        if self._copies.full():
            return False
        if self._store.has(key):
            self._remember(key, time.monotonic())
            return True
        size = self._size_of(offer)
        if not self._budget.take(size, tenant=entry.tenant, is_again=offer.is_again):
            return True
        copy = np.empty(size, np.uint8)
        if offer.is_state:
            self._runner.read_state(entry.slot, copy)
        else:
            self._runner.read_page(entry.page, copy)
        self._remember(key, time.monotonic())
        self._copies.put_nowait((Name(key, entry.tokens, offer.depth), copy))
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
