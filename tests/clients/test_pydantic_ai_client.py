"""Pydantic AI over its model of OpenAI's chat completions: runs, streams, tools, output types."""

from __future__ import annotations

from typing import Any

import pytest
from tests.clients.harness import KEY, Cancelled, awaited

pydantic_ai = pytest.importorskip("pydantic_ai", reason="pydantic-ai is not installed here")

from pydantic import BaseModel  # noqa: E402
from pydantic_ai import Agent, ModelHTTPError, NativeOutput, PromptedOutput, ToolOutput  # noqa: E402
from pydantic_ai.embeddings import Embedder  # noqa: E402
from pydantic_ai.embeddings.openai import OpenAIEmbeddingModel  # noqa: E402
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel  # noqa: E402
from pydantic_ai.providers.openai import OpenAIProvider  # noqa: E402

MODELS = [OpenAIChatModel, OpenAIResponsesModel]


class Person(BaseModel):
    name: str
    age: int


def provider(url: str, key: str = KEY) -> Any:
    return OpenAIProvider(base_url=f"{url}/v1", api_key=key)


def agent_of(url: str, name: str, kind: Any = OpenAIChatModel, **options: Any) -> Any:
    settings = {"temperature": 0.0, "max_tokens": 60}
    return Agent(kind(name, provider=provider(url)), model_settings=settings, **options)


def streamed(agent: Any, prompt: str) -> str:
    async def run() -> str:
        async with agent.run_stream(prompt) as result:
            return "".join([text async for text in result.stream_text(delta=True)])

    return awaited(run())


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("word", ["text", "length"])
def test_a_run_and_a_stream(told: str, word: str, kind: Any) -> None:
    agent = agent_of(told, "told", kind)
    result = awaited(agent.run(word))
    assert result.output == streamed(agent, word) != ""
    assert result.usage.output_tokens in (5, 8)


@pytest.mark.parametrize("kind", MODELS)
def test_thinking_is_a_part_of_its_own(told: str, kind: Any) -> None:
    settings = {"openai_reasoning_summary": "auto"}  # which the other model passes over
    agent = agent_of(told, "told", kind)
    result = awaited(agent.run("thinking", model_settings=settings))
    parts = {part.part_kind: part.content for part in result.response.parts}
    assert (parts["thinking"], parts["text"]) == ("Hm, yes.", "Yes.")


@pytest.mark.parametrize("kind", MODELS)
def test_a_tool_is_called_and_its_result_sent_back(told: str, kind: Any) -> None:
    agent = agent_of(told, "told", kind)
    asked = []

    @agent.tool_plain
    def weather(city: str) -> str:
        asked.append(city)
        return "text: rain"

    assert awaited(agent.run("call")).output == "Hello 東京 🌧"
    assert streamed(agent, "call") == "Hello 東京 🌧"
    assert asked == ["Tokyo", "Tokyo"]


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("form", [NativeOutput, PromptedOutput])
def test_an_output_type(told: str, form: Any, kind: Any) -> None:
    agent = agent_of(told, "told", kind, output_type=form(Person))
    assert awaited(agent.run("json")).output == Person(name="Ada", age=36)


@pytest.mark.parametrize(("word", "status"), [("full", 429), ("down", 503), ("long", 400)])
def test_errors_are_the_clients_own(told: str, word: str, status: int) -> None:
    agent = Agent(
        OpenAIChatModel("told", provider=OpenAIProvider(openai_client=without_retries(told)))
    )
    with pytest.raises(ModelHTTPError) as caught:
        awaited(agent.run(word))
    assert caught.value.status_code == status
    with pytest.raises(ModelHTTPError):
        streamed(agent, word)


def without_retries(url: str, key: str = KEY) -> Any:
    from openai import AsyncOpenAI

    return AsyncOpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)


def test_a_wrong_key_and_a_wrong_name(told: str) -> None:
    for name, key, status in (("told", "wrong", 401), ("other", KEY, 404)):
        agent = Agent(OpenAIChatModel(name, provider=provider(told, key)))
        with pytest.raises(ModelHTTPError) as caught:
            awaited(agent.run("text"))
        assert caught.value.status_code == status


def test_vectors(told: str) -> None:
    embedder = Embedder(OpenAIEmbeddingModel("told", provider=provider(told)))
    result = awaited(embedder.embed_documents(["ab", "c"]))
    assert [list(one) for one in result.embeddings] == [[2, 1, 0], [1, 1, 0]]


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("form", [ToolOutput, NativeOutput])
def test_a_real_model_is_held_to_an_output_type(smollm2: str, form: Any, kind: Any) -> None:
    """As a tool that must be called, and as a schema of the answer."""
    agent = agent_of(smollm2, "smollm2", kind, output_type=form(Person))
    assert isinstance(awaited(agent.run("Who is Ada, of 36 years?")).output, Person)


def test_a_real_stream_that_is_left_is_cancelled(smollm2: str, cancelled: Cancelled) -> None:
    agent = agent_of(smollm2, "smollm2")
    settings = {"max_tokens": 1900, "extra_body": {"ignore_eos": True}}

    async def run() -> None:
        async with agent.run_stream("Count.", model_settings=settings) as result:
            async for _ in result.stream_text(delta=True):
                break

    awaited(run())
    cancelled()
