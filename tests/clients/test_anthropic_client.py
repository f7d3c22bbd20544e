"""Anthropic's own Python client against a server: create, stream, parse, count, errors."""

from __future__ import annotations

from typing import Any

import pytest
from tests.clients.harness import KEY, Cancelled, datas, opened, post, unknown_fields

anthropic = pytest.importorskip("anthropic", reason="the anthropic client is not installed here")
pydantic = pytest.importorskip("pydantic", reason="pydantic is not installed here")

WEATHER = {
    "name": "weather",
    "description": "The weather of a city.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}
WORDS = ["text", "everything", "call", "thinking", "json", "stop", "length", "empty"]


class Person(pydantic.BaseModel):
    name: str
    age: int


def client_of(url: str, key: str = KEY) -> Any:
    return opened(anthropic.Anthropic(base_url=url, api_key=key, max_retries=0))


def asked(word: str, **fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": word}]
    return {"model": "told", "max_tokens": 8, "messages": messages, "tools": [WEATHER], **fields}


@pytest.mark.parametrize("word", WORDS)
def test_a_message_is_what_the_client_declares(told: str, word: str) -> None:
    status, text = post(f"{told}/v1/messages", asked(word))
    assert status == 200
    message = anthropic.types.Message.model_validate_json(text, strict=True)
    assert unknown_fields(message) == []


@pytest.mark.parametrize("word", WORDS)
def test_events_are_what_the_client_declares(told: str, word: str) -> None:
    status, text = post(f"{told}/v1/messages", asked(word, stream=True))
    assert status == 200
    known = pydantic.TypeAdapter(anthropic.types.RawMessageStreamEvent)
    for data in datas(text):
        if '"ping"' not in data:  # which the client passes over
            assert unknown_fields(known.validate_json(data, strict=True)) == []


@pytest.mark.parametrize("word", WORDS)
def test_the_helpers_message_is_the_whole_one(told: str, word: str) -> None:
    client = client_of(told)
    whole = client.messages.create(**asked(word)).to_dict()
    with client.messages.stream(**asked(word)) as stream:
        texts = "".join(stream.text_stream)
        streamed = stream.get_final_message().to_dict()
    assert texts == "".join(block.get("text", "") for block in whole["content"])
    assert {**given(streamed), "id": ""} == {**given(whole), "id": ""}


def given(value: Any) -> Any:
    """Without what is null: the client adds it in some places and not in others."""
    if isinstance(value, list):
        return [given(one) for one in value]
    if isinstance(value, dict):
        return {name: given(one) for name, one in value.items() if one is not None}
    return value


def test_stop_reasons(told: str) -> None:
    client = client_of(told)
    reasons = {word: client.messages.create(**asked(word)) for word in WORDS}
    assert {word: message.stop_reason for word, message in reasons.items()} == {
        "text": "end_turn",
        "everything": "tool_use",
        "call": "tool_use",
        "thinking": "end_turn",
        "json": "end_turn",
        "stop": "stop_sequence",
        "length": "max_tokens",
        "empty": "end_turn",
    }
    assert reasons["stop"].stop_sequence == "END"
    assert reasons["text"].usage.cache_read_input_tokens == 4


def test_a_conversation_with_tools(told: str) -> None:
    client = client_of(told)
    first = client.messages.create(**asked("call"))
    (call,) = first.content
    assert (call.name, call.input) == ("weather", {"city": "Tokyo"})
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "text: rain"}
    messages = [
        {"role": "user", "content": "call"},
        {"role": "assistant", "content": first.content},
        {"role": "user", "content": [result]},
    ]
    second = client.messages.create(**asked("", messages=messages))
    assert second.content[0].text == "Hello 東京 🌧"


def test_thinking_is_sent_back(told: str) -> None:
    client = client_of(told)
    thinking = {"type": "enabled", "budget_tokens": 1024}
    first = client.messages.create(**asked("thinking", thinking=thinking))
    assert [block.type for block in first.content] == ["thinking", "text"]
    assert first.content[0].signature
    messages = [
        {"role": "user", "content": "thinking"},
        {"role": "assistant", "content": first.content},
        {"role": "user", "content": "text"},
    ]
    assert client.messages.create(**asked("", messages=messages)).content


def test_models(told: str) -> None:
    client = client_of(told)
    assert [model.id for model in client.models.list()] == ["told", "alias"]
    model = client.models.retrieve("alias")
    assert unknown_fields(model) == []
    assert model.display_name == "alias"
    with pytest.raises(anthropic.NotFoundError):
        client.models.retrieve("other")


def test_counts(told: str) -> None:
    body = asked("text")
    del body["max_tokens"]
    count = client_of(told).messages.count_tokens(**body)
    assert count.input_tokens == 4


def test_what_is_ignored_is_told_to_the_client(told: str) -> None:
    raw = client_of(told).messages.with_raw_response.create(
        **asked("text", metadata={"user_id": "me"})
    )
    assert raw.headers["x-pyrite-ignored"] == "metadata"
    assert raw.headers["request-id"].startswith("req_")
    assert raw.parse()._request_id == raw.headers["request-id"]


@pytest.mark.parametrize(
    ("word", "fields", "kind"),
    [
        ("text", {"max_tokens": -1}, "BadRequestError"),
        ("text", {"model": "other"}, "NotFoundError"),
        ("text", {"tool_choice": {"type": "tool", "name": "none"}}, "BadRequestError"),
        ("long", {}, "BadRequestError"),
        ("full", {}, "RateLimitError"),
        ("down", {}, "ServiceUnavailableError"),
    ],
)
def test_errors_are_the_clients_own(told: str, word: str, fields: Any, kind: str) -> None:
    for stream in (False, True):
        with pytest.raises(anthropic.APIStatusError) as caught:
            client_of(told).messages.create(**asked(word, stream=stream, **fields))
        assert type(caught.value).__name__ in (kind, "InternalServerError")
        assert caught.value.body["type"] == "error"


def test_a_wrong_key_is_the_clients_own_error(told: str) -> None:
    with pytest.raises(anthropic.AuthenticationError) as caught:
        client_of(told, "wrong").messages.create(**asked("text"))
    assert caught.value.request_id.startswith("req_")
    assert caught.value.body["request_id"] == caught.value.request_id


def test_an_error_in_a_stream_reaches_the_caller(told: str) -> None:
    with (
        pytest.raises(anthropic.APIStatusError, match="the step failed"),
        client_of(told).messages.stream(**asked("broken")) as stream,
    ):
        stream.get_final_message()


def test_a_real_model_answers(smollm2: str) -> None:
    client = client_of(smollm2)
    body = {
        "model": "smollm2",
        "max_tokens": 12,
        "extra_body": {"temperature": 0},
        "messages": [{"role": "user", "content": "What is the capital of France?"}],
    }
    whole = client.messages.create(**body)
    with client.messages.stream(**body) as stream:
        streamed = stream.get_final_message()
    assert whole.content[0].text == streamed.content[0].text != ""
    count = client.messages.count_tokens(model="smollm2", messages=body["messages"])
    usage = streamed.usage
    assert count.input_tokens == usage.input_tokens + usage.cache_read_input_tokens
    body["messages"].append({"role": "assistant", "content": "The capital of France is"})
    assert "Paris" in client.messages.create(**body).content[0].text
    stopped = client.messages.create(**{**body, "stop_sequences": ["Paris"]})
    assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", "Paris")


def test_a_schema_is_parsed(told: str) -> None:
    parsed = client_of(told).messages.parse(**asked("json"), output_format=Person)
    assert parsed.parsed_output == Person(name="Ada", age=36)


def test_a_real_model_is_held_to_a_schema(smollm2: str) -> None:
    messages = [{"role": "user", "content": "Who is Ada, of 36 years?"}]
    asking = {"model": "smollm2", "messages": messages, "extra_body": {"temperature": 0}}
    parsed = client_of(smollm2).messages.parse(**asking, max_tokens=60, output_format=Person)
    assert isinstance(parsed.parsed_output, Person)


@pytest.mark.parametrize("choice", [{"type": "any"}, {"type": "tool", "name": "weather"}])
def test_a_real_model_must_call(smollm2: str, choice: dict[str, Any]) -> None:
    messages = [{"role": "user", "content": "How is the weather in Paris?"}]
    body = {"model": "smollm2", "max_tokens": 60, "messages": messages, "tools": [WEATHER]}
    body["extra_body"] = {"temperature": 0}
    choice = {**choice, "disable_parallel_tool_use": True}
    client = client_of(smollm2)
    whole = client.messages.create(**body, tool_choice=choice)
    with client.messages.stream(**body, tool_choice=choice) as stream:
        streamed = stream.get_final_message()
    for message in (whole, streamed):
        assert message.stop_reason == "tool_use"
        assert [block.name for block in message.content] == ["weather"]


def test_a_stream_that_is_closed_is_cancelled(smollm2: str, cancelled: Cancelled) -> None:
    messages = [{"role": "user", "content": "Write a long story."}]
    body = {"model": "smollm2", "max_tokens": 1900, "messages": messages}
    with client_of(smollm2).messages.stream(**body) as stream:
        next(iter(stream.text_stream))
    cancelled()
