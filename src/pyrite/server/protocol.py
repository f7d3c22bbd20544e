"""HTTP/1.1 as uvicorn speaks it, with bounds on what comes before a body, and on how slowly."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from pyrite.server.limits import Limits


class TooMuch(Exception):  # noqa: N818 - ends the parsing of one connection
    """A request is out of bounds before its body."""


def bounded(limits: Limits) -> type[HttpToolsProtocol]:
    """The protocol for one server's limits."""

    class Bounded(HttpToolsProtocol):
        """One connection."""

        _timer: asyncio.TimerHandle | None = None
        _header_bytes = 0
        _refused = False

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > limits.connections:
                self._refuse(503, f"more than {limits.connections} connections")
                return
            self._timer = self.loop.call_later(limits.idle_seconds, self.transport.close)

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self._refused:
                return
            try:
                super().data_received(data)
            except TooMuch:
                return

        def on_message_begin(self) -> None:
            self._header_bytes = 0
            self._stop_waiting()
            self._wait_for_headers()
            super().on_message_begin()

        def on_url(self, url: bytes) -> None:
            super().on_url(url)
            if len(self.url) > limits.url_bytes:
                self._refuse(414, f"the URL has more than {limits.url_bytes} bytes")

        def on_header(self, name: bytes, value: bytes) -> None:
            self._header_bytes += len(name) + len(value)
            if self._header_bytes > limits.header_bytes:
                self._refuse(431, f"the headers have more than {limits.header_bytes} bytes")
            if len(self.headers) >= limits.headers:
                self._refuse(431, f"there are more than {limits.headers} headers")
            super().on_header(name, value)

        def on_headers_complete(self) -> None:
            self._stop_waiting()
            super().on_headers_complete()

        def send_400_response(self, msg: str) -> None:
            self._say(400, "what came is no HTTP request")

        def _wait_for_headers(self) -> None:
            self._timer = self.loop.call_later(limits.header_seconds, self._late)

        def _stop_waiting(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _late(self) -> None:
            self._timer = None
            if self.cycle is None or self.cycle.response_complete:
                self._say(408, f"no whole request came within {limits.header_seconds:g} s")

        def _refuse(self, status: int, words: str) -> None:
            self._say(status, words)
            raise TooMuch

        def _say(self, status: int, words: str) -> None:
            """The last words on this connection."""
            if self._refused:
                return
            self._refused = True
            body = f'{{"error":{{"message":"{words}","type":"invalid_request_error"}}}}'.encode()
            head = (
                f"HTTP/1.1 {status} {PHRASES[status]}\r\ncontent-type: application/json\r\n"
                f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
            )
            self.transport.write(head.encode() + body)
            self.transport.close()

    return Bounded


PHRASES = {
    400: "Bad Request",
    408: "Request Timeout",
    414: "URI Too Long",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}
