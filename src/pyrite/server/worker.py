"""The engine's process: takes commands from a socket, steps, and sends what each step gave.

One thread, one loop. It ends when the other end of the socket closes, so that it never outlives
the server. Knows no HTTP.
"""

from __future__ import annotations

import gc
import signal
import socket
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pyrite.embedding import Embedded, Embedder, EmbeddingRequest
from pyrite.engine import Engine
from pyrite.errors import BackendError, PyriteError
from pyrite.loading import Loaded, load_engine
from pyrite.request import Delta, Request
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
    commands_of,
    frame,
)

RECEIVE_BYTES = 2**18
IDLE_REPORT_SECONDS = 1.0  # between reports of an engine without work: a sign of life


class Pipe:
    """The worker's end of the socket."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._frames = Frames()

    def send(self, message: Message) -> None:
        """Waits while the other end is behind."""
        self._link.settimeout(None)
        self._link.sendall(frame(message))

    def receive(self, wait_seconds: float | None) -> list[Command]:
        """What has come; 0 does not wait, None waits for long. Raises EOFError at its end."""
        self._link.settimeout(wait_seconds)
        try:
            data = self._link.recv(RECEIVE_BYTES)
        except (BlockingIOError, TimeoutError):
            return []
        if not data:
            raise EOFError
        return [command for body in self._frames.push(data) for command in commands_of(body)]


class Worker:
    """The engine's loop. `make_embedder` is called when vectors are first asked for."""

    def __init__(
        self, pipe: Pipe, engine: Engine, make_embedder: Callable[[], Embedder] | None = None
    ) -> None:
        self._pipe = pipe
        self._engine = engine
        self._make_embedder = make_embedder
        self._embedder: Embedder | None = None
        self._vectors: list[Vectors] = []  # to be sent

    def run(self) -> None:
        """Until the socket closes."""
        while True:
            wait = 0.0 if self._has_work else IDLE_REPORT_SECONDS
            deltas = [
                delta for command in self._pipe.receive(wait) for delta in self._obey(command)
            ]
            if self._engine.has_work:
                deltas += self._engine.step()
            if self._embedder is not None and self._embedder.has_work:
                ended = self._embedder.step(self._engine.room_beside)
                self._vectors += [vectors_of(one) for one in ended]
            vectors, self._vectors = self._vectors, []
            self._pipe.send(Report(deltas, self._engine.stats(), vectors))

    @property
    def _has_work(self) -> bool:
        return self._engine.has_work or bool(self._embedder and self._embedder.has_work)

    def _obey(self, command: Command) -> list[Delta]:
        if isinstance(command, Add):
            return self._add(command.request)
        if isinstance(command, Cancel):
            if self._embedder is not None and self._embedder.cancel(command.request_id):
                return []
            last = self._engine.cancel(command.request_id)
            return [] if last is None else [last]
        if isinstance(command, Embed):
            self._embed(command.request)
            return []
        raise AssertionError(command)

    def _add(self, request: Request) -> list[Delta]:
        try:
            self._engine.add(request)
        except PyriteError as error:
            return [Delta(request.request_id, finish_reason="error", error=error)]
        return []

    def _embed(self, request: EmbeddingRequest) -> None:
        try:
            if self._embedder is None:
                if self._make_embedder is None:
                    raise BackendError("this model gives no vectors")
                self._embedder = self._make_embedder()
            self._embedder.add(request)
        except PyriteError as error:
            self._vectors.append(Vectors(request.request_id, 0, 0, [], error))


def vectors_of(embedded: Embedded) -> Vectors:
    data = [vector.astype("<f4").tobytes() for vector in embedded.vectors]
    width = embedded.vectors[0].shape[-1] if embedded.vectors else 0
    return Vectors(embedded.request_id, embedded.num_tokens, width, data, embedded.error)


def load(pipe: Pipe) -> Loaded | None:
    """Obeys the first command; None when there is nothing to run."""
    commands: list[Command] = []
    while not commands:
        commands = pipe.receive(None)
    (start,) = commands
    assert isinstance(start, Start), start
    try:
        loaded = load_engine(
            Path(start.model), start.settings, lambda *told: pipe.send(Packing(*told))
        )
    except Exception as error:
        pipe.send(Failed(error))
        return None
    engine = loaded.engine
    pipe.send(
        Ready(
            context_length=engine.context_length,
            vocabulary=engine.vocabulary,
            num_pages=engine.runner.num_pages,
            threads=loaded.threads.count,
            notes=list(loaded.notes),
        )
    )
    return loaded


def main(descriptor: int) -> None:
    # The server decides when this process ends: a Ctrl-C on the terminal is for it alone.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with socket.socket(fileno=descriptor) as link:
        pipe = Pipe(link)
        try:
            loaded = load(pipe)
            if loaded is not None:
                gc.collect()
                gc.freeze()
                try:
                    Worker(pipe, loaded.engine, partial(Embedder, loaded)).run()
                finally:
                    loaded.engine.close()
        except (EOFError, ConnectionError):
            pass
        finally:
            gc.unfreeze()


if __name__ == "__main__":
    main(int(sys.argv[1]))
