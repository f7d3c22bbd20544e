"""Runs the server in this process, and the engine in another, until it is told to stop.

The first SIGTERM or SIGINT drains: no new request is taken, streams end, for a while. The second
one ends everything at once.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import socket
from collections.abc import Callable
from functools import partial
from types import FrameType

import uvicorn
import uvloop

from pyrite.errors import PyriteError
from pyrite.models.adapters import named
from pyrite.models.registry import open_model
from pyrite.server.app import build_app
from pyrite.server.errors import HttpError
from pyrite.server.link import EngineLink
from pyrite.server.prompts import prompts_of
from pyrite.server.protocol import bounded
from pyrite.server.running import noted
from pyrite.server.service import Card, Service
from pyrite.server.settings import ServerSettings

logger = logging.getLogger("pyrite.server")

BACKLOG = 4096  # connections that the system holds until they are taken
LAST_WORDS_SECONDS = 0.2  # in which streams that are cut say so
LAST_SECONDS = 2  # that connections may take to close once nothing is left to say


def listen(host: str, port: int) -> socket.socket:
    """Raises OSError for an address that is taken, or is not this machine's."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        hint = "; --port 0 takes a free one" if error.errno == errno.EADDRINUSE else ""
        words = f"cannot listen on {host} port {port}: {error.strerror}{hint}"
        raise OSError(error.errno, words) from None
    listener.set_inheritable(False)
    return listener


def url_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve(
    link: EngineLink,
    engine: socket.socket,
    listener: socket.socket,
    name: str,
    settings: ServerSettings,
    say: Callable[[str], None],
) -> int:
    """The exit code. `engine` is the socket of a process that `link.spawn` gave.

    Raises PyriteError when the model cannot be loaded.
    """
    checkpoint = open_model(link.model)
    card = Card(name, settings.aliases, tuple(named(one)[0] for one in link.settings.lora))
    service = Service(link, prompts_of(checkpoint, link.settings), card, settings.limits)
    config = uvicorn.Config(
        build_app(service, settings),
        http=bounded(settings.limits),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=int(settings.limits.idle_seconds),
        timeout_graceful_shutdown=LAST_SECONDS,
        backlog=BACKLOG,
    )
    gc.collect()
    gc.freeze()
    run = Run(Server(config), service, settings, say)
    try:
        with (
            noted(link.settings.cache, url_of(listener), name),
            asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        ):
            return runner.run(run.main(engine, listener))
    finally:
        gc.unfreeze()


class Server(uvicorn.Server):
    """Leaves signals to `on_signal`."""

    on_signal: Callable[[], object] = staticmethod(lambda: None)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.on_signal()


class Run:
    """One life of the server."""

    def __init__(
        self,
        server: Server,
        service: Service,
        settings: ServerSettings,
        say: Callable[[str], None],
    ) -> None:
        self._server = server
        self._service = service
        self._settings = settings
        self._say = say
        self._error: PyriteError | None = None
        self._drain: asyncio.Task[None] | None = None

    async def main(self, engine: socket.socket, listener: socket.socket) -> int:
        loop = asyncio.get_running_loop()
        self._server.on_signal = partial(loop.call_soon_threadsafe, self._signalled)
        await self._service.link.start(engine)
        loading = asyncio.ensure_future(self._load(url_of(listener)))
        try:
            await self._server.serve(sockets=[listener])
        finally:
            loading.cancel()
            await self._service.link.close()
        if self._error is not None:
            raise self._error
        return 0

    async def _load(self, url: str) -> None:
        try:
            await self._service.link.settled()
        except PyriteError as error:
            self._error = error
            self._server.should_exit = True
            return
        ready = self._service.link.ready
        assert ready is not None
        for note in ready.notes:
            self._say(note)
        self._say(f"{self._service.card.name} is ready at {url}")

    def _signalled(self) -> None:
        if self._drain is None:
            self._service.draining = True
            self._say("draining: streams may end; a second signal ends them now")
            self._drain = asyncio.ensure_future(self._drained())
        else:
            self._cutting = asyncio.ensure_future(self._cut())

    async def _drained(self) -> None:
        try:
            async with asyncio.timeout(self._settings.drain_seconds):
                while self._service.num_open:
                    await asyncio.sleep(0.02)
        except TimeoutError:
            logger.warning("%d requests had not ended when time was up", self._service.num_open)
            await self._cut()
        self._server.should_exit = True

    async def _cut(self) -> None:
        """Every stream ends with an error, and then everything."""
        self._service.link.end_all(
            HttpError(503, "shutting_down", "the server is shutting down", hint="ask another")
        )
        await asyncio.sleep(LAST_WORDS_SECONDS)
        self._server.force_exit = True
        self._server.should_exit = True
