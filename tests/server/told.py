"""A service that answers every ask with the events that a test tells it, and keeps the asks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
from starlette.applications import Starlette
from starlette.routing import Route
from tests.engine.scripted import byte_tokenizer

from pyrite.request import Timings, Usage
from pyrite.server.ask import Ask, ChatAsk, Ended, Event, Part, Reason, Started
from pyrite.server.limits import Limits
from pyrite.server.metrics import Metrics
from pyrite.server.service import Card
from pyrite.server.wire import Vectors
from pyrite.text.answer import CallArguments, CallStart, Content, Piece, Reasoning
from pyrite.text.template import ChatTemplate
from pyrite.text.tokenizer import Tokenizer

Happening = Event | Exception
TIMINGS = Timings(0.25, 0.5)


def started(prompt: int = 10, cached: int = 0) -> Started:
    return Started(Usage(prompt, 0, cached))


def part(*pieces: Piece, ids: Sequence[int] = (7,), **more: Any) -> Part:
    return Part(0, pieces, tuple(ids), **more)


def ended(
    reason: Reason = "stop",
    *,
    prompt: int = 10,
    completion: int = 5,
    cached: int = 0,
    stopped_by: str | int | None = None,
) -> Ended:
    return Ended(0, reason, Usage(prompt, completion, cached), TIMINGS, stopped_by)


def answer_of(*pieces: Piece, **end: Any) -> list[Event]:
    return [started(), *(part(piece) for piece in pieces), ended(**end)]


def recut(pieces: Sequence[Piece], size: int) -> list[Piece]:
    """The same answer in pieces of at most `size` characters."""
    cut: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, CallStart):
            cut.append(piece)
            continue
        for start in range(0, len(piece.text), size):
            text = piece.text[start : start + size]
            if isinstance(piece, CallArguments):
                cut.append(CallArguments(piece.index, text))
            else:
                cut.append(type(piece)(text))
    return cut


EVERYTHING: tuple[Piece, ...] = (
    Reasoning("Let me see… 雨?"),
    Content("I look at 東京 & Paris 🌧."),
    CallStart(0, "call_a", "weather"),
    CallArguments(0, '{"city": "Tokyo", "days": [1, 2]}'),
    CallStart(1, "call_b", "clock"),
    CallArguments(1, "{}"),
)


class ToldPrompts:
    """Every character of a conversation is a token."""

    def __init__(self) -> None:
        self.tokenizer: Tokenizer = byte_tokenizer()
        self.sampling: dict[str, float] = {}
        self.template: ChatTemplate | None = ChatTemplate("{{ messages[0].content }}")

    async def ids(self, ask: Ask) -> tuple[int, ...]:
        assert isinstance(ask, ChatAsk)
        return tuple(range(sum(len(message["content"]) for message in ask.messages)))


@dataclass
class ToldService:
    happenings: Sequence[Happening] = ()
    card: Card = field(default_factory=lambda: Card("told", ("alias",), created=1))
    prompts: ToldPrompts = field(default_factory=ToldPrompts)
    asks: list[Ask] = field(default_factory=list)
    tenants: list[str] = field(default_factory=list)
    closed: bool = False
    open_to_all: bool = False
    limits: Limits = field(default_factory=Limits)
    metrics: Metrics = field(default_factory=lambda: Metrics("told"))

    link: Any = field(default_factory=lambda: SimpleNamespace(model=None, ready=None))

    async def embed(
        self,
        inputs: Sequence[str],
        *,
        pooling: str | None,
        normalize: bool,
        dimensions: int | None,
        tenant: str = "",
        adapter: str = "",
    ) -> Vectors:
        """Each vector is the text's length, whether it is normal, and the dimensions wanted."""
        rows = [[len(text), float(normalize), dimensions or 0] for text in inputs]
        data = [np.array(row, dtype="<f4").tobytes() for row in rows]
        return Vectors("told", sum(map(len, inputs)), 3, data)

    async def answer(self, asks: Sequence[Ask], tenant: str = "") -> AsyncGenerator[Event, None]:
        self.asks += asks
        self.tenants.append(tenant)
        try:
            for happening in self.happenings:
                if isinstance(happening, Exception):
                    raise happening
                yield happening
        finally:
            self.closed = True


@dataclass
class Told:
    """Routes of a dialect over a ToldService."""

    routes: Callable[[Any], list[Route]]
    service: ToldService = field(default_factory=ToldService)

    def tell(self, *happenings: Happening) -> None:
        self.service.happenings = happenings

    def post(self, path: str, content: Any, **headers: str) -> httpx.Response:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        return self.send("POST", path, content=body, headers=headers)

    def send(self, method: str, path: str, **options: Any) -> httpx.Response:
        async def sent() -> httpx.Response:
            transport = httpx.ASGITransport(Starlette(routes=self.routes(self.service)))
            async with httpx.AsyncClient(transport=transport, base_url="http://told") as client:
                return await client.request(method, path, **options)

        return asyncio.run(sent())

    @property
    def ask(self) -> ChatAsk:
        """The last one."""
        ask = self.service.asks[-1]
        assert isinstance(ask, ChatAsk)
        return ask


def named_events(text: str) -> list[tuple[str, Any]]:
    """Name and data of each server-sent event; every frame must have just these two lines."""
    frames = text.split("\n\n")
    assert frames.pop() == ""
    pairs = []
    for frame in frames:
        name, data = frame.split("\n")
        assert name.startswith("event: "), frame
        assert data.startswith("data: "), frame
        pairs.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return pairs
