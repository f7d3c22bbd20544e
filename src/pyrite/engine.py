"""The step loop: admit, schedule, run, commit, stream. Synchronous, in one thread at a time.

Requests go in (`add`), each `step` gives the deltas of all requests that it moved on, and what a
request took is free again the moment it ends. A request can fail only itself. The engine knows
nothing of who asks, nor of what a backend does with a batch.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pyrite.assembly import Assembler, Rows
from pyrite.backends.base import Runner
from pyrite.continuation import Continuation, merged
from pyrite.errors import ParameterError
from pyrite.grammars import WaitingRoom
from pyrite.kv.cache import PageCache
from pyrite.kv.pages import PAGE_TOKENS, PagePool
from pyrite.kv.states import States
from pyrite.kv.table import PageTable
from pyrite.request import Delta, EngineStats, Request
from pyrite.sampling.masks import MaskTeam, Started
from pyrite.sampling.sampler import BatchSampler, Sampled
from pyrite.scheduler import Policy, Scheduler
from pyrite.sequence import Sequence, Slice
from pyrite.speculation import Speculation
from pyrite.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from pyrite.keeper import Keeper

COMPILE_WAIT_SECONDS = 0.02  # for a grammar, when there is nothing else to do
Logits = NDArray[np.float32]  # (rows, vocabulary)
Drawn = Sampled | Exception | None  # a token, why there is none, or that none was wanted


class Engine:
    """`vocabulary` is the width of the logits; `context_length` bounds prompt and output together.

    The runner's pages must hold at least one request of `context_length` tokens. `window`: the
    positions that some layer sees, 0 for all. `fingerprint` names the model and how it computes.
    `speculation`: none by default. `keeper` lets pages outlive the process. `adapters`: names of
    those that the runner's plan has, in its order, and what each holds, as a text.
    """

    def __init__(
        self,
        runner: Runner,
        tokenizer: Tokenizer,
        *,
        vocabulary: int,
        context_length: int,
        policy: Policy | None = None,
        prefix_cache: bool = True,
        window: int = 0,
        fingerprint: str = "",
        speculation: Speculation | None = None,
        keeper: Keeper | None = None,
        adapters: Mapping[str, str] | None = None,
    ) -> None:
        self.runner = runner
        self.tokenizer = tokenizer
        self.vocabulary = vocabulary
        self.context_length = context_length
        self.adapters = dict(adapters or {})
        cache = PageCache(
            PagePool(runner.num_pages),
            window=window,
            step_tokens=runner.max_tokens,
            fingerprint=fingerprint,
            is_on=prefix_cache,
            keeper=keeper,
            states=States(runner.num_slots) if runner.state_bytes else None,
        )
        self._keeper = keeper
        self.scheduler = Scheduler(cache, policy or Policy(runner.max_tokens))
        self._assembler = Assembler()
        self._sampler = BatchSampler()
        self._speculation = speculation or Speculation()
        self._masks = MaskTeam()
        self._compiling = WaitingRoom(tokenizer)
        self._active: dict[str, tuple[Continuation, Sequence]] = {}

    @property
    def has_work(self) -> bool:
        return self.scheduler.has_work or len(self._compiling) > 0

    def add(self, request: Request) -> None:
        """Raises ParameterError, ContextLengthError or CapacityError; nothing is taken then.

        A grammar is compiled while others run; one that cannot be ends its request later.
        """
        if request.request_id in self._active or request.request_id in self._compiling:
            raise ParameterError("request_id", request.request_id, "the id of no other request")
        if request.params.stop and not self.tokenizer.has_texts:
            limit = "left out: the model holds no tokenizer, and tokens have no text"
            hint = "stop_token_ids ends an answer by its tokens"
            raise ParameterError("stop", request.params.stop, limit, hint=hint)
        continuation = Continuation(
            request,
            self.tokenizer,
            vocabulary=self.vocabulary,
            context_length=self.context_length,
        )
        continuation.adapter = self.adapter_number(request.adapter)
        sequence = Sequence(
            request.request_id,
            num_tokens=len(request.prompt_ids),
            max_length=continuation.max_length,
            priority=request.priority,
            tenant=request.tenant,
            table=PageTable(continuation.token_ids, self._namespace(request), request.tenant),
            explains=request.explain_cache,
            scores_prompt=not continuation.prompt_scores.complete,
        )
        if request.params.grammar is None:
            self._admit(continuation, sequence)
        else:
            self._compiling.enter(continuation, sequence)

    def adapter_number(self, name: str) -> int:
        """That of a batch, -1 for no name. Raises ParameterError."""
        if not name:
            return -1
        if name not in self.adapters:
            known = ", ".join(self.adapters) or "none: load the model with some"
            raise ParameterError("adapter", name, f"one that was loaded: {known}")
        return list(self.adapters).index(name)

    def _namespace(self, request: Request) -> str:
        """Keys and values of an adapter are its own, by what it holds and not by its name."""
        if not request.adapter:
            return request.cache_namespace
        return f"\0{self.adapters[request.adapter]}\0{request.cache_namespace}"

    def prepare_grammars(self) -> None:
        """Gets ready for grammars beside the loop, which the first one would wait for otherwise.

        For a large vocabulary that is a second of processor time, in which other threads of this
        process stand still, and some 60 MB.
        """
        self._compiling.compiler.prepare()

    @property
    def room_beside(self) -> int | None:
        """Tokens that others may compute between two steps, as a long prompt may in one; None for
        any number, where nobody waits."""
        return self.scheduler.policy.prefill_chunk if self.has_work else None

    def cancel(self, request_id: str) -> Delta | None:
        """Ends the request and gives its last delta; None when it has ended before."""
        if request_id in self._compiling:
            return self._compiling.leave(request_id).end("cancelled")
        if request_id not in self._active:
            return None
        return self._remove(request_id).end("cancelled")

    def step(self) -> list[Delta]:
        """One batch through the model; a delta for each request that it moved on or ended."""
        refused = self._admit_compiled() if self._compiling else []
        running = [self._active[one.request_id] for one in self.scheduler.running]
        self._speculation.propose(running, self.scheduler.policy.max_batch_tokens)
        slices = self.scheduler.schedule()
        self.scheduler.cache.run_copies(self.runner.copy_page)
        self._copy_states()
        deltas = self._advance(slices)
        if self._keeper is not None:
            self._keeper.step()
        return refused + [delta for delta in deltas if delta is not None]

    def close(self) -> None:
        """Writes what is still to be kept, for a short time. No step follows."""
        if self._keeper is not None:
            self._keeper.close()

    def stats(self) -> EngineStats:
        """Cheap enough to be asked after every step."""
        scheduler = self.scheduler
        pool, index, states = scheduler.cache.pool, scheduler.cache.index, scheduler.cache.states
        return EngineStats(
            waiting=len(scheduler.waiting) + len(self._compiling),
            running=len(scheduler.running),
            pages_total=pool.num_pages,
            pages_used=pool.num_pages - pool.num_free - index.num_idle,
            pages_cached=index.num_idle,
            states_total=states.num_slots if states else 0,
            states_used=states.num_held + states.num_spare if states else 0,
            states_cached=states.num_checkpoints if states else 0,
            prefix_queries=scheduler.num_queried_tokens,
            prefix_hits=scheduler.num_found_tokens,
            restored_tokens=self._keeper.num_restored * PAGE_TOKENS if self._keeper else 0,
            stored_pages=self._keeper.num_written if self._keeper else 0,
            preemptions=scheduler.num_preemptions,
            computed_tokens=scheduler.num_computed_tokens,
            drafts=self._speculation.num_drafts,
            drafted_tokens=self._speculation.num_drafted,
            accepted_tokens=sum(self._speculation.accepted_at),
            accepted_at=tuple(self._speculation.accepted_at),
        )

    def check(self) -> None:
        """Asserts what holds between any two steps."""
        self.scheduler.check()
        queued = [*self.scheduler.waiting, *self.scheduler.running]
        assert {one.request_id for one in queued} == self._active.keys()
        for continuation, sequence in self._active.values():
            assert len(continuation.token_ids) == sequence.num_tokens, sequence

    def _admit(self, continuation: Continuation, sequence: Sequence) -> None:
        self.scheduler.add(sequence)
        self._active[sequence.request_id] = (continuation, sequence)

    def _admit_compiled(self) -> list[Delta]:
        """The last deltas of those whose grammar, or size, is refused."""
        refused = []
        seconds = 0.0 if self.scheduler.has_work else COMPILE_WAIT_SECONDS
        for continuation, sequence, error in self._compiling.ready(seconds):
            try:
                if error is not None:
                    raise error
                self._admit(continuation, sequence)
            except Exception as failure:
                refused.append(continuation.end("error", failure))
        return refused

    def _copy_states(self) -> None:
        states = self.scheduler.cache.states
        if states is None:
            return
        began = time.perf_counter()
        if count := states.run_copies(self.runner):
            self._speculation.observe_saving((time.perf_counter() - began) / count)

    def _advance(self, slices: list[Slice]) -> list[Delta | None]:
        """Computes the slices in one batch, then commits them one by one.

        When the batch fails, each slice is computed by itself, so that the one at fault fails
        alone: nothing is committed then, no state has moved, and keys and values may be written
        twice.
        """
        if not slices:
            return []
        try:
            results = self._run(slices)
        except Exception as error:
            if len(slices) == 1:
                return [self._fail(slices[0], error)]
            return [delta for work in slices for delta in self._advance([work])]
        return [self._commit(work, *result) for work, result in zip(slices, results, strict=True)]

    def _run(self, slices: list[Slice]) -> list[tuple[Logits, Logits, Drawn]]:
        """Of each slice the logits to score, and those to draw from; what the first of these gave.

        The logits are the runner's, until it runs again.
        """
        continuations = [self._active[work.sequence.request_id][0] for work in slices]
        batch, rows = self._assembler.assemble(slices, continuations)
        drawing = [(one, own) for one, own in zip(continuations, rows, strict=True) if own.drawn]
        with self._masks.start([one.constraint for one, _ in drawing]) as started:
            began = time.perf_counter()
            logits = self.runner.run(batch)  # (outputs, vocabulary)
            self._speculation.times.observe(batch.num_tokens, time.perf_counter() - began)
        sampled = iter(self._sample(started, drawing, logits))
        return [
            (
                logits[own.scored.start : own.scored.stop],
                logits[own.drawn.start : own.drawn.stop],
                next(sampled) if own.drawn else None,
            )
            for own in rows
        ]

    def _sample(
        self, started: Started, drawing: list[tuple[Continuation, Rows]], logits: Logits
    ) -> list[Drawn]:
        """The first token of each. What fails is drawn one by one, from the same logits: what was
        computed is not computed again, for states have moved."""
        try:
            samplers = [one.sampler for one, _ in drawing]
            first = np.array([own.drawn.start for _, own in drawing], np.int32)
            return [*started.sample(self._sampler, samplers, logits, first)]
        except Exception:
            return [self._draw_alone(one, logits[own.drawn.start]) for one, own in drawing]

    def _draw_alone(self, continuation: Continuation, logits: Logits) -> Drawn:
        try:
            return self._draw(continuation, logits[np.newaxis])[0]
        except Exception as error:
            return error

    def _commit(self, work: Slice, scored: Logits, drawn: Logits, sampled: Drawn) -> Delta | None:
        if isinstance(sampled, Exception):
            return self._fail(work, sampled)
        continuation, sequence = self._active[work.sequence.request_id]
        continuation.cached_tokens = sequence.num_cached_tokens
        continuation.parting = sequence.parting
        try:
            continuation.prompt_scores.add(self._sampler.scratch, scored)
        except Exception as error:
            return self._fail(work, error)
        sequence.scores_prompt = not continuation.prompt_scores.complete
        if sampled:
            delta = self._accept(continuation, work, drawn, sampled)
        elif work.reaches_end:
            delta = continuation.end("length")
        else:
            delta = None
        self.scheduler.commit(work, num_sampled=len(delta.token_ids) if delta else 0)
        self._copy_states()
        if delta and delta.finish_reason:
            self._remove(work.sequence.request_id)
        return delta

    def _accept(
        self, continuation: Continuation, work: Slice, logits: Logits, sampled: Sampled
    ) -> Delta:
        """Takes what was drawn, and draws on as long as that is what was guessed."""
        drafts = iter(continuation.drafts[: work.num_drafts])
        rows = iter(logits[1:])
        deltas = []
        try:
            deltas.append(continuation.accept(sampled))
            while not deltas[-1].finish_reason and sampled.token_id == next(drafts, None):
                (sampled,) = self._draw(continuation, next(rows)[np.newaxis])
                deltas.append(continuation.accept(sampled))
        except Exception as error:
            deltas.append(continuation.end("error", error))
        delta = merged(deltas)
        self._speculation.learn(delta.request_id, work.num_drafts, max(0, len(delta.token_ids) - 1))
        return delta

    def _draw(self, continuation: Continuation, logits: Logits) -> list[Sampled]:
        with self._masks.start([continuation.constraint]) as started:
            pass
        return started.sample(self._sampler, [continuation.sampler], logits)

    def _fail(self, work: Slice, error: Exception) -> Delta:
        return self._remove(work.sequence.request_id).end("error", error)

    def _remove(self, request_id: str) -> Continuation:
        continuation, sequence = self._active.pop(request_id)
        self._speculation.forget(request_id)
        self.scheduler.remove(sequence)
        return continuation
