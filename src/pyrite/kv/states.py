"""Slots of recurrent states: whose they are, and which hold a checkpoint of a cached page.

A state cannot be cut as keys and values can: it holds after one token and no other. So a table has
a slot that moves with it, and a cached page can be gone on from only where a checkpoint, the state
after its last token, lies in a slot of its own. Half of the slots are the tables' at most, but for
what they save from a step to the next. The others may keep checkpoints, which give way to whoever
needs a slot: of the tenant that has most of them, the one that was not used for longest.

Copies are made later, in the order in which they were promised and before anything is computed. So
the source of one may be given to somebody else at once: what overwrites it comes after.

Knows slots and pages by their numbers: nothing of requests, nor of what a state means.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from pyrite.kv.prefix import CachedPage
    from pyrite.kv.table import PageTable


StateBytes = NDArray[np.uint8]


class Slots(Protocol):
    """A runner's."""

    def copy_state(self, source: int, target: int) -> None: ...

    def write_state(self, slot: int, data: StateBytes) -> None: ...


class States:
    """`num_slots` slots, each free, a table's, or a checkpoint's."""

    def __init__(self, num_slots: int) -> None:
        assert num_slots > 0, num_slots
        self.num_slots = num_slots
        self.num_held = 0  # by tables
        self.num_spare = 0  # besides, for states that were saved
        self._free = list(range(num_slots - 1, -1, -1))  # a stack, as PagePool's
        self._most_held = max(1, num_slots - num_slots // 2)
        self._checkpoints: OrderedDict[CachedPage, None] = OrderedDict()  # the next to go first
        self._copies: deque[tuple[int | StateBytes, int]] = (
            deque()
        )  # from a slot, or from elsewhere

    @property
    def num_available(self) -> int:
        """Slots that tables may take."""
        return min(self._most_held, self.num_slots - self.num_spare) - self.num_held

    @property
    def num_checkpoints(self) -> int:
        return len(self._checkpoints)

    def begin(self, table: PageTable, source: CachedPage | None) -> None:
        """Gives the table a slot, which there is; with the state after `source`, or any at all."""
        copied = -1 if source is None else source.slot
        if source is not None:
            self._checkpoints.move_to_end(source)
        table.slot = self.take()
        if copied not in (-1, table.slot):
            self._copies.append((copied, table.slot))

    def fill(self, table: PageTable, state: StateBytes) -> None:
        """Makes the table's state one that was kept elsewhere."""
        self._copies.append((state, table.slot))

    def save(self, table: PageTable) -> bool:
        """Copies the table's state to a spare slot; False when there is none."""
        assert table.spare < 0, table
        if not (self._free or self._checkpoints):
            return False
        self.num_spare += 1
        table.spare = self._next()
        self._copies.append((table.slot, table.spare))
        return True

    def settle(self, table: PageTable, *, goes_back: bool) -> None:
        """The state that was saved is not needed any more, or is the table's own again."""
        if goes_back:
            assert table.spare >= 0, table
            table.slot, table.spare = table.spare, table.slot
        if table.spare >= 0:
            self.num_spare -= 1
            self._free.append(table.spare)
            table.spare = -1

    def checkpoint(self, table: PageTable, entry: CachedPage) -> None:
        """Keeps a copy of the table's state as that after the entry, unless all slots are held."""
        if entry.slot >= 0:
            self._checkpoints.move_to_end(entry)
        elif entry.is_indexed and (self._free or self._checkpoints):
            self._copies.append((table.slot, slot := self._next()))
            self._keep(entry, slot)

    def end(self, table: PageTable, entry: CachedPage | None) -> None:
        """Takes the table's slots; its state becomes the checkpoint of an entry without one."""
        self.settle(table, goes_back=False)
        if table.slot < 0:
            return
        if entry is not None and entry.is_indexed and entry.slot < 0:
            self.num_held -= 1
            self._keep(entry, table.slot)
        else:
            self.give_back(table.slot)
        table.slot = -1

    def forget(self, entry: CachedPage) -> None:
        """The entry was evicted, and its checkpoint with it."""
        if entry.slot >= 0:
            self._free.append(self._drop(entry))

    def run_copies(self, runner: Slots) -> int:
        """How many there were."""
        count = 0
        while self._copies:
            source, target = self._copies[0]
            if isinstance(source, int):
                runner.copy_state(source, target)
            else:
                runner.write_state(target, source)
            self._copies.popleft()
            count += 1
        return count

    def check(self, tables: Iterable[PageTable], entries: Iterable[CachedPage]) -> None:
        """Asserts what holds between any two calls; `tables` are all that have pages, `entries` all
        of the index."""
        tables = list(tables)
        held = [table.slot for table in tables if table.slot >= 0]
        spare = [table.spare for table in tables if table.spare >= 0]
        kept = [entry for entry in entries if entry.slot >= 0]
        assert len(held) == self.num_held <= self._most_held, held
        assert len(spare) == self.num_spare, spare
        assert set(kept) == self._checkpoints.keys(), "a checkpoint of no entry, or not known"
        slots = sorted([*held, *spare, *(entry.slot for entry in kept), *self._free])
        assert slots == list(range(self.num_slots)), f"a slot twice, or lost: {slots}"

    def take(self) -> int:
        """One of those that are available; for a table, or whoever else gives it back."""
        assert self.num_available > 0, "no slot is available"
        self.num_held += 1
        return self._next()

    def _next(self) -> int:
        """A free slot, or that of the checkpoint to go first."""
        if self._free:
            return self._free.pop()
        owned = Counter(entry.tenant for entry in self._checkpoints)
        most = max(owned.values())
        return self._drop(next(one for one in self._checkpoints if owned[one.tenant] == most))

    def give_back(self, slot: int) -> None:
        self.num_held -= 1
        self._free.append(slot)

    def _keep(self, entry: CachedPage, slot: int) -> None:
        entry.slot = slot
        self._checkpoints[entry] = None

    def _drop(self, entry: CachedPage) -> int:
        """Its slot, which is nobody's then."""
        del self._checkpoints[entry]
        slot, entry.slot = entry.slot, -1
        return slot
