"""What replies of chat completions and completions have in common: one stream, or one value."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from pyrite.server.ask import Ask, Event
from pyrite.server.errors import status_of
from pyrite.server.http import WAITING, Headers
from pyrite.server.openai.errors import description
from pyrite.server.service import Service


class Streamable(Protocol):
    """Of a request: whether its answer is streamed."""

    stream: bool


Asked = TypeVar("Asked", bound=Streamable)
Prompt = TypeVar("Prompt", bound=Ask)


@dataclass(slots=True)
class OpenAIReply(ABC, Generic[Asked, Prompt]):
    """One request's answers, whole or as chunks."""

    service: Service
    request: Asked
    asks: Sequence[Prompt]
    tenant: str
    answer_id: str
    headers: Headers = ()
    media_type: str = "application/json"
    created: int = field(default_factory=lambda: int(time.time()))

    def __post_init__(self) -> None:
        if self.request.stream:
            self.media_type = "text/event-stream; charset=utf-8"

    @property
    def streams(self) -> bool:
        return self.request.stream

    @property
    def keep_alive(self) -> bytes:
        return WAITING

    def failure(self, error: BaseException) -> bytes:
        return event({"error": description(error, status_of(error))})

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        async with aclosing(self.service.answer(self.asks, self.tenant)) as events:
            if self.request.stream:
                async for chunk in self._streamed(events):
                    yield chunk
            else:
                yield await self._whole(events)

    @abstractmethod
    def _streamed(self, events: AsyncGenerator[Event, None]) -> AsyncGenerator[bytes, None]: ...

    @abstractmethod
    async def _whole(self, events: AsyncGenerator[Event, None]) -> bytes: ...

    def _shell(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        """What every object and chunk of an answer begins with."""
        return {
            "id": self.answer_id,
            "object": kind,
            "created": self.created,
            "model": self.service.card.name,
            "choices": choices,
        }


def event(value: Any) -> bytes:
    return b"data: " + msgspec.json.encode(value) + b"\n\n"
