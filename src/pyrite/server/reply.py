"""What replies to an ask have in common in every dialect: one value, or one stream."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import ClassVar, Generic, Protocol, TypeVar

from pyrite.server.ask import Ask, Ended, Event, Part
from pyrite.server.http import WAITING, Headers
from pyrite.server.service import Service


class Streamable(Protocol):
    """Of a request: whether its answer is streamed."""

    stream: bool


Asked = TypeVar("Asked", bound=Streamable)
Prompt = TypeVar("Prompt", bound=Ask)


@dataclass(slots=True)
class AskReply(ABC, Generic[Asked, Prompt]):
    """One request's answers. A `http.Reply`."""

    service: Service
    request: Asked
    asks: Sequence[Prompt]
    tenant: str
    headers: Headers = ()
    stream_type: ClassVar[str] = "text/event-stream; charset=utf-8"

    @property
    def streams(self) -> bool:
        return self.request.stream

    @property
    def media_type(self) -> str:
        return self.stream_type if self.streams else "application/json"

    @property
    def keep_alive(self) -> bytes:
        return WAITING

    @abstractmethod
    def failure(self, error: BaseException) -> bytes: ...

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        async with aclosing(self.service.answer(self.asks, self.tenant)) as events:
            if self.streams:
                async for chunk in self._streamed(events):
                    yield chunk
            else:
                yield await self._whole(events)

    @abstractmethod
    def _streamed(self, events: AsyncGenerator[Event, None]) -> AsyncGenerator[bytes, None]: ...

    @abstractmethod
    async def _whole(self, events: AsyncGenerator[Event, None]) -> bytes: ...


class OneReply(AskReply[Asked, Prompt]):
    """To one ask with one choice: told event by event, or taken in and told at the end."""

    __slots__ = ()

    @property
    def ask(self) -> Prompt:
        (ask,) = self.asks
        return ask

    async def _streamed(self, events: AsyncGenerator[Event, None]) -> AsyncGenerator[bytes, None]:
        async for happened in events:
            if chunk := self._told(happened):
                yield chunk

    async def _whole(self, events: AsyncGenerator[Event, None]) -> bytes:
        ended: Ended | None = None
        async for happened in events:
            if isinstance(happened, Part):
                self._take(happened)
            elif isinstance(happened, Ended):
                ended = happened
        assert ended is not None, "an ask that did not end"
        return self._end(ended)

    @abstractmethod
    def _told(self, happened: Event) -> bytes:
        """What a stream says of it; nothing is not said."""

    @abstractmethod
    def _take(self, part: Part) -> object: ...

    @abstractmethod
    def _end(self, ended: Ended) -> bytes:
        """The answer, all of whose parts were taken."""
