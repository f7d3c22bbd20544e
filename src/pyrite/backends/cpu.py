"""The CPU backend: a plan lowered to a native program, with packed weights and pages of its own.

It knows plans, weights and pages; never requests, text or HTTP.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pyrite._native import program as native
from pyrite.backends.addresses import state_offsets
from pyrite.backends.base import Batch, Progress
from pyrite.backends.check import check_page, check_slot, check_state
from pyrite.backends.lowering import Lowering, adapter_names, layer_offsets, matrix_names
from pyrite.backends.packing import PackedMatrix, packed_weights
from pyrite.errors import BackendError, CapacityError
from pyrite.formats.checkpoint import Tensor
from pyrite.graph.plan import Plan
from pyrite.nodes import Node, spread

PLANES = {"default": 2, "fast": 1}


class CpuRunner:
    """A prepared plan. One thread at a time may run it, with the interpreter lock released."""

    def __init__(
        self,
        program: native.Program,
        num_pages: int,
        max_tokens: int,
        observed: Mapping[int, tuple[str, ...]] | None = None,
    ) -> None:
        self.num_pages = num_pages
        self._observed = observed or {}
        self.states = program.states()  # (num_slots, floats): of every operation that has one
        self.num_slots = len(self.states)
        self.max_tokens = max_tokens
        self._program = program
        self._logits = program.logits()  # (max_tokens, vocabulary)
        self.pages = program.pages()  # (num_pages, page_bytes): keys and values of every layer

    @property
    def page_bytes(self) -> int:
        return int(self.pages.shape[1])

    @property
    def state_bytes(self) -> int:
        return int(self.states.shape[1]) * self.states.itemsize

    @property
    def isa(self) -> str:
        """The instruction set that the kernels were compiled for."""
        return self._program.isa

    def run(self, batch: Batch) -> NDArray[np.float32]:
        """Logits (outputs, vocabulary). The array is overwritten by the next call."""
        try:
            self._program.run(
                token_ids=batch.token_ids,
                positions=batch.positions,
                sequence_starts=batch.sequence_starts,
                page_tables=batch.page_tables,
                output_rows=batch.output_rows,
                state_slots=batch.state_slots,
                adapters=batch.adapters,
            )
        except (ValueError, RuntimeError) as error:
            raise BackendError(f"a batch cannot run: {error}") from error
        return self._logits[: len(batch.output_rows)]

    def broken_outputs(self) -> list[int]:
        """Rows of the last step's logits that hold NaN or infinity."""
        return self._program.broken_outputs()

    def copy_page(self, source: int, target: int) -> None:
        self._program.copy_page(source, target)

    def read_page(self, page: int, out: NDArray[np.uint8]) -> None:
        check_page(self, page, out)
        out[...] = self.pages[page]

    def write_page(self, page: int, data: NDArray[np.uint8]) -> None:
        check_page(self, page, data)
        self.pages[page] = data

    def copy_state(self, source: int, target: int) -> None:
        check_slot(self, source)
        check_slot(self, target)
        self.states[target] = self.states[source]

    def read_state(self, slot: int, out: NDArray[np.uint8]) -> None:
        check_state(self, slot, out)
        out[...] = self.states[slot].view(np.uint8)

    def write_state(self, slot: int, data: NDArray[np.uint8]) -> None:
        check_state(self, slot, data)
        self.states[slot] = data.view(np.float32)

    def squares(self) -> dict[str, tuple[NDArray[np.float64], NDArray[np.int64]]]:
        """Of each matrix, or stack of them, of a plan that was prepared with `observe`: sums of the
        squares of its inputs since then, (matrices, columns), and over how many rows."""
        found: dict[str, tuple[NDArray[np.float64], NDArray[np.int64]]] = {}
        for index, names in self._observed.items():
            sums, counts = self._program.squares(index)
            both = np.array(sums).reshape(len(counts), -1), np.array(counts)
            found |= dict.fromkeys(names, both)
        return found

    def profile(self, on: bool) -> None:
        """Switches the timing of phases on or off, and sets it back to zero."""
        self._program.profile(on)

    def phase_times(self) -> list[tuple[str, int]]:
        """(operation, nanoseconds) in the order they run, summed over the steps since `profile`."""
        return [(label, spent) for label, spent, _ in self._program.phases()]

    def idle_times(self) -> list[tuple[str, list[int]]]:
        """(operation, nanoseconds that each thread had nothing to do in it), likewise."""
        return [(label, idle) for label, _, idle in self._program.phases()]


