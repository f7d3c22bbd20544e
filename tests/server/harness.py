"""A whole server for tests: over a scripted model in this process, or over a file in its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import uvicorn
from tests.engine.scripted import VOCABULARY, Logits, ReadingRunner, hashed, make_engine
from tests.patience import PATIENCE, until

from pyrite.config import Settings
from pyrite.engine import Engine
from pyrite.server.app import build_app
from pyrite.server.link import EngineLink
from pyrite.server.prompts import Prompts
from pyrite.server.protocol import bounded
from pyrite.server.run import listen, url_of
from pyrite.server.service import Card, Service
from pyrite.server.settings import ServerSettings
from pyrite.server.wire import Ready
from pyrite.server.worker import Pipe, Worker
from pyrite.text.template import ChatTemplate

# Turns without marks, so that what the scripted model reads is what a test wrote.
TEMPLATE = "{% for message in messages %}{{ message.content }}{% endfor %}"


@dataclass
class Served:
    """A running server: `service` and `engine` where it runs in this process."""

    url: str
    service: Service | None = None
    engine: Engine | None = None
    process: subprocess.Popen[bytes] | None = None

    def client(self, **options: object) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=PATIENCE, **options)  # type: ignore[arg-type]

    def wait_idle(self) -> None:
        """Until the engine has no request; its invariants are checked then."""
        engine = self.engine
        assert engine is not None
        until(lambda: not engine.has_work, "the engine still has work")
        engine.check()


@contextlib.contextmanager
def scripted_server(
    logits: Logits = hashed,
    *,
    runner: ReadingRunner | None = None,
    context: int = 512,
    num_pages: int = 32,
    template: str | None = TEMPLATE,
    settings: ServerSettings = ServerSettings(),  # noqa: B008 - frozen
    wrap: Callable[[Service], object] = lambda service: None,
) -> Iterator[Served]:
    """The real server and worker loop, in threads of this process, over a scripted model."""
    runner = runner or ReadingRunner(logits, num_pages=num_pages)
    engine = make_engine(runner, context=context)
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    pipe = Pipe(theirs)
    link = EngineLink(Path("scripted"), Settings())
    chat = None if template is None else ChatTemplate(template)
    service = Service(
        link, Prompts(engine.tokenizer, chat), Card("scripted", ("alias",)), settings.limits
    )
    wrap(service)
    config = uvicorn.Config(
        build_app(service, settings),
        http=bounded(settings.limits),
        log_config=None,
        lifespan="off",
        ws="none",
        timeout_keep_alive=int(settings.limits.idle_seconds),
    )
    server = uvicorn.Server(config)
    listener = listen("127.0.0.1", 0)

    async def run() -> None:
        await link.start(ours)
        await server.serve(sockets=[listener])
        await link.close()

    worker = threading.Thread(target=run_worker, args=(pipe, engine), daemon=True)
    front = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    worker.start()
    front.start()
    url = url_of(listener)
    wait_ready(service, url)
    try:
        yield Served(url, service, engine)
    finally:
        server.should_exit = True
        front.join(PATIENCE)
        worker.join(PATIENCE)
        theirs.close()
        listener.close()
        assert not front.is_alive(), "the server did not stop"
        assert not worker.is_alive(), "the worker did not stop"


def run_worker(pipe: Pipe, engine: Engine) -> None:
    ready = Ready(
        context_length=engine.context_length,
        vocabulary=VOCABULARY,
        num_pages=engine.runner.num_pages,
        threads=1,
        notes=[],
    )
    pipe.send(ready)
    with contextlib.suppress(EOFError, OSError):
        Worker(pipe, engine).run()


@contextlib.contextmanager
def file_server(
    model: Path,
    *options: str,
    env: dict[str, str] | None = None,
    preexec_fn: Callable[[], None] | None = None,
) -> Iterator[Served]:
    """`pyrite serve` as a process, on any free port; ended when the block ends.

    Nothing is kept from one run to the next, unless `options` say so.
    """
    fixed = ("--port", "0", "--kv-store-bytes", "0")
    command = [sys.executable, "-m", "pyrite", "serve", str(model), *fixed, *options]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, **(env or {})},
        preexec_fn=preexec_fn,
    )
    lines: list[str] = []
    found = threading.Event()

    def read() -> None:
        assert process.stderr is not None
        for line in process.stderr:
            lines.append(line.decode(errors="replace"))
            if " is ready at " in lines[-1]:
                found.set()
        found.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        assert found.wait(PATIENCE), "".join(lines)
        match = re.search(r"is ready at (http://\S+)", "".join(lines))
        assert match is not None, "".join(lines)
        yield Served(match[1], process=process)
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        reader.join(PATIENCE)
        assert process.stderr is not None
        process.stderr.close()


def wait_ready(service: Service, url: str) -> None:
    host, port = url.removeprefix("http://").split(":")

    def is_ready() -> bool:
        if service.link.state == "ready":
            with contextlib.suppress(OSError), socket.create_connection((host, int(port))):
                return True
        return False

    until(is_ready, f"{url} did not become ready")


def events_of(text: str) -> list[str]:
    """The data of each server-sent event."""
    return [line.removeprefix("data: ") for line in text.split("\n") if line.startswith("data: ")]
