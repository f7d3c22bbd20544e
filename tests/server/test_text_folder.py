"""`pyrite serve` of a safetensors folder: text, chats, and what its maker samples with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tests.library as library
from tests.server.harness import Served, file_server

from pyrite.config import Settings
from pyrite.formats.checkpoint import open_checkpoint
from pyrite.sampling.params import SamplingParams
from pyrite.server.anthropic.asks import ask_of as anthropic
from pyrite.server.anthropic.types import MessagesRequest
from pyrite.server.decoding import converted
from pyrite.server.ollama.asks import chat_ask, generate_ask
from pyrite.server.ollama.types import ChatRequest as OllamaChat
from pyrite.server.ollama.types import GenerateRequest
from pyrite.server.openai.chat import ChatRequest, ask_of
from pyrite.server.openai.completions import CompletionRequest, asks_of
from pyrite.server.openai.responses.asks import ask_of as responses
from pyrite.server.openai.responses.types import ResponsesRequest
from pyrite.server.prompts import prompts_of

HINTS = {"temperature": 0.6, "top_k": 20, "top_p": 0.9}
MESSAGES = [{"role": "user", "content": "the cat"}]


@pytest.fixture(scope="module")
def folder(golden: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("served") / "speaks"
    return library.folder_of(golden / "tiny" / "llama", place, **HINTS)


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Served]:
    with file_server(folder, "--name", "speaks") as one:
        yield one


def test_chat_completions_and_tokens(served: Served) -> None:
    with served.client() as client:
        asked = {"messages": MESSAGES, "temperature": 0, "max_tokens": 6, "ignore_eos": True}
        answer = client.post("/v1/chat/completions", json=asked).json()
        assert answer["usage"]["completion_tokens"] == 6
        assert answer["choices"][0]["message"]["content"]
        found = client.post("/tokenize", json={"content": "the <s> cat"}).json()["tokens"]
        text = client.post("/detokenize", json={"tokens": found}).json()["content"]
        assert text == "the <s> cat"


FORMS = {
    "chat": (ChatRequest, {"messages": MESSAGES}, lambda one, d: ask_of(one, defaults=d)),
    "text": (CompletionRequest, {"prompt": "a"}, lambda one, d: asks_of(one, defaults=d)[0]),
    "responses": (ResponsesRequest, {"model": "m", "input": "a"}, responses),
    "anthropic": (
        MessagesRequest,
        {"model": "m", "max_tokens": 3, "messages": MESSAGES},
        anthropic,
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_requests_that_state_nothing_have_what_the_maker_recommends(
    folder: Path, form: str
) -> None:
    kind, fields, made = FORMS[form]
    defaults = prompts_of(open_checkpoint(folder), Settings()).sampling
    params = made(converted(fields, kind), defaults).params
    assert drawn(params) == (0.6, 20, 0.9)
    stated = made(converted({**fields, "temperature": 1.0, "top_p": 1.0}, kind), defaults).params
    assert drawn(stated) == (1.0, 20, 1.0)
    off = prompts_of(open_checkpoint(folder), Settings(generation_config="off")).sampling
    assert drawn(made(converted(fields, kind), off).params) == (1.0, 0, 1.0)


def test_what_the_maker_recommends_goes_before_ollamas_own(folder: Path) -> None:
    asked: dict[str, Any] = {"model": "m", "messages": MESSAGES}
    chat = chat_ask(converted(asked, OllamaChat), HINTS)
    assert drawn(chat.params) == (0.6, 20, 0.9)
    assert drawn(chat_ask(converted(asked, OllamaChat), {"top_k": 5}).params) == (0.8, 5, 0.9)
    asked = {"model": "m", "prompt": "a", "options": {"temperature": 0.1}}
    text = generate_ask(converted(asked, GenerateRequest), has_template=False, defaults=HINTS)
    assert drawn(text.params) == (0.1, 20, 0.9)


def drawn(params: SamplingParams) -> tuple[float, int, float]:
    return params.temperature, params.top_k, params.top_p
