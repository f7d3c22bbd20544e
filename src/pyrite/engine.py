"""The step loop: admit, schedule, run, commit, stream. Synchronous, in one thread at a time.

Requests go in (`add`), each `step` gives the deltas of all requests that it moved on, and what a
request took is free again the moment it ends. A request can fail only itself. The engine knows
nothing of who asks, nor of what a backend does with a batch.
"""

from __future__ import annotations

import itertools

import numpy as np

from pyrite.backends.base import Batch, Runner
from pyrite.continuation import Continuation
from pyrite.errors import ParameterError
from pyrite.kv.pages import PagePool
from pyrite.request import Delta, EngineStats, Request
from pyrite.sampling.sampler import BatchSampler, Sampled
from pyrite.scheduler import Scheduler, Sequence, Slice
from pyrite.text.tokenizer import Tokenizer

Outcome = Sampled | Exception | None


class Engine:
    """`vocabulary` is the width of the logits; `context_length` bounds prompt and output together.

    The runner's pages must hold at least one request of `context_length` tokens.
    """

    def __init__(
        self, runner: Runner, tokenizer: Tokenizer, *, vocabulary: int, context_length: int
    ) -> None:
        self.runner = runner
        self.tokenizer = tokenizer
        self.vocabulary = vocabulary
        self.context_length = context_length
        self.scheduler = Scheduler(PagePool(runner.num_pages), runner.max_tokens)
        self._sampler = BatchSampler()
        self._active: dict[str, tuple[Continuation, Sequence]] = {}

    @property
    def has_work(self) -> bool:
        return self.scheduler.has_work

    def add(self, request: Request) -> None:
        """Raises ParameterError, ContextLengthError or CapacityError; nothing is taken then."""
        if request.request_id in self._active:
            raise ParameterError("request_id", request.request_id, "the id of no other request")
        continuation = Continuation(
            request,
            self.tokenizer,
            vocabulary=self.vocabulary,
            context_length=self.context_length,
        )
        sequence = Sequence(
            request.request_id,
            num_tokens=len(request.prompt_ids),
            max_length=continuation.max_length,
            priority=request.priority,
        )
        self.scheduler.add(sequence)
        self._active[request.request_id] = (continuation, sequence)

    def cancel(self, request_id: str) -> Delta | None:
        """Ends the request and gives its last delta; None when it has ended before."""
        if request_id not in self._active:
            return None
        return self._remove(request_id).end("cancelled")

    def step(self) -> list[Delta]:
        """One batch through the model; a delta for each request that it moved on or ended."""
        slices = self.scheduler.schedule()
        outcomes = self._compute(slices)
        deltas = [self._commit(*pair) for pair in zip(slices, outcomes, strict=True)]
        return [delta for delta in deltas if delta is not None]

    def stats(self) -> EngineStats:
        """Cheap enough to be asked after every step."""
        scheduler = self.scheduler
        pool = scheduler.pool
        return EngineStats(
            waiting=len(scheduler.waiting),
            running=len(scheduler.running),
            pages_total=pool.num_pages,
            pages_used=pool.num_pages - pool.num_free,
            preemptions=scheduler.num_preemptions,
            computed_tokens=scheduler.num_computed_tokens,
        )

    def check(self) -> None:
        """Asserts what holds between any two steps."""
        self.scheduler.check()
        queued = self.scheduler.waiting + self.scheduler.running
        assert {one.request_id for one in queued} == self._active.keys()
        for continuation, sequence in self._active.values():
            assert len(continuation.token_ids) == sequence.num_tokens, sequence

    def _compute(self, slices: list[Slice]) -> list[Outcome]:
        """What came of each slice: a token, None where it ends before the last one, or an error.

        When a batch fails, each of its slices is run by itself, so that the one at fault fails
        alone. Nothing is committed here, and keys and values may be written twice.
        """
        try:
            return self._run(slices)
        except Exception as error:
            if len(slices) == 1:
                return [error]
        return [outcome for work in slices for outcome in self._compute([work])]

    def _run(self, slices: list[Slice]) -> list[Outcome]:
        if not slices:
            return []
        continuations = [self._active[work.sequence.request_id][0] for work in slices]
        batch = assemble(slices, [continuation.token_ids for continuation in continuations])
        logits = self.runner.run(batch)  # (outputs, vocabulary)
        ready = [work.reaches_end for work in slices]
        samplers = [one.sampler for one in itertools.compress(continuations, ready)]
        sampled = iter(self._sampler.sample(samplers, logits))
        return [next(sampled) if is_ready else None for is_ready in ready]

    def _commit(self, work: Slice, outcome: Outcome) -> Delta | None:
        request_id = work.sequence.request_id
        if outcome is None:
            self.scheduler.commit(work, num_sampled=0)
            return None
        try:
            if isinstance(outcome, Exception):
                raise outcome
            if outcome.error:
                raise outcome.error
            continuation = self._active[request_id][0]
            continuation.cached_tokens = work.sequence.num_cached_tokens
            delta = continuation.accept(outcome)
        except Exception as error:
            return self._remove(request_id).end("error", error)
        self.scheduler.commit(work, num_sampled=1)
        if delta.finish_reason:
            self._remove(request_id)
        return delta

    def _remove(self, request_id: str) -> Continuation:
        continuation, sequence = self._active.pop(request_id)
        self.scheduler.remove(sequence)
        return continuation


def assemble(slices: list[Slice], token_ids: list[list[int]]) -> Batch:
    """The batch of the slices; `token_ids` has all known tokens of each slice's sequence."""
    starts = [work.sequence.num_computed_tokens for work in slices]
    spans = [
        range(start, start + work.num_tokens) for start, work in zip(starts, slices, strict=True)
    ]
    ends = np.cumsum([len(span) for span in spans])
    reached = [work.reaches_end for work in slices]
    width = max(len(work.sequence.pages) for work in slices)
    tables = np.full((len(slices), width), -1, dtype=np.int32)  # (sequences, pages)
    for table, work in zip(tables, slices, strict=True):
        table[: len(work.sequence.pages)] = work.sequence.pages
    known = [ids[span.start : span.stop] for ids, span in zip(token_ids, spans, strict=True)]
    return Batch(
        token_ids=np.concatenate(known).astype(np.int32),
        positions=np.concatenate(spans).astype(np.int32),
        sequence_starts=np.concatenate([[0], ends]).astype(np.int32),
        page_tables=tables,
        output_rows=(ends[reached] - 1).astype(np.int32),
    )
