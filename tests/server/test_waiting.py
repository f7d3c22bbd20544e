"""Streams whose first token is long in coming: they say so, and a late error still reaches its
client."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from tests.engine.scripted import ReadingRunner
from tests.patience import PATIENCE
from tests.server.harness import Served, events_of, scripted_server
from tests.server.told import named_events

from pyrite.backends.base import Batch
from pyrite.server.limits import Limits
from pyrite.server.settings import ServerSettings

MESSAGES = [{"role": "user", "content": "tin"}]
CHAT: dict[str, Any] = {"messages": MESSAGES, "max_tokens": 3, "stream": True}
MESSAGE = {**CHAT, "model": "scripted"}
STREAMS = {
    "/v1/chat/completions": CHAT,
    "/v1/completions": {"prompt": "tin", "max_tokens": 3, "stream": True},
    "/v1/responses": {"input": "tin", "max_output_tokens": 3, "stream": True},
}


class Held:
    """Steps wait until they are let go; one with a Q in it fails then."""

    def __init__(self) -> None:
        self.go = threading.Event()

    def __call__(self, number: int, batch: Batch) -> bool:
        assert self.go.wait(PATIENCE)
        return ord("Q") in batch.token_ids

    @contextmanager
    def stream(self, served: Served, path: str, body: Any) -> Iterator[Iterator[str]]:
        """Lines of a stream whose first step has not been taken yet."""
        self.go.clear()
        try:
            with served.client() as client, client.stream("POST", path, json=body) as reply:
                assert reply.status_code == 200
                yield reply.iter_lines()
        finally:
            self.go.set()


@pytest.fixture(scope="module")
def held() -> Held:
    return Held()


@pytest.fixture(scope="module")
def slow(held: Held) -> Iterator[Served]:
    runner = ReadingRunner()
    runner.fails = held
    settings = ServerSettings(limits=Limits(first_byte_seconds=0.05))
    with scripted_server(runner=runner, settings=settings) as served:
        yield served


def text_of(held: Held, served: Served, path: str, body: Any, waits: int = 4) -> str:
    """All of a stream, whose first step is taken after so many lines have come."""
    with held.stream(served, path, body) as lines:
        early = [next(lines) for _ in range(waits)]
        held.go.set()
        return "\n".join([*early, *lines, ""])


@pytest.mark.parametrize("path", STREAMS)
def test_a_stream_says_that_it_waits(slow: Served, held: Held, path: str) -> None:
    text = text_of(held, slow, path, STREAMS[path])
    assert text.startswith(": waiting\n\n: waiting\n\n")
    frames = [frame for frame in text.split("\n\n") if frame and not frame.startswith(":")]
    assert all("data: " in frame for frame in frames)
    assert len(frames) > 3


def test_anthropics_streams_ping_while_they_wait(slow: Served, held: Held) -> None:
    text = text_of(held, slow, "/v1/messages", MESSAGE, waits=6)
    kinds = [name for name, _ in named_events(text)]
    assert kinds[:2] == ["ping", "ping"]
    assert kinds[-1] == "message_stop"


def test_a_late_error_comes_in_the_stream(slow: Served, held: Held) -> None:
    asked = [{"role": "user", "content": "Q!"}]
    text = text_of(held, slow, "/v1/chat/completions", {**CHAT, "messages": asked})
    assert json.loads(events_of(text)[-1])["error"]["type"] == "server_error"
    text = text_of(held, slow, "/v1/messages", {**MESSAGE, "messages": asked})
    assert named_events(text)[-1][1]["error"]["type"] == "api_error"
    slow.wait_idle()


@pytest.mark.parametrize("path", ["/api/chat", "/v1/chat/completions"])
def test_what_is_no_stream_of_events_waits_in_silence(slow: Served, held: Held, path: str) -> None:
    """Ollama's clients read every line as JSON; a whole answer is one piece."""
    held.go.clear()
    timer = threading.Timer(0.3, held.go.set)  # many times what a stream may be silent
    timer.start()
    body = {"model": "scripted", "messages": MESSAGES, "stream": path.startswith("/api/")}
    reply = httpx.post(slow.url + path, json=body, timeout=PATIENCE)
    timer.join()
    assert reply.text.splitlines()
    assert all(json.loads(line) for line in reply.text.splitlines())


def test_a_client_that_goes_away_while_it_waits_is_cancelled(slow: Served, held: Held) -> None:
    body = {**CHAT, "max_tokens": 300, "ignore_eos": True}
    with held.stream(slow, "/v1/chat/completions", body) as lines:
        assert next(lines) == ": waiting"
    slow.wait_idle()


def test_an_early_error_is_a_status(slow: Served) -> None:
    with slow.client() as client:
        for body in ({**CHAT, "max_tokens": -1}, {**CHAT, "messages": [{"role": "user"}]}):
            assert client.post("/v1/chat/completions", json=body).status_code == 400
