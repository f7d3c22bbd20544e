"""Threads that share one engine: each follows its own request, and whoever waits moves all of them.

A thread that finds nothing in its inbox takes one step of the engine under the lock and hands out
the deltas of every request, so requests of several threads run in one batch. Knows no model.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyrite.engine import Engine
from pyrite.errors import BackendError
from pyrite.request import Delta, Request


class Driver:
    """The only way to an engine that threads share; `engine` is for reading alone.

    What is not taken out of an inbox waits there: at most one delta for each token that a request
    may have.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._inboxes: dict[str, deque[Delta]] = {}
        self._abandoned: deque[str] = deque()
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._closed = False

    def start(self, request: Request) -> None:
        """Raises what `Engine.add` does."""
        with self.exclusive() as engine:
            engine.add(request)
            self._inboxes[request.request_id] = deque()

    def next(self, request_id: str, stopped: Callable[[], bool]) -> Delta:
        """The next delta of a started request that has not ended; the last one ends it.

        `stopped` is asked before each step, of which a long prompt takes many; when it says so,
        the request is cancelled, and its last delta given.
        """
        while True:
            with self.exclusive():
                inbox = self._inboxes[request_id]
                if inbox:
                    return self._take(request_id, inbox)
                if stopped():
                    last = self._cancel(request_id)
                    assert last is not None, request_id
                    return last
                self._step()

    def stop(self, request_id: str) -> Delta | None:
        """Cancels the request, if it has not ended; its unread deltas are dropped."""
        if self._closed or os.getpid() != self._process:
            return None
        with self._lock:
            return self._cancel(request_id)

    def abandon(self, request_id: str) -> None:
        """As `stop`, for a finalizer, which may run while this very thread is inside a step: then
        the request is cancelled when the engine is used next."""
        self._abandoned.append(request_id)
        if os.getpid() == self._process and self._lock.acquire(blocking=False):
            try:
                self._bury()
            finally:
                self._lock.release()

    def close(self) -> None:
        """Waits for a step that is under way; from then on every use is an error."""
        if os.getpid() != self._process:
            return
        with self._lock:
            if not self._closed:
                self.engine.close()
            self._closed = True
            self._inboxes.clear()

    @contextmanager
    def exclusive(self) -> Iterator[Engine]:
        """The engine, between two steps, for this thread alone. Raises BackendError."""
        if os.getpid() != self._process:
            raise BackendError(
                f"the model was loaded in process {self._process}, and this one was forked from it",
                hint="load the model after the fork: its threads and locks do not survive one",
            )
        with self._lock:
            if self._closed:
                raise BackendError("the model is closed", hint="load it again")
            self._bury()
            yield self.engine

    def _bury(self) -> None:
        while self._abandoned:
            self._cancel(self._abandoned.popleft())

    def _cancel(self, request_id: str) -> Delta | None:
        self._inboxes.pop(request_id, None)
        return self.engine.cancel(request_id)

    def _take(self, request_id: str, inbox: deque[Delta]) -> Delta:
        delta = inbox.popleft()
        if delta.finish_reason:
            del self._inboxes[request_id]
        return delta

    def _step(self) -> None:
        for delta in self.engine.step():
            self._inboxes[delta.request_id].append(delta)
