"""Answers asks: prompts go to the engine, its deltas come back as events.

The one place that knows both the engine's requests and the dialects' asks; knows no HTTP.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from pyrite.embedding import EmbeddingRequest
from pyrite.errors import BackendError, ParameterError
from pyrite.request import Delta, PositionLogprobs, Request, Usage
from pyrite.server.ask import Ask, ChatAsk, Ended, Event, Part, Reason, Started
from pyrite.server.errors import HttpError, not_ready
from pyrite.server.limits import Limits
from pyrite.server.link import EngineLink, Inbox
from pyrite.server.metrics import Metrics
from pyrite.server.pace import Pace
from pyrite.server.prompts import Prompt, Prompts
from pyrite.server.wire import Vectors
from pyrite.text.answer import CallStart, Content, Piece


@dataclass(frozen=True, slots=True)
class Card:
    """The model as clients see it. `aliases` are other names it answers to; `*` is any name.

    `adapters`: names that pick one of these, each a model of its own in lists.
    """

    name: str
    aliases: tuple[str, ...] = ()
    adapters: tuple[str, ...] = ()
    created: int = field(default_factory=lambda: int(time.time()))

    @property
    def names(self) -> tuple[str, ...]:
        """What lists of models show."""
        return (self.name, *(alias for alias in self.aliases if alias != "*"), *self.adapters)

    def answers_to(self, name: str | None) -> bool:
        known = (self.name, *self.aliases, *self.adapters)
        return name is None or name in known or "*" in self.aliases

    def adapter_of(self, name: str | None) -> str:
        """The adapter that a model's name picks; empty for the model itself."""
        is_own = name is None or name == self.name or name in self.aliases
        return "" if is_own or name not in self.adapters else name

    def check(self, name: str | None) -> None:
        """Raises HttpError 404 for the name of another model."""
        if not self.answers_to(name):
            known = ", ".join((self.name, *self.aliases, *self.adapters))
            raise HttpError(
                404,
                "model_not_found",
                f"there is no model {name[:100]!r}" if name else "no model is named",
                hint=f"this server has {known}",
            )


class Choice:
    """One answer while it comes: its text is cut into pieces, its tokens are timed."""

    def __init__(self, number: int, beginning: Beginning, metrics: Metrics) -> None:
        self.number = number
        self.beginning = beginning
        parser = beginning.prompt.parser
        self._parser = None if parser is None else parser()
        self._has_calls = False
        self._metrics = metrics
        self._asked_at = self._last_at = time.perf_counter()
        self._has_tokens = False

    def events(self, delta: Delta) -> list[Event]:
        """Raises the request's own error."""
        if delta.error is not None:
            raise delta.error
        if delta.finish_reason in ("cancelled", "error"):
            raise BackendError("the request was cancelled by the server", hint="ask again")
        self._time(delta)
        started = self.beginning.start(delta)
        part = Part(self.number, self._pieces(delta), delta.token_ids, shown_logprobs(delta))
        return [*started, part, *self._end(delta)]

    def _pieces(self, delta: Delta) -> tuple[Piece, ...]:
        if self._parser is None:
            return (Content(delta.text),) if delta.text else ()
        pieces = self._parser.push(delta.text) if delta.text else []
        if delta.finish_reason:
            pieces += self._parser.finish()
        if not self._has_calls:
            self._has_calls = any(isinstance(piece, CallStart) for piece in pieces)
        return tuple(pieces)

    def _end(self, delta: Delta) -> list[Event]:
        if delta.finish_reason is None:
            return []
        assert delta.usage is not None, delta
        assert delta.timings is not None, delta
        reason: Reason = "length"
        if delta.finish_reason == "stop":
            reason = "tool_calls" if self._has_calls else "stop"
        seconds = time.perf_counter() - self._asked_at
        self._metrics.ended(reason, delta.usage, delta.timings, seconds)
        return [Ended(self.number, reason, delta.usage, delta.timings, delta.stopped_by)]

    def _time(self, delta: Delta) -> None:
        now = time.perf_counter()
        if not self._has_tokens and delta.usage is not None:
            self._metrics.first_token(now - self._asked_at, delta.usage)
        gap = now - self._last_at if self._has_tokens else None
        self._metrics.tokens(len(delta.token_ids), gap)
        self._has_tokens, self._last_at = True, now


class Beginning:
    """What all choices of one ask begin with; `first` is the number of the first.

    `tells_cached`: what a miss shows of the cache was this client's own.
    """

    def __init__(self, prompt: Prompt, first: int, *, tells_cached: bool) -> None:
        self.prompt = prompt
        self.first = first
        self._tells_cached = tells_cached
        self._started = False

    def start(self, delta: Delta) -> list[Event]:
        """Once, with the first token of any choice."""
        if self._started:
            return []
        self._started = True
        cached = delta.usage.cached_tokens if delta.usage else 0
        ids = self.prompt.ids
        usage = Usage(len(ids), 0, cached)
        miss = delta.miss
        if miss is not None and not self._tells_cached:
            miss = replace(miss, cached_text="")
        return [Started(usage, self.first, ids, delta.prompt_logprobs, miss)]


def shown_logprobs(delta: Delta) -> tuple[PositionLogprobs, ...]:
    """Those of tokens that are text: not of the id that ended the answer."""
    ended_by_id = delta.finish_reason == "stop" and not isinstance(delta.stopped_by, str)
    return delta.logprobs[:-1] if ended_by_id else delta.logprobs


