"""OpenAI's own Python client against chat completions, completions and embeddings."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.clients.harness import KEY, Cancelled, datas, opened, post, unknown_fields

openai = pytest.importorskip("openai", reason="the openai client is not installed here")
pydantic = pytest.importorskip("pydantic", reason="pydantic is not installed here")

PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
FUNCTION = {"name": "weather", "description": "The weather of a city.", "parameters": PARAMETERS}
WEATHER = {"type": "function", "function": {**FUNCTION, "strict": True}}
NAMED = {"type": "function", "function": {"name": "weather"}}
WORDS = ["text", "everything", "call", "thinking", "json", "stop", "length", "empty"]
VARIANTS: list[dict[str, Any]] = [
    {},
    {"logprobs": True, "top_logprobs": 1},
    {"tool_choice": "required", "user": "me"},
    {"tool_choice": NAMED, "parallel_tool_calls": False},
    {
        "tool_choice": {
            "type": "allowed_tools",
            "allowed_tools": {"mode": "auto", "tools": [NAMED]},
        }
    },
]

# What vLLM sends and this client's models leave out: both names of reasoning, and what ended it.
UNDECLARED = {
    ".choices[].stop_reason",
    ".choices[].message.reasoning",
    ".choices[].message.reasoning_content",
    ".choices[].delta.reasoning",
    ".choices[].delta.reasoning_content",
}


class Person(pydantic.BaseModel):
    name: str
    age: int


def client_of(url: str, key: str = KEY) -> Any:
    return opened(openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0))


def asked(word: str, **fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": word}]
    return {"model": "told", "messages": messages, "tools": [WEATHER], **fields}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("word", WORDS)
def test_a_completion_is_what_the_client_declares(told: str, word: str, variant: Any) -> None:
    status, text = post(f"{told}/v1/chat/completions", asked(word, **variant))
    assert status == 200
    completion = openai.types.chat.ChatCompletion.model_validate_json(text, strict=True)
    assert set(unknown_fields(completion)) <= UNDECLARED


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("word", WORDS)
def test_chunks_are_what_the_client_declares(told: str, word: str, variant: Any) -> None:
    options = {"stream": True, "stream_options": {"include_usage": True}}
    status, text = post(f"{told}/v1/chat/completions", asked(word, **options, **variant))
    assert status == 200
    *chunks, done = datas(text)
    assert done == "[DONE]"
    for data in chunks:
        chunk = openai.types.chat.ChatCompletionChunk.model_validate_json(data, strict=True)
        assert set(unknown_fields(chunk)) <= UNDECLARED


@pytest.mark.parametrize("word", [word for word in WORDS if word != "length"])
def test_the_helpers_completion_is_the_whole_one(told: str, word: str) -> None:
    client = client_of(told)
    whole = client.chat.completions.create(**asked(word))
    with client.chat.completions.stream(**asked(word)) as stream:
        kinds = [event.type for event in stream]
        streamed = stream.get_final_completion()
    assert kinds[0] == "chunk"
    assert message_of(streamed) == message_of(whole)
    assert streamed.choices[0].finish_reason == whole.choices[0].finish_reason


def message_of(completion: Any) -> dict[str, Any]:
    """Without what the helper adds, and what is null."""
    message = completion.choices[0].message.to_dict()
    for call in message.get("tool_calls") or ():
        call.pop("index", None)
        call["function"].pop("parsed_arguments", None)
    message.pop("parsed", None)
    return {name: value for name, value in message.items() if value}


def test_the_helper_refuses_an_answer_that_was_cut_off(told: str) -> None:
    with (
        pytest.raises(openai.LengthFinishReasonError),
        client_of(told).chat.completions.stream(**asked("length")) as stream,
    ):
        stream.get_final_completion()


def test_a_conversation_with_tools(told: str) -> None:
    client = client_of(told)
    first = client.chat.completions.create(**asked("call")).choices[0].message
    (call,) = first.tool_calls
    assert (call.function.name, call.function.arguments) == ("weather", '{"city": "Tokyo"}')
    messages = [
        {"role": "user", "content": "call"},
        first,
        {"role": "tool", "tool_call_id": call.id, "content": "text: rain"},
    ]
    second = client.chat.completions.create(**asked("", messages=messages))
    assert second.choices[0].message.content == "Hello 東京 🌧"


def test_a_schema_is_parsed(told: str) -> None:
    client = client_of(told)
    parsed = client.chat.completions.parse(**asked("json"), response_format=Person)
    assert parsed.choices[0].message.parsed == Person(name="Ada", age=36)
    with client.chat.completions.stream(**asked("json"), response_format=Person) as stream:
        streamed = stream.get_final_completion()
    assert streamed.choices[0].message.parsed == Person(name="Ada", age=36)


def test_vectors(told: str) -> None:
    status, text = post(f"{told}/v1/embeddings", {"model": "told", "input": ["ab", "c"]})
    assert status == 200
    known = openai.types.CreateEmbeddingResponse
    assert unknown_fields(known.model_validate_json(text, strict=True)) == []
    vectors = client_of(told).embeddings.create(model="told", input=["ab", "c"])
    assert [one.embedding for one in vectors.data] == [[2, 1, 0], [1, 1, 0]]


def test_a_text_is_continued(told: str) -> None:
    body = {"model": "told", "prompt": "text"}
    status, text = post(f"{told}/v1/completions", body)
    assert status == 200
    completion = openai.types.Completion.model_validate_json(text, strict=True)
    assert set(unknown_fields(completion)) <= UNDECLARED
    client = client_of(told)
    chunks = list(client.completions.create(**body, stream=True))
    assert "".join(chunk.choices[0].text for chunk in chunks) == completion.choices[0].text != ""


def test_models(told: str) -> None:
    client = client_of(told)
    assert [one.id for one in client.models.list()] == ["told", "alias"]
    assert client.models.retrieve("alias").id == "alias"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("other")


def test_ids_and_what_is_ignored_are_told(told: str) -> None:
    create = client_of(told).chat.completions.with_raw_response.create
    raw = create(**asked("text", user="me"), extra_headers={"x-request-id": "trace-1"})
    assert raw.headers["x-pyrite-ignored"] == "user"
    assert raw.parse()._request_id == "trace-1"


@pytest.mark.parametrize(
    ("word", "fields", "kind", "code"),
    [
        ("text", {"max_completion_tokens": -1}, "BadRequestError", "invalid_value"),
        ("long", {}, "BadRequestError", "context_length_exceeded"),
        ("text", {"model": "other"}, "NotFoundError", "model_not_found"),
        ("full", {}, "RateLimitError", "queue_full"),
        ("down", {}, "InternalServerError", "draining"),
    ],
)
def test_errors_are_the_clients_own(
    told: str, word: str, fields: Any, kind: str, code: str
) -> None:
    for stream in (False, True):
        with pytest.raises(openai.APIStatusError) as caught:
            client_of(told).chat.completions.create(**asked(word, stream=stream, **fields))
        assert type(caught.value).__name__ == kind
        assert caught.value.code == code
        assert caught.value.request_id


def test_a_wrong_key_is_the_clients_own_error(told: str) -> None:
    with pytest.raises(openai.AuthenticationError, match="not one of this server"):
        client_of(told, "wrong").chat.completions.create(**asked("text"))


def test_an_error_in_a_stream_reaches_the_caller(told: str) -> None:
    stream = client_of(told).chat.completions.create(**asked("broken", stream=True))
    with pytest.raises(openai.APIError, match="the step failed"):
        list(stream)


def test_a_real_model_answers(smollm2: str) -> None:
    client = client_of(smollm2)
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    body = {"model": "smollm2", "messages": messages, "max_tokens": 12, "temperature": 0}
    whole = client.chat.completions.create(**body)
    chunks = list(client.chat.completions.create(**body, stream=True))
    texts = [chunk.choices[0].delta.content or "" for chunk in chunks]
    assert "".join(texts) == whole.choices[0].message.content != ""


def test_a_real_model_is_held_to_a_call_and_a_schema(smollm2: str) -> None:
    create = client_of(smollm2).chat.completions
    messages = [{"role": "user", "content": "How is the weather in Paris?"}]
    body = {"model": "smollm2", "messages": messages, "max_tokens": 60, "temperature": 0}
    for choice in ("required", NAMED):
        called = create.create(
            **body, tools=[WEATHER], tool_choice=choice, parallel_tool_calls=False
        ).choices[0]
        assert called.finish_reason == "tool_calls"
        (call,) = called.message.tool_calls
        assert list(json.loads(call.function.arguments)) == ["city"]
    person = create.parse(**body, response_format=Person).choices[0].message.parsed
    assert isinstance(person, Person)


def test_real_vectors(smollm2: str) -> None:
    vectors = client_of(smollm2).embeddings.create(model="smollm2", input=["rain", "snow", "rain"])
    first, second, third = (one.embedding for one in vectors.data)
    assert first == third != second


def test_a_prompt_too_long_is_the_clients_own_error(smollm2: str) -> None:
    messages = [{"role": "user", "content": "rain " * 3000}]
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError) as caught:
            client_of(smollm2).chat.completions.create(
                model="smollm2", messages=messages, stream=stream
            )
        assert caught.value.code == "context_length_exceeded"


def test_a_stream_that_is_closed_is_cancelled(smollm2: str, cancelled: Cancelled) -> None:
    messages = [{"role": "user", "content": "Count."}]
    body = {"model": "smollm2", "messages": messages, "max_tokens": 1900, "stream": True}
    with client_of(smollm2).chat.completions.create(
        **body, extra_body={"ignore_eos": True}
    ) as stream:
        next(iter(stream))
    cancelled()
