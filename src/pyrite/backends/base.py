"""The contract of a backend: `prepare(plan, weights)` once, then `run(batch) -> logits` each step.

A backend knows plans, weights and pages; never requests, text or HTTP. Everything above this layer
sees only the values here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pyrite.formats.checkpoint import Tensor
from pyrite.graph.plan import Plan
from pyrite.kv.pages import PAGE_TOKENS as PAGE_TOKENS
from pyrite.records import dataclass

NO_ADAPTERS = np.empty(0, np.int32)
NO_SLOTS = np.empty(0, np.int32)  # of a batch for a plan without states
Progress = Callable[[int, int], None]  # hears of packed weights: bytes done, of bytes


@dataclass(frozen=True, slots=True)
class Batch:
    """One step's work, flat. Filled by the engine; tokens of a sequence are adjacent, in order.

    Sequence s owns tokens sequence_starts[s] : sequence_starts[s + 1]; its keys and values of
    position p lie in page page_tables[s, p // PAGE_TOKENS]. Pages for the new tokens are in the
    table already. Two sequences never write the same page.

    Slot state_slots[s] holds the state of sequence s after the position before its first one here,
    and after the step that after its last one. A sequence that begins at position 0 begins with a
    fresh state, whatever the slot holds. Plans without states do not look at slots.

    adapters[s] is the number of the adapter that sequence s is computed with, -1 for none. It may
    be empty: none for all.
    """

    token_ids: NDArray[np.int32]  # (tokens,)
    positions: NDArray[np.int32]  # (tokens,)
    sequence_starts: NDArray[np.int32]  # (sequences + 1,)
    page_tables: NDArray[np.int32]  # (sequences, pages), -1 where there is none
    output_rows: NDArray[np.int32]  # (outputs,) tokens whose logits are wanted, ascending
    state_slots: NDArray[np.int32] = field(default_factory=lambda: NO_SLOTS)  # (sequences,)
    adapters: NDArray[np.int32] = field(default_factory=lambda: NO_ADAPTERS)  # (sequences,), below

    @property
    def num_tokens(self) -> int:
        return len(self.token_ids)


class Runner(Protocol):
    """A prepared plan with its pages of keys and values, and its slots of states."""

    num_pages: int
    num_slots: int
    max_tokens: int  # of one batch

    @property
    def page_bytes(self) -> int:
        """Bytes of one page: keys and values of every layer, in the backend's own layout."""
        ...

    @property
    def state_bytes(self) -> int:
        """Bytes of one slot: the states of all operations; 0 for a plan without."""
        ...

    def run(self, batch: Batch) -> NDArray[np.float32]:
        """Logits (outputs, vocabulary) of `batch.output_rows`.

        The array is the runner's own and is overwritten by the next call. Raises BackendError.
        A run that raises leaves the states as they were.
        """
        ...

    def copy_page(self, source: int, target: int) -> None:
        """Copies one page of every layer, before a write to a page that is shared."""
        ...

    def read_page(self, page: int, out: NDArray[np.uint8]) -> None:
        """Copies the bytes of a page to `out`, (page_bytes,). Raises BackendError."""
        ...

    def write_page(self, page: int, data: NDArray[np.uint8]) -> None:
        """Makes a page what `read_page` gave, here or in another run of the same backend with the
        same plan and settings. Raises BackendError."""
        ...

    def copy_state(self, source: int, target: int) -> None:
        """Copies a slot to another. Raises BackendError."""
        ...

    def read_state(self, slot: int, out: NDArray[np.uint8]) -> None:
        """Copies the bytes of a slot to `out`, (state_bytes,). Raises BackendError."""
        ...

    def write_state(self, slot: int, data: NDArray[np.uint8]) -> None:
        """Makes a slot what `read_state` gave, as `write_page` does. Raises BackendError."""
        ...


class Backend(Protocol):
    name: str

    def prepare(
        self,
        plan: Plan,
        weights: Mapping[str, Tensor],
        *,
        num_pages: int,
        max_tokens: int,
        num_threads: int,
        precision: str,
        kv_type: str = "f16",
        num_slots: int = 1,
    ) -> Runner:
        """`precision` is "default" (at least 15 bits of activation), or "fast" (8 bits, except
        where only wanted rows are computed). `kv_type`: keys and values are kept as 16-bit floats
        ("f16"), or as 8-bit integers with a scale for each head and position ("q8")."""
        ...
