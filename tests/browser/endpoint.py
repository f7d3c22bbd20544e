"""A server that shows the page and answers it by scripts: what comes, in which pieces of bytes,
and what goes wrong. Knows no model.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import threading
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from pyrite.server.page import page_routes

SOURCES = Path(__file__).parents[2] / "ui" / "src"  # modules, for tests of them alone
MODEL = "SmolLM2-135M-Instruct"
DONE = b"data: [DONE]\n\n"


class DroppedError(Exception):
    """Ends a connection in the middle of an answer."""


@dataclass(frozen=True)
class Hold:
    """Sends nothing until the test sets the event."""

    event: threading.Event


# What an answer is made of: bytes that are sent, seconds to wait, a hold, or the end.
Step = bytes | float | Hold | DroppedError


@dataclass
class Refusal:
    status: int
    body: Any
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Endpoint:
    """Scripts are used up answer by answer; after the last one, every answer is `Hello.`"""

    scripts: list[Iterable[Step] | Refusal] = field(default_factory=list)
    key: str = ""  # asked for, where it is not empty
    asked: list[dict[str, Any]] = field(default_factory=list)  # bodies of the requests for answers
    gone: threading.Event = field(default_factory=threading.Event)  # a reader went away
    url: str = ""

    def refuses(self, request: Request) -> bool:
        return bool(self.key) and request.headers.get("authorization") != f"Bearer {self.key}"

    async def models(self, request: Request) -> Response:
        if self.refuses(request):
            return error(401, "a key is needed")
        return JSONResponse({"object": "list", "data": [{"id": MODEL, "object": "model"}]})

    async def chat(self, request: Request) -> Response:
        if self.refuses(request):
            return error(401, "a key is needed")
        self.asked.append(json.loads(await request.body()))
        script = self.scripts.pop(0) if self.scripts else plain("Hello.")
        if isinstance(script, Refusal):
            return JSONResponse(script.body, script.status, script.headers)
        return StreamingResponse(self.steps(script), media_type="text/event-stream")

    async def steps(self, script: Iterable[Step]) -> AsyncIterator[bytes]:
        try:
            for step in script:
                if isinstance(step, DroppedError):
                    raise step
                if isinstance(step, bytes):
                    yield step
                elif isinstance(step, Hold):
                    while not step.event.is_set():
                        await asyncio.sleep(0.01)
                else:
                    await asyncio.sleep(step)
        except asyncio.CancelledError:
            self.gone.set()
            raise


def error(status: int, message: str) -> Response:
    return JSONResponse({"error": {"message": message, "type": "invalid_request_error"}}, status)


def event(chunk: dict[str, Any], end: str = "\n") -> bytes:
    return f"data: {json.dumps(chunk, ensure_ascii=False)}{end}{end}".encode()


def delta(finish: str | None = None, **fields: Any) -> bytes:
    """The event of one delta of choice 0."""
    return event(chunk_of(finish, **fields))


def chunk_of(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": fields, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "model": MODEL, "choices": [choice]}


def usage(prompt: int, answer: int, cached: int | None = None) -> bytes:
    """The event that says what was counted."""
    counts: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": answer}
    counts["total_tokens"] = prompt + answer
    if cached is not None:
        counts["prompt_tokens_details"] = {"cached_tokens": cached}
    return event({"id": "c", "object": "chat.completion.chunk", "choices": [], "usage": counts})


def plain(text: str, size: int = 8, pause: float = 0.0) -> list[Step]:
    """An answer in deltas of so many characters."""
    steps: list[Step] = [delta(role="assistant", content="")]
    parts = [text[at : at + size] for at in range(0, len(text), size)]
    for part in parts:
        steps += [delta(content=part)] + ([pause] if pause else [])
    return [*steps, delta("stop"), usage(12, len(parts), 4), DONE]


@contextmanager
def serve(endpoint: Endpoint) -> Iterator[Endpoint]:
    routes = [
        *page_routes(),
        Route("/blank", lambda request: HTMLResponse("<!doctype html>")),
        Mount("/ui", StaticFiles(directory=SOURCES)),
        Route("/v1/models", endpoint.models),
        Route("/v1/chat/completions", endpoint.chat, methods=["POST"]),
    ]
    listener = socket.create_server(("127.0.0.1", 0))
    endpoint.url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # dropped answers are meant
    config = uvicorn.Config(Starlette(routes=routes), log_config=None, lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield endpoint
    finally:
        server.should_exit = server.force_exit = True
        thread.join()
        listener.close()
