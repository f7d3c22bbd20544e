"""The server's end of the engine: starts its process, sends requests, hands out deltas.

All of it runs in the event loop's thread. A process that dies ends every request with an error and
is started again, so long as it does not die at once. Knows no HTTP.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import cast

from pyrite.backends.base import Progress
from pyrite.config import Settings
from pyrite.continuation import merged
from pyrite.embedding import EmbeddingRequest
from pyrite.errors import BackendError, PyriteError, RequestError
from pyrite.request import Delta, EngineStats, Request
from pyrite.server.wire import (
    Add,
    Cancel,
    Command,
    Embed,
    Failed,
    Frames,
    Message,
    Packing,
    Ready,
    Report,
    Start,
    Vectors,
    frame,
    message_of,
)

logger = logging.getLogger("pyrite.server")

MERGE_BEYOND = 32  # unread deltas of one request; further ones are joined to the last
REAP_SECONDS = 1.0
MAX_RESTARTS = 3  # within RESTART_WINDOW_SECONDS
RESTART_WINDOW_SECONDS = 600.0


class Inbox:
    """The unread deltas of some requests. One reader."""

    def __init__(self) -> None:
        self._deltas: deque[Delta] = deque()
        self._waiter: asyncio.Future[None] | None = None

    def put(self, delta: Delta) -> None:
        last = self._deltas[-1] if len(self._deltas) >= MERGE_BEYOND else None
        if last is not None and last.request_id == delta.request_id and not last.finish_reason:
            self._deltas[-1] = merged([last, delta])
        else:
            self._deltas.append(delta)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def take(self) -> list[Delta]:
        """All that is there, or the next to come."""
        if not self._deltas:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        taken = list(self._deltas)
        self._deltas.clear()
        return taken


class EngineLink:
    """One engine process for one model. `on_report` hears of every step, `on_packing` of the bytes
    of weights that are packed, and of how many.

    `state` is "loading", "ready", "failed" (`error` says why) or "closed".
    """

    def __init__(self, model: Path, settings: Settings) -> None:
        self.model = model
        self.settings = settings
        self.state = "closed"
        self.ready: Ready | None = None
        self.error: PyriteError | None = None
        self.stats = EngineStats()
        self.heard_at = time.monotonic()
        self.on_report: Callable[[Report], None] = lambda report: None
        self.on_packing: Progress = lambda done, total: None
        self._inboxes: dict[str, Inbox] = {}
        self._waiters: dict[str, asyncio.Future[Vectors]] = {}  # of requests for embeddings
        self._outgoing: list[bytes] = []  # frames of commands
        self._restarts: deque[float] = deque()
        self._process: subprocess.Popen[bytes] | None = None
        self._transport: asyncio.Transport | None = None
        self._settled: asyncio.Future[None] | None = None

    @property
    def num_requests(self) -> int:
        return len(self._inboxes) + len(self._waiters)

    def is_alive(self, watchdog_seconds: float) -> bool:
        """False when the process is gone for good, or has been silent for too long."""
        if self.state == "ready":
            return time.monotonic() - self.heard_at < watchdog_seconds
        return self.state == "loading"

    def spawn(self) -> socket.socket:
        """Starts the process, which imports what it needs while the server goes on starting."""
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", "pyrite.server.worker", str(theirs.fileno())]
            self._process = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env=os.environ
            )
        ours.sendall(frame([Start(str(self.model), self.settings)]))
        ours.setblocking(False)
        return ours

    async def start(self, ours: socket.socket | None = None) -> None:
        """Connects to a process that `spawn` gave, or to a new one; does not wait for the model."""
        self.state = "loading"
        loop = asyncio.get_running_loop()
        self._settled = loop.create_future()
        ours = ours or self.spawn()
        await loop.create_connection(lambda: _Connection(self), sock=ours)

    async def settled(self) -> None:
        """Returns once the model is loaded. Raises the PyriteError that prevented it."""
        assert self._settled is not None
        await asyncio.shield(self._settled)
        if self.error is not None:
            raise self.error

    def add(self, request: Request, inbox: Inbox) -> None:
        """Raises BackendError while there is no engine, RequestError for a number out of bounds."""
        if self.state != "ready":
            raise self.error or BackendError(
                "the engine is not ready", hint="ask again in a moment; /readyz tells when"
            )
        self._say(Add(request))
        self._inboxes[request.request_id] = inbox

    async def embed(self, request: EmbeddingRequest) -> Vectors:
        """Raises what the request's own error is, BackendError while there is no engine."""
        if self.state != "ready":
            raise self.error or BackendError("the engine is not ready", hint="ask again")
        self._say(Embed(request))
        waiter = asyncio.get_running_loop().create_future()
        self._waiters[request.request_id] = waiter
        try:
            vectors: Vectors = await waiter
        finally:
            if self._waiters.pop(request.request_id, None) is not None:
                self._say(Cancel(request.request_id))
        if vectors.error is not None:
            raise vectors.error
        return vectors

    def cancel(self, request_ids: Iterable[str]) -> None:
        """Forgets the requests; those that have ended already are passed over."""
        for request_id in request_ids:
            if self._inboxes.pop(request_id, None) is not None:
                self._say(Cancel(request_id))

    async def close(self) -> None:
        """Ends the process; waits for it, but not for a step of any length."""
        self.state = "closed"
        if self._transport is not None:
            self._transport.close()
        if self._process is not None:
            process = self._process
            with contextlib.suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(process.wait, 5)
            if process.poll() is None:
                process.kill()
                await asyncio.to_thread(process.wait)

    def _say(self, command: Command) -> None:
        """Raises RequestError for what cannot be said; others' commands are untouched by it."""
        try:
            framed = frame([command])
        except OverflowError:
            words = "a whole number has more than 64 bits"
            raise RequestError(words, hint="give a smaller one") from None
        if not self._outgoing:
            asyncio.get_running_loop().call_soon(self._flush)
        self._outgoing.append(framed)

    def _flush(self) -> None:
        frames, self._outgoing = self._outgoing, []
        if self._transport is not None and frames:
            self._transport.write(b"".join(frames))

    def connected(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def heard(self, message: Message) -> None:
        self.heard_at = time.monotonic()
        if isinstance(message, Ready):
            self.ready, self.state, self.error = message, "ready", None
            self._settle()
        elif isinstance(message, Failed):
            self._fail(message.error)
        elif isinstance(message, Packing):
            self.on_packing(message.done, message.total)
        else:
            self._deliver(message)

    def _deliver(self, report: Report) -> None:
        self.stats = report.stats
        for delta in report.deltas:
            inbox = self._inboxes.get(delta.request_id)
            if inbox is None:
                continue
            if delta.finish_reason:
                del self._inboxes[delta.request_id]
            inbox.put(delta)
        for vectors in report.vectors:
            waiter = self._waiters.pop(vectors.request_id, None)
            if waiter is not None and not waiter.done():
                waiter.set_result(vectors)
        self.on_report(report)

    def lost(self) -> None:
        """The process has ended, or will: its socket is closed."""
        self._transport = None
        if self.state in ("closed", "failed"):  # one that said why the model cannot be loaded
            return
        loading, self.state = self.state == "loading", "failed"
        self.error = self.error or BackendError(
            "the engine's process ended", hint="the server starts a new one: ask again"
        )
        self.end_all(self.error)
        if loading or not self._may_restart():
            self._settle()
            return
        logger.error("the engine's process ended; starting a new one")
        if self._process is not None:  # it is taken off the system's list once it is gone
            asyncio.get_running_loop().call_later(REAP_SECONDS, self._process.poll)
        self.error = None
        self._restart = asyncio.ensure_future(self.start())

    def end_all(self, error: Exception) -> None:
        """The last delta of every request is the error."""
        inboxes, self._inboxes = self._inboxes, {}
        for request_id, inbox in inboxes.items():
            inbox.put(Delta(request_id, finish_reason="error", error=error))
        waiters, self._waiters = self._waiters, {}
        for request_id, waiter in waiters.items():
            if not waiter.done():
                waiter.set_result(Vectors(request_id, 0, 0, [], error))

    def _may_restart(self) -> bool:
        now = time.monotonic()
        while self._restarts and now - self._restarts[0] > RESTART_WINDOW_SECONDS:
            self._restarts.popleft()
        self._restarts.append(now)
        return len(self._restarts) <= MAX_RESTARTS

    def _fail(self, error: Exception) -> None:
        self.error = error if isinstance(error, PyriteError) else BackendError(str(error))
        self.state = "failed"
        self._settle()

    def _settle(self) -> None:
        if self._settled is not None and not self._settled.done():
            self._settled.set_result(None)


class _Connection(asyncio.Protocol):
    """Frames of the socket, given to the link one by one."""

    def __init__(self, link: EngineLink) -> None:
        self._link = link
        self._frames = Frames()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._link.connected(cast(asyncio.Transport, transport))

    def data_received(self, data: bytes) -> None:
        for body in self._frames.push(data):
            self._link.heard(message_of(body))

    def connection_lost(self, error: Exception | None) -> None:
        self._link.lost()
