"""Embeddings, step by step: texts' ids in, pooled hidden states out.

A second runner computes the model without its head, from the weights that the first one packed.
It is prepared when it is first wanted. One step is one batch, so that whoever shares the machine
with it waits for one batch at most. Knows nothing of text, HTTP, or the engine's requests.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from dataclasses import field, replace
from functools import cached_property
from itertools import count

import numpy as np
from numpy.typing import NDArray

from pyrite.backends.base import Batch, Runner
from pyrite.continuation import check_prompt
from pyrite.errors import ContextLengthError, ParameterError
from pyrite.formats.checkpoint import Checkpoint
from pyrite.graph.plan import Plan
from pyrite.kv.pages import PagePool, pages_for
from pyrite.loading import Loaded, prepared
from pyrite.memory import available_bytes
from pyrite.models.estimate import estimate_memory, require_memory
from pyrite.models.registry import build_plan
from pyrite.pooling import Floats, Pool, check_dimensions, check_pooling
from pyrite.records import dataclass
from pyrite.room import Room

NUM_SLOTS = 16  # texts that one batch may hold, in a model with recurrent states

# {architecture}.pooling_type of a GGUF file, where it is of a model that was made for vectors.
POOLING_TYPES = {1: "mean", 2: "cls", 3: "last"}


@dataclass(frozen=True, slots=True)
class EmbeddingRequest:
    """`inputs` are embedded each by itself. Filled by the faces (Python, command line, server)."""

    request_id: str
    inputs: tuple[tuple[int, ...], ...]
    pooling: str | None = None  # None: what the model was made for, else "mean"
    normalize: bool = True  # to length 1
    dimensions: int | None = None  # the first so many; cut before the length is taken
    adapter: str = ""  # the name of one that was loaded with the model; none when empty


@dataclass(frozen=True, slots=True)
class Embedded:
    """A request that ended. `vectors`: of each input (width,), or (tokens, width) unpooled."""

    request_id: str
    num_tokens: int
    vectors: tuple[Floats, ...] = ()
    error: Exception | None = field(default=None, compare=False)


@dataclass(slots=True, eq=False)
class _Text:
    """One input on its way. `order`: short requests pass between the texts of long ones."""

    request: EmbeddingRequest
    index: int
    order: tuple[int, int]  # index in its request, arrival of the request
    ids: NDArray[np.int32]
    pool: Pool
    adapter: int = -1  # the number of the request's
    pages: list[int] = field(default_factory=list)
    slot: int = -1  # of its state, in a model with states
    num_computed: int = 0


@dataclass(frozen=True, slots=True)
class _Slice:
    text: _Text
    num_tokens: int

    @property
    def positions(self) -> range:
        return range(self.text.num_computed, self.text.num_computed + self.num_tokens)


class Embedder:
    """Requests go in (`add`); each `step` gives those that ended. One thread at a time uses it.

    At most one text is partly computed between two steps: pages for a whole context and for one
    batch of short texts suffice.
    """

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self._plan = build_plan(
            loaded.checkpoint, result="hidden", context_length=loaded.engine.context_length
        )
        self._waiting: list[_Text] = []  # by order
        self._current: _Text | None = None  # partly computed
        self._vectors: dict[str, dict[int, Floats]] = {}  # of the requests that have not ended
        self._arrivals = count()

    @property
    def width(self) -> int:
        """Of a hidden state."""
        return self._plan.values[self._plan.result].width

    @property
    def context_length(self) -> int:
        """Tokens that one input may have."""
        return self._loaded.engine.context_length

    @cached_property
    def default_pooling(self) -> str:
        return pooling_of(self._loaded.checkpoint) or "mean"

    @property
    def has_work(self) -> bool:
        return bool(self._waiting or self._current)

    def add(self, request: EmbeddingRequest) -> None:
        """Raises ParameterError, ContextLengthError, CapacityError, BackendError; nothing is
        taken then."""
        self._check(request)
        assert self.runner is not None  # prepared before anything is taken
        pooling, arrival = request.pooling or self.default_pooling, next(self._arrivals)
        adapter = self._loaded.engine.adapter_number(request.adapter)
        self._vectors[request.request_id] = {}
        for index, ids in enumerate(request.inputs):
            order, pool = (index, arrival), Pool(pooling, len(ids))
            text = _Text(request, index, order, np.array(ids, np.int32), pool, adapter)
            insort(self._waiting, text, key=lambda one: one.order)

    def cancel(self, request_id: str) -> bool:
        """Forgets a request; False when it has ended before."""
        if request_id not in self._vectors:
            return False
        self._forget(request_id)
        return True

    def step(self, most_tokens: int | None = None) -> list[Embedded]:
        """One batch through the model, and the requests that it ended. `most_tokens`: in it, for
        others wait meanwhile."""
        slices = self._schedule(min(most_tokens or self.runner.max_tokens, self.runner.max_tokens))
        ended = [
            self._commit(work, outcome)
            for work, outcome in zip(slices, self._compute(slices), strict=True)
        ]
        return [one for one in ended if one is not None]

    def embed(
        self,
        inputs: Sequence[Sequence[int]],
        *,
        pooling: str | None = None,
        normalize: bool = True,
        dimensions: int | None = None,
        adapter: str = "",
    ) -> tuple[Floats, ...]:
        """The vectors of `inputs`, when nobody else has work here. Raises what `add` does."""
        assert not self.has_work, "embed runs alone"
        asked = tuple(tuple(ids) for ids in inputs)
        self.add(EmbeddingRequest("", asked, pooling, normalize, dimensions, adapter))
        ended: list[Embedded] = []
        while self.has_work:
            ended += self.step()
        if ended[0].error is not None:
            raise ended[0].error
        return ended[0].vectors

    @cached_property
    def runner(self) -> Runner:
        """Raises BackendError, CapacityError."""
        loaded, plan = self._loaded, self._plan
        max_tokens = loaded.settings.max_batch_tokens
        self._require_memory(plan, max_tokens)
        num_pages = pages_for(self.context_length) + pages_for(max_tokens)
        room = Room(self.context_length, num_pages, NUM_SLOTS)
        weights, settings = loaded.checkpoint.tensors, loaded.settings
        return prepared(loaded.backend, plan, weights, room, settings, loaded.threads)

    def _require_memory(self, plan: Plan, max_tokens: int) -> None:
        """The weights are there already."""
        needed = estimate_memory(
            plan,
            self._loaded.checkpoint.tensors,
            kv_tokens=self.context_length,
            max_tokens=max_tokens,
            kv_type=self._loaded.settings.kv_type,
            num_slots=NUM_SLOTS,
        )
        require_memory(replace(needed, weights=0), available_bytes())

    @cached_property
    def _pages(self) -> PagePool:
        return PagePool(self.runner.num_pages)

    @cached_property
    def _slots(self) -> list[int]:
        """That are free."""
        return list(range(self.runner.num_slots))

    def _check(self, request: EmbeddingRequest) -> None:
        if request.request_id in self._vectors:
            raise ParameterError("request_id", request.request_id, "the id of no other request")
        if not request.inputs:
            raise ParameterError("input", [], "at least one text")
        check_pooling(request.pooling or self.default_pooling)
        check_dimensions(request.dimensions, self.width)
        known = min(self._plan.vocabulary, self._loaded.tokenizer.vocab_size)
        for ids in request.inputs:
            check_prompt(ids, known)
            if len(ids) > self.context_length:
                hint = "shorten the text or cut it into several, or load with a larger context"
                raise ContextLengthError(len(ids), self.context_length, hint=hint)

    def _schedule(self, budget: int) -> list[_Slice]:
        """The text that is partly computed, then others while tokens and pages are left."""
        slices: list[_Slice] = []
        while budget > 0 and (text := self._current or next(iter(self._waiting), None)):
            work = _Slice(text, min(budget, len(text.ids) - text.num_computed))
            if not self._make_room(work):
                break
            if text is not self._current:
                self._waiting.pop(0)
            self._current = None
            slices.append(work)
            budget -= work.num_tokens
        if slices and slices[-1].positions.stop < len(slices[-1].text.ids):
            self._current = slices[-1].text
        return slices

    def _make_room(self, work: _Slice) -> bool:
        """Pages for its tokens, and a slot if it needs one; False when there are none."""
        text, needs_slot = work.text, self._plan.has_state and work.text.slot < 0
        if needs_slot and not self._slots:
            return False
        taken = self._pages.take(pages_for(work.positions.stop) - len(text.pages))
        if taken is None:
            return False
        text.pages += taken
        if needs_slot:
            text.slot = self._slots.pop()
        return True

    def _compute(self, slices: list[_Slice]) -> list[Floats | Exception]:
        """Hidden states of the rows that each slice wants, or why there are none.

        When a batch fails, each of its slices is run by itself: the one at fault fails alone.
        """
        if not slices:
            return []
        try:
            return self._run(slices)
        except Exception as error:
            if len(slices) == 1:
                return [error]
        return [outcome for work in slices for outcome in self._compute([work])]

    def _run(self, slices: list[_Slice]) -> list[Floats | Exception]:
        wanted = [work.text.pool.wanted(*_ends(work.positions)) for work in slices]
        ends = np.cumsum([len(rows) for rows in wanted])
        # What may fail comes before the run, which moves the states.
        batch, hidden = assemble(slices, wanted), np.empty((ends[-1], self.width), np.float32)
        hidden[...] = self.runner.run(batch)
        return list(np.split(hidden, ends[:-1]))

    def _commit(self, work: _Slice, outcome: Floats | Exception) -> Embedded | None:
        """Advances a text; its last slice ends it, and perhaps its request."""
        text = work.text
        request_id = text.request.request_id
        text.num_computed += work.num_tokens
        if request_id not in self._vectors:  # another text of it failed in this very batch
            self._release(text)
            return None
        try:
            return self._advance(text, outcome)
        except Exception as error:
            self._release(text)
            self._forget(request_id)
            return Embedded(request_id, 0, error=error)

    def _advance(self, text: _Text, outcome: Floats | Exception) -> Embedded | None:
        if isinstance(outcome, Exception):
            raise outcome
        if len(outcome):
            text.pool.add(outcome)
        if text.num_computed < len(text.ids):
            return None
        request = text.request
        vector = text.pool.vector(normalize=request.normalize, dimensions=request.dimensions)
        self._release(text)
        found = self._vectors[request.request_id]
        found[text.index] = vector
        if len(found) < len(request.inputs):
            return None
        del self._vectors[request.request_id]
        num_tokens = sum(len(ids) for ids in request.inputs)
        return Embedded(request.request_id, num_tokens, tuple(found[i] for i in sorted(found)))

    def _forget(self, request_id: str) -> None:
        del self._vectors[request_id]
        self._waiting = [one for one in self._waiting if one.request.request_id != request_id]
        if self._current is not None and self._current.request.request_id == request_id:
            self._release(self._current)

    def _release(self, text: _Text) -> None:
        if text is self._current:
            self._current = None
        self._pages.give_back(text.pages)
        text.pages = []
        if text.slot >= 0:
            self._slots.append(text.slot)
            text.slot = -1


def assemble(slices: Sequence[_Slice], wanted: Sequence[range]) -> Batch:
    """The batch of the slices; `wanted`: positions of each whose hidden states are asked for."""
    ends = np.cumsum([work.num_tokens for work in slices])
    tables = np.full((len(slices), max(len(work.text.pages) for work in slices)), -1, np.int32)
    for table, work in zip(tables, slices, strict=True):
        table[: len(work.text.pages)] = work.text.pages
    first_rows = (ends[i] - work.positions.stop for i, work in enumerate(slices))
    rows = [np.array(one) + first for one, first in zip(wanted, first_rows, strict=True)]
    return Batch(
        token_ids=np.concatenate([work.text.ids[slice(*_ends(work.positions))] for work in slices]),
        positions=np.concatenate([work.positions for work in slices]).astype(np.int32),
        sequence_starts=np.concatenate([[0], ends]).astype(np.int32),
        page_tables=tables,
        output_rows=np.concatenate(rows).astype(np.int32),
        state_slots=np.array([work.text.slot for work in slices], np.int32),
        adapters=np.array([work.text.adapter for work in slices], np.int32),
    )


def pooling_of(checkpoint: Checkpoint) -> str | None:
    """What the file says its vectors are pooled by, where it says one that is known here."""
    return POOLING_TYPES.get(checkpoint.metadata.get(f"{checkpoint.architecture}.pooling_type", -1))


def _ends(positions: range) -> tuple[int, int]:
    return positions.start, positions.stop
