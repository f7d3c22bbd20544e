"""Prompts that take long to be read: others go on meanwhile, and who is read waits in the queue."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import islice
from typing import Any

import pytest
from tests.patience import PATIENCE
from tests.server.harness import scripted_server

from pyrite.server.limits import Limits
from pyrite.server.openai import tokens
from pyrite.server.prompts import LONG_CHARACTERS
from pyrite.server.service import Service
from pyrite.server.settings import ServerSettings

CHAT = ("/v1/chat/completions", {"messages": [{"role": "user", "content": "tin"}], "max_tokens": 1})
VECTORS = ("/v1/embeddings", {"input": "tin"})
LONG = "t" * LONG_CHARACTERS


@pytest.mark.parametrize(("path", "body"), [CHAT, VECTORS])
def test_prompts_that_are_being_read_fill_the_queue(path: str, body: dict[str, Any]) -> None:
    go = threading.Event()

    def hold(service: Service) -> None:
        read = service.prompts.apart

        async def held(*arguments: Any) -> Any:
            while not go.is_set():
                await asyncio.sleep(0.01)
            return await read(*arguments)

        service.prompts.apart = held  # type: ignore[method-assign]

    settings = ServerSettings(limits=Limits(queue=2))
    with (
        scripted_server(settings=settings, wrap=hold) as served,
        served.client() as client,
        ThreadPoolExecutor(5) as threads,
    ):
        asked = [threads.submit(client.post, path, json=body) for _ in range(5)]
        try:
            refused = list(islice(as_completed(asked, timeout=PATIENCE), 3))
        finally:
            go.set()
        assert [one.result().status_code for one in refused] == [429] * 3
        assert 429 not in [one.result().status_code for one in asked if one not in refused]
        assert client.post(CHAT[0], json=CHAT[1]).status_code == 200


def test_long_texts_are_handled_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []

    def noted(function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any) -> Any:
            names.append(threading.current_thread().name)
            return function(*arguments)

        return called

    def note(service: Service) -> None:
        service.prompts.turn = noted(service.prompts.turn)  # type: ignore[method-assign]

    monkeypatch.setattr(tokens, "spelled", noted(tokens.spelled))
    with scripted_server(wrap=note) as served, served.client() as client:
        messages = [{"role": "user", "content": LONG}]
        assert client.post("/apply-template", json={"messages": messages}).status_code == 200
        body = {"prompt": LONG, "return_token_strs": True}
        assert len(client.post("/tokenize", json=body).json()["token_strs"]) == LONG_CHARACTERS
    assert len(names) == 2
    assert all(name.startswith("prompts") for name in names), names
