"""Ollama's own Python client against a server: chat, generate, vectors, models, errors."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.clients.harness import KEY, Cancelled, opened, post, unknown_fields

ollama = pytest.importorskip("ollama", reason="the ollama client is not installed here")

WORDS = ["text", "everything", "call", "thinking", "json", "length", "empty"]


def client_of(url: str, key: str = KEY) -> Any:
    return opened(ollama.Client(host=url, headers={"Authorization": f"Bearer {key}"}))


def asked(word: str, **fields: Any) -> dict[str, Any]:
    return {"model": "told", "messages": [{"role": "user", "content": word}], **fields}


def weather(city: str) -> str:
    """The weather of a city.

    Args:
      city: its name
    """
    return f"text: rain in {city}"


# What Ollama itself sends and its client's models leave out.
UNDECLARED = {
    ".message.tool_calls[].id",
    ".message.tool_calls[].function.index",
    ".logprobs[].bytes",
    ".logprobs[].top_logprobs[].bytes",
}


@pytest.mark.parametrize("word", WORDS)
def test_lines_are_what_the_client_declares(told: str, word: str) -> None:
    status, text = post(f"{told}/api/chat", asked(word, logprobs=True))
    assert status == 200
    for line in text.splitlines():
        answer = ollama.ChatResponse.model_validate_json(line, strict=True)
        assert set(unknown_fields(answer)) <= UNDECLARED, line
    status, text = post(f"{told}/api/generate", {"model": "told", "prompt": word})
    assert status == 200
    for line in text.splitlines():
        generated = ollama.GenerateResponse.model_validate_json(line, strict=True)
        assert unknown_fields(generated) == []


@pytest.mark.parametrize("word", WORDS)
def test_a_stream_joined_is_the_whole_answer(told: str, word: str) -> None:
    client = client_of(told)
    whole = client.chat(**asked(word))
    parts = list(client.chat(**asked(word), stream=True))
    assert "".join(part.message.content for part in parts) == whole.message.content
    thinking = "".join(part.message.thinking or "" for part in parts)
    assert thinking == (whole.message.thinking or "")
    assert [part.done for part in parts] == [False] * (len(parts) - 1) + [True]
    assert parts[-1].done_reason == whole.done_reason
    assert parts[-1].eval_count == whole.eval_count


def test_a_conversation_with_a_function(told: str) -> None:
    client = client_of(told)
    first = client.chat(**asked("call", tools=[weather], think=True))
    (call,) = first.message.tool_calls
    assert (call.function.name, call.function.arguments) == ("weather", {"city": "Tokyo"})
    result = {"role": "tool", "tool_name": "weather", "content": weather(**call.function.arguments)}
    messages = [{"role": "user", "content": "call"}, first.message, result]
    assert client.chat(**asked("", messages=messages)).message.content == "Hello 東京 🌧"


def test_a_format(told: str) -> None:
    answer = client_of(told).chat(**asked("json", format={"type": "object"}))
    assert json.loads(answer.message.content) == {"name": "Ada", "age": 36}


@pytest.mark.parametrize(
    ("word", "fields", "status"),
    [
        ("text", {"model": "other"}, 404),
        ("text", {"options": {"temperature": 9}}, 400),
        ("long", {}, 400),
        ("full", {}, 429),
    ],
)
def test_errors_are_the_clients_own(told: str, word: str, fields: Any, status: int) -> None:
    for stream in (False, True):
        with pytest.raises(ollama.ResponseError) as caught:
            list(client_of(told).chat(**{**asked(word), **fields}, stream=stream))
        assert caught.value.status_code == status


def test_a_wrong_key_is_the_clients_own_error(told: str) -> None:
    with pytest.raises(ollama.ResponseError, match="not one of this server") as caught:
        client_of(told, "wrong").chat(**asked("text"))
    assert caught.value.status_code == 401


def test_an_error_in_a_stream_reaches_the_caller(told: str) -> None:
    with pytest.raises(ollama.ResponseError, match="the step failed"):
        list(client_of(told).chat(**asked("broken"), stream=True))


def test_a_real_model_answers(smollm2: str) -> None:
    client = client_of(smollm2)
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    asking = {"model": "smollm2:latest", "options": {"temperature": 0, "num_predict": 12}}
    whole = client.chat(messages=messages, **asking)
    parts = list(client.chat(messages=messages, **asking, stream=True))
    assert "".join(part.message.content for part in parts) == whole.message.content != ""
    assert whole.eval_duration > 0
    assert whole.prompt_eval_count == parts[-1].prompt_eval_count
    generated = client.generate(prompt=messages[0]["content"], **asking)
    assert generated.response == whole.message.content
    raw = client.generate(prompt="The capital of France is", raw=True, **asking)
    assert "Paris" in raw.response


def test_real_vectors(smollm2: str) -> None:
    vectors = client_of(smollm2).embed(model="smollm2", input=["rain", "snow", "rain"])
    first, second, third = vectors.embeddings
    assert first == third != second
    assert sum(number * number for number in first) == pytest.approx(1)
    single = client_of(smollm2).embeddings(model="smollm2", prompt="rain")
    assert len(single.embedding) == len(first)


def test_the_models_that_are_here(smollm2: str) -> None:
    client = client_of(smollm2)
    (model,) = client.list().models
    assert model.model == "smollm2"
    assert model.details.quantization_level == "Q4_1"
    assert client.ps().models[0].context_length == 2048
    shown = client.show("smollm2")
    assert shown.modelinfo["general.architecture"] == "llama"
    assert shown.template
    with pytest.raises(ollama.ResponseError):
        client.delete("smollm2")
    with pytest.raises(ollama.ResponseError):
        client.pull("no-such-model")


def test_a_real_model_is_held_to_a_schema(smollm2: str) -> None:
    properties = {"name": {"type": "string"}, "age": {"type": "integer"}}
    schema = {"type": "object", "properties": properties, "required": ["name", "age"]}
    messages = [{"role": "user", "content": "Who is Ada, of 36 years?"}]
    answer = client_of(smollm2).chat(
        model="smollm2", messages=messages, format=schema, options={"num_predict": 90, "seed": 1}
    )
    assert {"name", "age"} <= json.loads(answer.message.content).keys()


def test_a_stream_that_is_closed_is_cancelled(smollm2: str, cancelled: Cancelled) -> None:
    messages = [{"role": "user", "content": "Write a long story."}]
    stream = client_of(smollm2).chat(model="smollm2", messages=messages, stream=True)
    next(stream)
    stream.close()
    cancelled()
