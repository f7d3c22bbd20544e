"""One HTTP/1.1 connection, used for one request after another; parts of a body as they arrive.

A callback for each part instead of a task that wakes: what a client costs is taken from the server
beside it. Knows nothing of JSON.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, cast
from urllib.parse import urlsplit

import httptools

from pyrite.errors import ParameterError


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens; `path` comes before that of every request."""

    host: str
    port: int
    path: str
    tls: bool


def parse_url(url: str) -> Address:
    """Raises ParameterError for what is no http or https URL."""
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        raise ParameterError("--url", url, "like http://127.0.0.1:8000/v1") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ParameterError("--url", url, "like http://127.0.0.1:8000/v1")
    return Address(parts.hostname, port, parts.path.rstrip("/"), parts.scheme == "https")


def encode_request(
    address: Address, path: str, body: bytes | None, headers: Mapping[str, str]
) -> bytes:
    """A POST with a JSON body, or a GET where there is none."""
    lines = [f"{'GET' if body is None else 'POST'} {address.path}{path} HTTP/1.1"]
    lines.append(f"Host: {address.host}:{address.port}")
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + (body or b"")


class ExchangeError(Exception):
    """`kind` is "connect", "cut" (closed before the reply was whole) or "malformed"."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Sink(Protocol):
    """What a reply is poured into. `seconds` is time.perf_counter() when the bytes came."""

    def begin(self, status: int, seconds: float) -> None: ...

    def take(self, data: bytes, seconds: float) -> None: ...


class Connection(asyncio.Protocol):
    """Opened by `open_connection`. One exchange at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._reply: _Reply | None = None

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    async def exchange(self, request: bytes, sink: Sink) -> int:
        """Sends a request and pours its reply into the sink; gives the status.

        Raises ExchangeError, and whatever the sink raises; the connection is closed then, and when
        this is cancelled.
        """
        assert self._transport is not None, "not opened"
        self._reply = reply = _Reply(sink, asyncio.get_running_loop().create_future())
        try:
            if not self.is_open:
                raise ExchangeError("cut", "the connection is closed")
            self._transport.write(request)
            await reply.done
        except BaseException:
            self._transport.abort()
            raise
        finally:
            self._reply = None
        if not reply.keeps_alive:
            self.close()
        return reply.status

    def pause(self) -> None:
        """Reads no more until `resume`: a client that is slow."""
        assert self._transport is not None, "not opened"
        self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport is not None and self.is_open:
            self._transport.resume_reading()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by its class

    def data_received(self, data: bytes) -> None:
        if self._reply is not None:
            self._reply.feed(data)

    def connection_lost(self, error: Exception | None) -> None:
        if self._reply is not None:
            self._reply.lost(error)


class _Reply:
    """One reply while it arrives; also what httptools calls back."""

    def __init__(self, sink: Sink, done: asyncio.Future[None]) -> None:
        self.done = done
        self.status = 0
        self.keeps_alive = False
        self._sink = sink
        self._seconds = 0.0
        self._ends_by_closing = True
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: bytes) -> None:
        self._seconds = time.perf_counter()
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError as error:  # the sink raised
            self._fail(error.__context__ or error)
        except httptools.HttpParserError as error:
            self._fail(ExchangeError("malformed", f"no HTTP reply: {error}"))

    def lost(self, error: Exception | None) -> None:
        if self.status and self._ends_by_closing and error is None:
            self._finish()
        else:
            self._fail(ExchangeError("cut", f"closed before the reply was whole: {error}"))

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() in (b"content-length", b"transfer-encoding"):
            self._ends_by_closing = False

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        self._sink.begin(self.status, self._seconds)

    def on_body(self, data: bytes) -> None:
        self._sink.take(data, self._seconds)

    def on_message_complete(self) -> None:
        self.keeps_alive = self._parser.should_keep_alive()
        self._finish()

    def _finish(self) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def _fail(self, error: BaseException) -> None:
        if not self.done.done():
            self.done.set_exception(error)


async def open_connection(address: Address) -> Connection:
    """Raises ExchangeError when nobody listens."""
    loop = asyncio.get_running_loop()
    tls = ssl.create_default_context() if address.tls else None
    try:
        _, connection = await loop.create_connection(
            Connection, address.host, address.port, ssl=tls
        )
    except OSError as error:
        raise ExchangeError("connect", str(error)) from None
    return connection
