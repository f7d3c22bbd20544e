"""LiteLLM over the three dialects: completion, streams, tools, schemas, vectors, errors."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from tests.clients.harness import KEY, Cancelled

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks the network for one
litellm = pytest.importorskip("litellm", reason="litellm is not installed here")

from pydantic import BaseModel  # noqa: E402

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FUNCTION = {"name": "weather", "description": "The weather of a city.", "parameters": PARAMETERS}
WEATHER = {"type": "function", "function": FUNCTION}
NAMED = {"type": "function", "function": {"name": "weather"}}
PROVIDERS = ["hosted_vllm", "openai", "anthropic", "ollama_chat"]


class Person(BaseModel):
    name: str
    age: int


def target(url: str, provider: str, name: str = "told", key: str = KEY) -> dict[str, Any]:
    base = f"{url}/v1" if provider in ("hosted_vllm", "openai") else url
    common = {"model": f"{provider}/{name}", "api_base": base, "api_key": key, "num_retries": 0}
    return {**common, "max_retries": 0}


def asked(word: str, **fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": word}]
    return {"messages": messages, "max_tokens": 60, "temperature": 0, **fields}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_stream_joined_is_the_whole_answer(told: str, provider: str) -> None:
    where = target(told, provider)
    whole = litellm.completion(**where, **asked("text"))
    chunks = list(litellm.completion(**where, **asked("text", stream=True)))
    texts = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(texts) == whole.choices[0].message.content == "Hello 東京 🌧"
    assert whole.choices[0].finish_reason == "stop"
    assert whole.usage.completion_tokens == 5


@pytest.mark.parametrize("provider", PROVIDERS)
def test_thinking_is_told_apart(told: str, provider: str) -> None:
    message = litellm.completion(**target(told, provider), **asked("thinking")).choices[0].message
    assert (message.reasoning_content, message.content) == ("Hm, yes.", "Yes.")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_tool_is_called_and_its_result_sent_back(told: str, provider: str) -> None:
    where = target(told, provider)
    first = litellm.completion(**where, **asked("call", tools=[WEATHER])).choices[0].message
    (call,) = first.tool_calls
    assert call.function.name == "weather"
    assert json.loads(call.function.arguments) == {"city": "Tokyo"}
    chunks = list(litellm.completion(**where, **asked("call", tools=[WEATHER], stream=True)))
    built = litellm.stream_chunk_builder(chunks).choices[0].message.tool_calls[0].function
    assert json.loads(built.arguments) == {"city": "Tokyo"}
    messages = [
        {"role": "user", "content": "call"},
        first.model_dump(),
        {"role": "tool", "tool_call_id": call.id, "content": "text: rain"},
    ]
    second = litellm.completion(**where, **asked("", messages=messages, tools=[WEATHER]))
    assert second.choices[0].message.content == "Hello 東京 🌧"


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("full", litellm.RateLimitError),
        ("down", (litellm.ServiceUnavailableError, litellm.InternalServerError)),
        ("long", litellm.BadRequestError),
    ],
)
def test_errors_are_the_clients_own(told: str, provider: str, word: str, kind: Any) -> None:
    for stream in (False, True):
        with pytest.raises(kind):
            list(litellm.completion(**target(told, provider), **asked(word, stream=stream)))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_wrong_key_and_a_wrong_name(told: str, provider: str) -> None:
    with pytest.raises(litellm.AuthenticationError):
        litellm.completion(**target(told, provider, key="wrong"), **asked("text"))
    with pytest.raises(litellm.NotFoundError):
        litellm.completion(**target(told, provider, "other"), **asked("text"))


def test_vectors(told: str) -> None:
    reply = litellm.embedding(**target(told, "openai"), input=["ab", "c"])
    assert [one["embedding"] for one in reply.data] == [[2, 1, 0], [1, 1, 0]]


@pytest.mark.parametrize("provider", ["hosted_vllm", "openai", "anthropic"])
def test_a_real_model_must_call(smollm2: str, provider: str) -> None:
    body = asked("How is the weather in Paris?", tools=[WEATHER], tool_choice=NAMED)
    choice = litellm.completion(**target(smollm2, provider, "smollm2"), **body).choices[0]
    (call,) = choice.message.tool_calls
    assert list(json.loads(call.function.arguments)) == ["city"]
    assert choice.finish_reason == "tool_calls"


@pytest.mark.parametrize("provider", ["hosted_vllm", "openai", "ollama_chat"])
def test_a_real_model_is_held_to_a_schema(smollm2: str, provider: str) -> None:
    body = asked("Who is Ada, of 36 years?", response_format=Person)
    reply = litellm.completion(**target(smollm2, provider, "smollm2"), **body)
    assert Person.model_validate_json(reply.choices[0].message.content)


@pytest.mark.parametrize("provider", ["hosted_vllm", "openai"])
def test_a_real_stream_that_is_left_is_cancelled(
    smollm2: str, provider: str, cancelled: Cancelled
) -> None:
    body = asked("Write a long story.", stream=True, extra_body={"ignore_eos": True})
    body["max_tokens"] = 1900
    stream = litellm.completion(**target(smollm2, provider, "smollm2"), **body)
    next(stream)
    stream.close()
    cancelled()