class Service:
    """One model, ready or being loaded."""

    def __init__(self, link: EngineLink, prompts: Prompts, card: Card, limits: Limits) -> None:
        self.link = link
        self.prompts = prompts
        self.card = card
        self.limits = limits
        self.metrics = Metrics(card.name)
        self.charge: Callable[[str, int], None] = lambda tenant, num_tokens: None
        self.isolate_keys = False
        self.tells_cached = True  # false where another key's prompt may be what is cached
        self.open_to_all = False  # anyone on the network may ask, without a key
        self.draining = False
        self.num_open = 0  # calls of `answer` that have not ended
        self._num_reading = 0  # of these, and of `embed`: the engine has not heard of them yet
        self._pace = Pace()
        self._numbers = itertools.count()
        self._prefix = os.urandom(4).hex()
        link.on_report = self.metrics.heard

    def check_open(self) -> None:
        """Raises HttpError: 503 while nothing can be answered, 429 while too many wait."""
        if self.draining:
            raise HttpError(
                503, "draining", "the server is shutting down", hint="ask another", retry_after=5
            )
        if self.link.state != "ready":
            raise not_ready(self.link.error)
        waiting = self._num_reading + self.link.num_requests - self.link.stats.running
        if waiting >= self.limits.queue:
            raise HttpError(
                429,
                "queue_full",
                f"{waiting} requests are waiting, and the limit is {self.limits.queue}",
                hint="wait as Retry-After says",
                retry_after=self._pace.wait(waiting, time.monotonic()),
            )

    async def answer(self, asks: Sequence[Ask], tenant: str = "") -> AsyncGenerator[Event, None]:
        """Events of all asks; choices are numbered through: those of the second ask come after.

        Closing the generator cancels what has not ended. Raises the PyriteError of the first
        choice that fails.
        """
        self.check_open()
        inbox = Inbox()
        left: dict[str, Choice] = {}
        self.num_open += 1
        try:
            with self._reading():
                pairs = await self._requests(asks, tenant)
            for request, choice in pairs:
                self.link.add(request, inbox)
                left[request.request_id] = choice
            while left:
                for delta in await inbox.take():
                    for event in left[delta.request_id].events(delta):
                        yield event
                    if delta.finish_reason:
                        del left[delta.request_id]
                        self._count(delta, tenant)
        finally:
            self.num_open -= 1
            self.link.cancel(left)

    async def embed(
        self,
        inputs: Sequence[str | tuple[int, ...]],
        *,
        pooling: str | None,
        normalize: bool,
        dimensions: int | None,
        tenant: str = "",
        adapter: str = "",
    ) -> Vectors:
        """Vectors of texts, or of token ids. Raises PyriteError."""
        self.check_open()
        if len(inputs) > self.limits.inputs:
            limit = f"at most {self.limits.inputs} texts"
            raise ParameterError("input", f"{len(inputs)} texts", limit)
        self.num_open += 1
        try:
            size = sum(map(len, inputs))
            with self._reading():
                ids = await self.prompts.apart(size, self.prompts.ids_of_each, inputs)
            request_id = f"{self._prefix}-{next(self._numbers)}"
            asked = EmbeddingRequest(request_id, ids, pooling, normalize, dimensions, adapter)
            vectors = await self.link.embed(asked)
        finally:
            self.num_open -= 1
        self.charge(tenant, vectors.num_tokens)
        return vectors

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """A prompt is being read, and counts among those that wait."""
        self._num_reading += 1
        try:
            yield
        finally:
            self._num_reading -= 1

    async def _requests(self, asks: Sequence[Ask], tenant: str) -> list[tuple[Request, Choice]]:
        pairs: list[tuple[Request, Choice]] = []
        for ask in asks:
            prompt = await self.prompts.read(ask)
            beginning = Beginning(prompt, len(pairs), tells_cached=self.tells_cached)
            for number in range(drawn(ask)):
                choice = Choice(beginning.first + number, beginning, self.metrics)
                pairs.append((self._request(ask, prompt, number, tenant), choice))
        return pairs

    def _request(self, ask: Ask, prompt: Prompt, number: int, tenant: str) -> Request:
        return Request(
            f"{self._prefix}-{next(self._numbers)}",
            prompt.ids,
            prompt.params,
            priority=ask.priority,
            choice=number,
            tenant=tenant,
            cache_namespace=self._namespace(ask, tenant),
            explain_cache=ask.explain_cache,
            adapter=ask.adapter,
        )

    def _namespace(self, ask: Ask, tenant: str) -> str:
        """Distinct for distinct pairs of key and salt."""
        key = tenant if self.isolate_keys else ""
        return f"{len(key)}:{key}{ask.cache_salt}" if key or ask.cache_salt else ""

    def _count(self, delta: Delta, tenant: str) -> None:
        """A request has ended."""
        self._pace.ended(time.monotonic())
        if delta.usage is not None:
            self.charge(tenant, delta.usage.prompt_tokens + delta.usage.completion_tokens)


def drawn(ask: Ask) -> int:
    """Answers that are drawn for an ask."""
    return ask.n if isinstance(ask, ChatAsk) else max(ask.n, ask.best_of)
