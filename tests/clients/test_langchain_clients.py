"""LangChain's clients of the three dialects: invoke, stream, tools, structured output, vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.clients.harness import KEY, Cancelled

pytest.importorskip("langchain_openai", reason="langchain is not installed here")

import anthropic
import ollama
import openai
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_ollama import ChatOllama, OllamaEmbeddings
from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings
from pydantic import BaseModel


class Person(BaseModel):
    """A person."""

    name: str
    age: int


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"text: rain in {city}"


def over_openai(url: str, name: str = "told", key: str = KEY, **options: Any) -> Any:
    plain = {"max_retries": 0, "temperature": 0, "max_tokens": 60, "api_key": key}
    options = {"stream_usage": True, **options}
    return ChatOpenAI(model=name, base_url=f"{url}/v1", **{**plain, **options})


def over_responses(url: str, name: str = "told", key: str = KEY, **options: Any) -> Any:
    return over_openai(url, name, key, use_responses_api=True, **options)


def over_anthropic(url: str, name: str = "told", key: str = KEY, **options: Any) -> Any:
    plain = {"max_retries": 0, "temperature": 0, "max_tokens": 60, "api_key": key}
    return ChatAnthropic(model=name, base_url=url, **{**plain, **options})


def over_ollama(url: str, name: str = "told", key: str = KEY, **options: Any) -> Any:
    headers = {"headers": {"Authorization": f"Bearer {key}"}}
    plain = {"temperature": 0, "num_predict": 60, "client_kwargs": headers}
    return ChatOllama(model=name, base_url=url, **{**plain, **options})


Make = Callable[..., Any]
EVERY: list[Make] = [over_openai, over_responses, over_anthropic, over_ollama]


def text_of(message: Any) -> str:
    return message.text if isinstance(message.text, str) else message.text()


@pytest.mark.parametrize("make", EVERY)
def test_a_stream_joined_is_the_whole_answer(told: str, make: Make) -> None:
    model = make(told)
    whole = model.invoke("text")
    parts = list(model.stream("text"))
    assert "".join(map(text_of, parts)) == text_of(whole) == "Hello 東京 🌧"
    joined = sum(parts[1:], parts[0])
    assert whole.usage_metadata["output_tokens"] == 5
    assert joined.usage_metadata["output_tokens"] == 5


@pytest.mark.parametrize("make", EVERY)
def test_a_tool_is_called_and_its_result_sent_back(told: str, make: Make) -> None:
    model = make(told).bind_tools([weather])
    asked: list[Any] = [HumanMessage("call")]
    first = model.invoke(asked)
    (call,) = first.tool_calls
    assert (call["name"], call["args"]) == ("weather", {"city": "Tokyo"})
    parts = list(model.stream(asked))
    (streamed,) = sum(parts[1:], parts[0]).tool_calls
    assert (streamed["name"], streamed["args"]) == ("weather", {"city": "Tokyo"})
    result = ToolMessage(weather.invoke(call["args"]), tool_call_id=call["id"])
    assert text_of(model.invoke([*asked, first, result])) == "Hello 東京 🌧"


@pytest.mark.parametrize("make", EVERY)
def test_a_structured_output(told: str, make: Make) -> None:
    model = make(told).with_structured_output(Person, method="json_schema")
    assert model.invoke("json") == Person(name="Ada", age=36)


def test_thinking_is_told_apart(told: str) -> None:
    answer = over_ollama(told, reasoning=True).invoke("thinking")
    assert (answer.content, answer.additional_kwargs["reasoning_content"]) == ("Yes.", "Hm, yes.")
    thinking = {"type": "enabled", "budget_tokens": 1024}
    answer = over_anthropic(told, thinking=thinking, max_tokens=2000).invoke("thinking")
    assert [block["type"] for block in answer.content] == ["thinking", "text"]


ERRORS: list[tuple[Make, str, Any]] = [
    (over_openai, "full", openai.RateLimitError),
    (over_openai, "down", openai.InternalServerError),
    (over_openai, "long", openai.BadRequestError),
    (over_responses, "full", openai.RateLimitError),
    (over_anthropic, "full", anthropic.RateLimitError),
    (over_anthropic, "down", anthropic.InternalServerError),
    (over_anthropic, "long", anthropic.BadRequestError),
    (over_ollama, "full", ollama.ResponseError),
    (over_ollama, "long", ollama.ResponseError),
]


@pytest.mark.parametrize(("make", "word", "kind"), ERRORS)
def test_errors_are_the_clients_own(told: str, make: Make, word: str, kind: Any) -> None:
    with pytest.raises(kind):
        make(told).invoke(word)
    with pytest.raises(kind):
        list(make(told).stream(word))


KEYS: list[tuple[Make, Any, Any]] = [
    (over_openai, openai.AuthenticationError, openai.NotFoundError),
    (over_responses, openai.AuthenticationError, openai.NotFoundError),
    (over_anthropic, anthropic.AuthenticationError, anthropic.NotFoundError),
    (over_ollama, ollama.ResponseError, ollama.ResponseError),
]


@pytest.mark.parametrize(("make", "unknown", "missing"), KEYS)
def test_a_wrong_key_and_a_wrong_name(told: str, make: Make, unknown: Any, missing: Any) -> None:
    with pytest.raises(unknown):
        make(told, key="wrong").invoke("text")
    with pytest.raises(missing):
        make(told, "other").invoke("text")


def test_vectors(told: str, smollm2: str) -> None:
    options: dict[str, Any] = {"api_key": KEY, "check_embedding_ctx_length": False}
    vectors = OpenAIEmbeddings(model="told", base_url=f"{told}/v1", **options)
    assert vectors.embed_documents(["ab", "c"]) == [[2, 1, 0], [1, 1, 0]]
    headers = {"headers": {"Authorization": f"Bearer {KEY}"}}
    real = OllamaEmbeddings(model="smollm2", base_url=smollm2, client_kwargs=headers)
    first, second, third = real.embed_documents(["rain", "snow", "rain"])
    assert first == third != second


def test_a_text_is_continued(smollm2: str) -> None:
    model = OpenAI(model="smollm2", base_url=f"{smollm2}/v1", api_key=KEY, temperature=0)
    prompt = "The capital of France is"
    whole = model.invoke(prompt)
    assert "".join(model.stream(prompt)) == whole
    assert "Paris" in whole


@pytest.mark.parametrize("make", [over_openai, over_responses, over_anthropic])
def test_a_real_model_must_call(smollm2: str, make: Make) -> None:
    model = make(smollm2, "smollm2").bind_tools([weather], tool_choice="weather")
    call = model.invoke("How is the weather in Paris?").tool_calls[0]
    assert (call["name"], list(call["args"])) == ("weather", ["city"])


@pytest.mark.parametrize("make", EVERY)
def test_a_real_model_is_held_to_a_schema(smollm2: str, make: Make) -> None:
    model = make(smollm2, "smollm2").with_structured_output(Person, method="json_schema")
    assert isinstance(model.invoke("Who is Ada, of 36 years?"), Person)


@pytest.mark.parametrize("make", EVERY)
def test_a_real_stream_that_is_left_is_cancelled(
    smollm2: str, make: Make, cancelled: Cancelled
) -> None:
    limit = "num_predict" if make is over_ollama else "max_tokens"
    stream = make(smollm2, "smollm2", **{limit: 1900}).stream("Write a long story.")
    next(stream)
    stream.close()
    cancelled()
