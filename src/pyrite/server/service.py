"""Answers asks: prompts go to the engine, its deltas come back as events.

The one place that knows both the engine's requests and the dialects' asks; knows no HTTP.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field, replace

from pyrite.errors import BackendError
from pyrite.request import Delta, Request, Usage
from pyrite.server.ask import Ask, ChatAsk, Ended, Event, Part, Reason, Started
from pyrite.server.errors import HttpError, not_ready
from pyrite.server.link import EngineLink, Inbox
from pyrite.server.prompts import Prompts
from pyrite.text.answer import Content, Piece


@dataclass(frozen=True, slots=True)
class Card:
    """The model as clients see it. `aliases` are other names it answers to; `*` is any name."""

    name: str
    aliases: tuple[str, ...] = ()
    created: int = field(default_factory=lambda: int(time.time()))
    details: dict[str, object] = field(default_factory=dict)

    def answers_to(self, name: str | None) -> bool:
        return name is None or name == self.name or name in self.aliases or "*" in self.aliases

    def check(self, name: str | None) -> None:
        """Raises HttpError 404 for the name of another model."""
        if not self.answers_to(name):
            known = ", ".join((self.name, *self.aliases))
            raise HttpError(
                404,
                "model_not_found",
                f"there is no model {name[:100]!r}" if name else "no model is named",
                hint=f"this server has {known}",
            )


class Choice:
    """One answer while it comes: its text is cut into pieces."""

    def __init__(self, number: int) -> None:
        self.number = number

    def push(self, text: str) -> tuple[Piece, ...]:
        return (Content(text),) if text else ()

    def finish(self, delta: Delta) -> tuple[tuple[Piece, ...], Reason]:
        return (), "length" if delta.finish_reason == "length" else "stop"


class Service:
    """One model, ready or being loaded."""

    def __init__(self, link: EngineLink, prompts: Prompts, card: Card) -> None:
        self.link = link
        self.prompts = prompts
        self.card = card
        self.draining = False
        self._numbers = itertools.count()
        self._prefix = os.urandom(4).hex()
        self.num_open = 0  # asks that are being answered

    def check_open(self) -> None:
        """Raises HttpError 503 while nothing can be answered."""
        if self.draining:
            raise HttpError(
                503, "draining", "the server is shutting down", hint="ask another", retry_after=5
            )
        if self.link.state != "ready":
            raise not_ready(self.link.error)

    async def answer(self, asks: Sequence[Ask], tenant: str = "") -> AsyncGenerator[Event, None]:
        """Events of all asks; choices are numbered through: those of the second ask come after.

        Closing the generator cancels what has not ended. Raises the PyriteError of the first
        choice that fails.
        """
        self.check_open()
        inbox = Inbox()
        choices: dict[str, Choice] = {}
        firsts: dict[str, tuple[int, tuple[int, ...]]] = {}
        requests: list[Request] = []
        for ask in asks:
            ids = await self.prompts.ids(ask)
            first = len(choices)
            for number in range(drawn(ask)):
                request = self._request(ask, ids, number, tenant)
                requests.append(request)
                choices[request.request_id] = Choice(first + number)
                firsts[request.request_id] = (first, ids)
        started: set[int] = set()
        left = set(choices)
        self.num_open += 1
        try:
            for request in requests:
                self.link.add(request, inbox)
            while left:
                for delta in await inbox.take():
                    if delta.error is not None:
                        raise delta.error
                    first, ids = firsts[delta.request_id]
                    if first not in started:
                        started.add(first)
                        yield start_of(delta, first, ids)
                    for event in events_of(delta, choices[delta.request_id]):
                        yield event
                    if delta.finish_reason:
                        left.discard(delta.request_id)
        finally:
            self.num_open -= 1
            self.link.cancel(left)

    def _request(self, ask: Ask, ids: tuple[int, ...], number: int, tenant: str) -> Request:
        return Request(
            f"{self._prefix}-{next(self._numbers)}",
            ids,
            ask.params,
            priority=ask.priority,
            choice=number,
            tenant=tenant,
            cache_namespace=ask.cache_salt,
            explain_cache=ask.explain_cache,
        )


def drawn(ask: Ask) -> int:
    """Answers that are drawn for an ask."""
    return ask.n if isinstance(ask, ChatAsk) else max(ask.n, ask.best_of)


def start_of(delta: Delta, first: int, ids: tuple[int, ...]) -> Started:
    cached = delta.usage.cached_tokens if delta.usage else 0
    return Started(
        Usage(len(ids), 0, cached),
        choice=first,
        prompt_ids=ids,
        prompt_logprobs=delta.prompt_logprobs,
        miss=delta.miss,
    )


def events_of(delta: Delta, choice: Choice) -> list[Event]:
    if delta.finish_reason in ("cancelled", "error"):
        raise BackendError("the request was cancelled by the server", hint="ask again")
    pieces = choice.push(delta.text)
    ended: list[Event] = []
    if delta.finish_reason:
        last, reason = choice.finish(delta)
        pieces += last
        assert delta.usage is not None, delta
        assert delta.timings is not None, delta
        ended = [Ended(choice.number, reason, delta.usage, delta.timings, delta.stopped_by)]
    return [Part(choice.number, pieces, delta.token_ids, delta.logprobs), *ended]


def without_sampling(ask: Ask) -> Ask:
    """The ask, for one token: what its prompt costs and nothing else."""
    return replace(ask, params=replace(ask.params, max_tokens=1))
