"""Requests and responses as plain ASGI: a body with a limit, JSON, and streams that end well.

A stream's first chunk is made before its status is sent, so that what fails early is a clear
status and not a broken stream; when that takes long, the status goes ahead, and the stream says now
and then that it waits, lest a proxy think it dead. A client that goes away ends the work within a
step; one that reads too slowly is given up. Knows no dialect.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from pyrite.server.decoding import check_values
from pyrite.server.errors import HttpError, is_bug, status_of
from pyrite.server.limits import Limits
from pyrite.server.metrics import Metrics

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = Sequence[tuple[bytes, bytes]]
T = TypeVar("T")

WAITING = b": waiting\n\n"  # a comment among server-sent events, which every client passes over

logger = logging.getLogger("pyrite.server")


class ClientGone(Exception):  # noqa: N818 - an event, not a fault
    """Nobody is there to read an answer."""


class Reply(Protocol):
    """What one request is answered with. Made by a dialect."""

    headers: Headers

    @property
    def media_type(self) -> str: ...

    def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body, piece by piece; one piece where it is not streamed."""
        ...

    @property
    def streams(self) -> bool: ...

    def failure(self, error: BaseException) -> bytes:
        """What ends a stream that fails after its beginning."""
        ...

    @property
    def keep_alive(self) -> bytes:
        """What a stream says while it has nothing to say; empty where clients would stumble."""
        ...


class Envelope(Protocol):
    """How a dialect tells an error: its JSON."""

    def __call__(self, error: BaseException, status: int) -> bytes: ...


def check_length(scope: Scope, limits: Limits) -> None:
    """Refuses by its headers what would be refused later. Raises HttpError."""
    headers = dict(scope["headers"])
    if int(headers.get(b"content-length", b"0")) > limits.body_bytes:
        words = f"the body has more than the limit of {limits.body_bytes} bytes"
        raise HttpError(413, "body_too_large", words)
    if headers.get(b"content-encoding", b"identity").lower() != b"identity":
        hint = "send it as it is"
        raise HttpError(415, "unsupported_encoding", "the body is compressed", hint=hint)


async def read_body(receive: Receive, limits: Limits) -> bytes:
    """Raises HttpError 413 for a body too large, 408 for one too slow; ClientGone."""
    parts = []
    size = 0
    limit = limits.body_bytes
    while True:
        try:
            async with asyncio.timeout(limits.body_seconds):
                message = await receive()
        except TimeoutError:
            words = f"nothing of the body came for {limits.body_seconds:g} s"
            raise HttpError(408, "body_too_slow", words) from None
        if message["type"] == "http.disconnect":
            raise ClientGone
        part = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise HttpError(
                413, "body_too_large", f"the body has more than the limit of {limit} bytes"
            )
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


async def send_bytes(
    send: Send,
    status: int,
    body: bytes,
    *,
    media_type: str = "application/json",
    headers: Headers = (),
) -> None:
    start = [
        (b"content-type", media_type.encode()),
        (b"content-length", str(len(body)).encode()),
        *headers,
    ]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": body})


async def send_error(send: Send, error: BaseException, envelope: Envelope) -> None:
    status = status_of(error)
    headers = []
    if isinstance(error, HttpError) and error.retry_after is not None:
        headers.append((b"retry-after", str(max(1, round(error.retry_after))).encode()))
    if is_bug(error):
        logger.error("a request failed: %s", type(error).__name__, exc_info=error)
    await send_bytes(send, status, envelope(error, status), headers=headers)


def heads(reply: Reply) -> list[tuple[bytes, bytes]]:
    """Of a stream."""
    return [
        (b"content-type", reply.media_type.encode()),
        (b"cache-control", b"no-cache"),
        (b"x-accel-buffering", b"no"),
        *reply.headers,
    ]


@contextlib.asynccontextmanager
async def ended(work: asyncio.Future[T]) -> AsyncGenerator[asyncio.Future[T], None]:
    """Work that is cancelled, and has ended, when the block ends."""
    try:
        yield work
    finally:
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await work


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An ASGI application of one route: reads a body, makes a reply, sends it."""

    reply: Callable[[Scope, bytes], Awaitable[Reply]]
    envelope: Envelope
    limits: Limits
    metrics: Metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            check_length(scope, self.limits)
            body = await read_body(receive, self.limits)
            check_values(body, self.limits.json_values)
            await self._answer(scope, body, receive, send)
        except ClientGone:
            self.metrics.cancelled()
        except Exception as error:
            self.metrics.refused(status_of(error))
            await send_error(send, error, self.envelope)

    async def _answer(self, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        """Answers, unless the client goes away first: then all is cancelled."""
        async with (
            ended(asyncio.ensure_future(self._respond(scope, body, send))) as work,
            ended(asyncio.ensure_future(_gone(receive))) as watch,
        ):
            await asyncio.wait([work, watch], return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise ClientGone
            await work

    async def _respond(self, scope: Scope, body: bytes, send: Send) -> None:
        reply = await self.reply(scope, body)
        async with aclosing(reply.chunks()) as chunks:
            if reply.streams:
                await self._stream(send, reply, chunks)
            else:
                whole = await anext(chunks)
                await send_bytes(
                    send, 200, whole, media_type=reply.media_type, headers=reply.headers
                )

    async def _stream(self, send: Send, reply: Reply, chunks: AsyncGenerator[bytes, None]) -> None:
        async with ended(asyncio.ensure_future(anext(chunks))) as first:
            await asyncio.wait([first], timeout=self._patience(reply))
            if first.done():
                first.result()  # raises what failed early
            await send({"type": "http.response.start", "status": 200, "headers": heads(reply)})
            await self._fill(send, reply, first, chunks)
        await send({"type": "http.response.body", "body": b""})

    def _patience(self, reply: Reply) -> float | None:
        """Seconds of silence that a stream may keep; None for any."""
        return self.limits.first_byte_seconds if reply.keep_alive else None

    async def _fill(
        self,
        send: Send,
        reply: Reply,
        first: asyncio.Future[bytes],
        rest: AsyncGenerator[bytes, None],
    ) -> None:
        try:
            while not first.done():
                await self._write(send, reply.keep_alive)
                await asyncio.wait([first], timeout=self._patience(reply))
            await self._write(send, first.result())
            async for chunk in rest:
                await self._write(send, chunk)
        except (ClientGone, asyncio.CancelledError):
            raise
        except Exception as error:
            self.metrics.refused(status_of(error))
            if is_bug(error):
                logger.error("a stream failed: %s", type(error).__name__, exc_info=error)
            await self._write(send, reply.failure(error))

    async def _write(self, send: Send, chunk: bytes) -> None:
        try:
            async with asyncio.timeout(self.limits.slow_reader_seconds):
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        except TimeoutError:
            self.metrics.gave_up()
            logger.warning("a client read nothing of its stream, and is given up")
            raise ClientGone from None
