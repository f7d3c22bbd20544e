"""OpenAI's Agents SDK, over chat completions and over responses: runs, streams, tools, outputs."""

from __future__ import annotations

from typing import Any

import pytest
from tests.clients.harness import KEY, Cancelled, awaited

agents = pytest.importorskip("agents", reason="openai-agents is not installed here")

import openai  # noqa: E402
from pydantic import BaseModel  # noqa: E402

agents.set_tracing_disabled(True)
MODELS = [agents.OpenAIChatCompletionsModel, agents.OpenAIResponsesModel]


class Person(BaseModel):
    name: str
    age: int


@agents.function_tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"text: rain in {city}"


def agent_of(url: str, kind: Any, name: str = "told", key: str = KEY, **options: Any) -> Any:
    client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)
    settings = {"temperature": 0, "max_tokens": 60, **options.pop("settings", {})}
    return agents.Agent(
        "tester",
        model=kind(model=name, openai_client=client),
        model_settings=agents.ModelSettings(**settings),
        **options,
    )


def answer(agent: Any, prompt: str) -> Any:
    return awaited(agents.Runner.run(agent, prompt)).final_output


def streamed(agent: Any, prompt: str) -> tuple[str, Any]:
    """The deltas of text, joined, and the final output."""

    async def run() -> tuple[str, Any]:
        result = agents.Runner.run_streamed(agent, prompt)
        texts = []
        async for event in result.stream_events():
            data = event.data if event.type == "raw_response_event" else None
            if data is not None and data.type == "response.output_text.delta":
                texts.append(data.delta)
        return "".join(texts), result.final_output

    return awaited(run())


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("word", ["text", "thinking"])
def test_a_run_and_a_stream(told: str, kind: Any, word: str) -> None:
    agent = agent_of(told, kind)
    whole = answer(agent, word)
    assert streamed(agent, word) == (whole, whole)
    assert whole


def test_an_answer_that_was_cut_off(told: str) -> None:
    """Over responses the client takes none."""
    chat, responses = (agent_of(told, kind) for kind in MODELS)
    assert answer(chat, "length") == "one two"
    with pytest.raises(agents.exceptions.ModelBehaviorError, match="max_output_tokens"):
        answer(responses, "length")


@pytest.mark.parametrize("kind", MODELS)
def test_a_tool_is_called_and_its_result_sent_back(told: str, kind: Any) -> None:
    agent = agent_of(told, kind, tools=[weather])
    assert answer(agent, "call") == "Hello 東京 🌧"
    assert streamed(agent, "call")[1] == "Hello 東京 🌧"


@pytest.mark.parametrize("kind", MODELS)
def test_an_output_type(told: str, kind: Any) -> None:
    agent = agent_of(told, kind, output_type=Person)
    assert answer(agent, "json") == Person(name="Ada", age=36)
    assert streamed(agent, "json")[1] == Person(name="Ada", age=36)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize(
    ("word", "options", "error"),
    [
        ("text", {"key": "wrong"}, openai.AuthenticationError),
        ("text", {"name": "other"}, openai.NotFoundError),
        ("long", {}, openai.BadRequestError),
        ("full", {}, openai.RateLimitError),
        ("down", {}, openai.InternalServerError),
    ],
)
def test_errors_are_the_clients_own(
    told: str, kind: Any, word: str, options: Any, error: Any
) -> None:
    agent = agent_of(told, kind, **options)
    for ask in (answer, streamed):
        with pytest.raises(error):
            ask(agent, word)


@pytest.mark.parametrize("kind", MODELS)
def test_a_real_model_must_call(smollm2: str, kind: Any) -> None:
    settings = {"tool_choice": "weather", "parallel_tool_calls": False}
    agent = agent_of(
        smollm2,
        kind,
        "smollm2",
        tools=[weather],
        tool_use_behavior="stop_on_first_tool",
        settings=settings,
    )
    assert answer(agent, "How is the weather in Paris?").startswith("text: rain in ")
    assert streamed(agent, "How is the weather in Paris?")[1].startswith("text: rain in ")


@pytest.mark.parametrize("kind", MODELS)
def test_a_real_model_is_held_to_an_output_type(smollm2: str, kind: Any) -> None:
    agent = agent_of(smollm2, kind, "smollm2", output_type=Person)
    assert isinstance(answer(agent, "Who is Ada, of 36 years?"), Person)


@pytest.mark.parametrize("kind", MODELS)
def test_a_real_stream_that_is_left_is_cancelled(
    smollm2: str, kind: Any, cancelled: Cancelled
) -> None:
    agent = agent_of(smollm2, kind, "smollm2", settings={"max_tokens": 1900})

    async def run() -> None:
        result = agents.Runner.run_streamed(agent, "Write a long story.")
        async for event in result.stream_events():
            if event.type == "raw_response_event":
                result.cancel()

    awaited(run())
    cancelled()