class CpuBackend:
    """`cache` is Pyrite's folder, where packed weights are kept; None keeps them in memory only.

    `files` hold the weights: a file that was written since has its weights packed anew. With more
    than one memory node each thread keeps to one, and weights that are read in lie on all of them.
    `progress` hears of packing.
    """

    name = "cpu"

    def __init__(
        self,
        cache: Path | None = None,
        files: Sequence[Path] = (),
        nodes: Sequence[Node] = (),
        progress: Progress | None = None,
    ) -> None:
        self.cache = cache
        self.files = files
        self.nodes = nodes
        self.progress = progress
        self._packed: Mapping[str, PackedMatrix] = {}
        self._weights: Mapping[str, Tensor] | None = None  # what `_packed` was made of

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
        observe: bool = False,
    ) -> CpuRunner:
        """`observe`: add up squares of what goes into products. Raises BackendError, CapacityError,
        UnsupportedError."""
        page_bytes = layer_offsets(plan, kv_type)[-1]
        program = self._program(plan, num_pages, page_bytes, max_tokens, num_threads, num_slots)
        matrices = self._matrices(plan, weights, num_threads)
        observed: dict[int, tuple[str, ...]] | None = {} if observe else None
        planes = PLANES[precision]
        Lowering(plan, program, matrices, weights, planes, kv_type, observed).lower()
        return CpuRunner(program, num_pages, max_tokens, observed)

    def _matrices(
        self, plan: Plan, weights: Mapping[str, Tensor], num_threads: int
    ) -> Mapping[str, PackedMatrix]:
        """A second plan of the same weights shares what was packed for the first."""
        names = matrix_names(plan)
        if self._weights is not weights or not self._packed.keys() >= set(names):
            tensors = [weights[name] for name in names]
            with interleaved(spread(num_threads, self.nodes)):
                self._packed = packed_weights(
                    tensors,
                    self.cache,
                    num_threads,
                    self.files,
                    os.environ.get("PYRITE_WEIGHTS", ""),
                    self.progress,
                )
            self._weights = weights
        adapters = [weights[name] for name in adapter_names(plan)]
        if not adapters:
            return self._packed
        return {**self._packed, **packed_weights(adapters, None, num_threads)}

    def _program(
        self,
        plan: Plan,
        num_pages: int,
        page_bytes: int,
        max_tokens: int,
        num_threads: int,
        num_slots: int,
    ) -> native.Program:
        state_floats = state_offsets(plan)[-1]
        try:
            return native.Program(
                isa=os.environ.get("PYRITE_ISA", ""),
                num_threads=num_threads,
                max_tokens=max_tokens,
                arena_columns=plan.arena_columns,
                result_width=plan.values[plan.result].width,
                num_pages=num_pages,
                page_bytes=page_bytes,
                num_slots=num_slots,
                state_floats=state_floats,
                places=[sorted(node.cpus) for node in spread(num_threads, self.nodes)],
            )
        except ValueError as error:
            raise BackendError(str(error), hint="unset PYRITE_ISA to have one chosen") from error
        except MemoryError:
            states = num_slots * state_floats * 4
            raise CapacityError(
                f"{num_pages} pages of keys and values need {num_pages * page_bytes >> 20} MiB,"
                f" {num_slots} states {states >> 20} MiB",
                hint="ask for a smaller context, or fewer pages or states",
            ) from None


@contextmanager
def interleaved(nodes: Sequence[Node]) -> Iterator[None]:
    """Memory that comes into use meanwhile lies on these nodes in turn; with none, as ever."""
    if nodes:
        native.interleave_memory(sorted({node.index for node in nodes}))
    try:
        yield
    finally:
        if nodes:
            native.interleave_memory([])
