"""OpenAI's own Python client against the Responses API: create, stream, parse, errors."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.clients.harness import KEY, Cancelled, datas, opened, post, unknown_fields

openai = pytest.importorskip("openai", reason="the openai client is not installed here")
pydantic = pytest.importorskip("pydantic", reason="pydantic is not installed here")

WEATHER = {
    "type": "function",
    "name": "weather",
    "description": "The weather of a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "strict": True,
}
WORDS = ["text", "everything", "call", "thinking", "json", "length", "empty"]
VARIANTS: list[dict[str, Any]] = [
    {},
    {"reasoning": {"summary": "auto", "effort": "low"}},
    {"top_logprobs": 1, "include": ["message.output_text.logprobs"]},
    {"tool_choice": {"type": "function", "name": "weather"}, "metadata": {"a": "b"}},
    {"instructions": "Be brief.", "max_output_tokens": 8, "truncation": "auto", "store": True},
]


class Person(pydantic.BaseModel):
    name: str
    age: int


def client_of(url: str) -> Any:
    return opened(openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0))


def asked(word: str, **fields: Any) -> dict[str, Any]:
    return {"model": "told", "input": word, "tools": [WEATHER], **fields}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("word", WORDS)
def test_a_response_is_what_the_client_declares(told: str, word: str, variant: Any) -> None:
    status, text = post(f"{told}/v1/responses", asked(word, **variant))
    assert status == 200
    response = openai.types.responses.Response.model_validate_json(text, strict=True)
    assert [name for name in unknown_fields(response) if name != ".store"] == []


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("word", [*WORDS, "broken"])
def test_events_are_what_the_client_declares(told: str, word: str, variant: Any) -> None:
    status, text = post(f"{told}/v1/responses", asked(word, stream=True, **variant))
    assert status == 200
    known = pydantic.TypeAdapter(openai.types.responses.ResponseStreamEvent)
    for data in datas(text):
        event = known.validate_json(data, strict=True)
        assert set(unknown_fields(event)) <= UNDECLARED, data


# What the real service sends and the client's models of events leave out.
UNDECLARED = {
    ".response.store",
    ".logprobs[].bytes",
    ".logprobs[].top_logprobs[].bytes",
    ".name",  # of function_call_arguments.done
}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("word", ["text", "everything", "call", "thinking", "json"])
def test_the_helpers_response_is_the_whole_one(told: str, word: str, variant: Any) -> None:
    client = client_of(told)
    whole = client.responses.create(**asked(word, **variant))
    with client.responses.stream(**asked(word, **variant)) as stream:
        kinds = [event.type for event in stream]
        streamed = stream.get_final_response()
    assert kinds[0] == "response.created"
    assert kinds[-1] == "response.completed"
    assert streamed.output_text == whole.output_text
    assert [plain(item) for item in streamed.output] == [plain(item) for item in whole.output]
    assert streamed.usage == whole.usage


def plain(item: Any) -> dict[str, Any]:
    fields = item.to_dict()
    for name in ("id", "parsed_arguments"):
        fields.pop(name, None)
    for part in fields.get("content") or ():
        part.pop("parsed", None)
    return {name: value for name, value in fields.items() if value is not None}


def test_a_stream_that_ends_early_says_so(told: str) -> None:
    with client_of(told).responses.stream(**asked("length")) as stream:
        last = list(stream)[-1]
    assert last.type == "response.incomplete"
    assert last.response.incomplete_details.reason == "max_output_tokens"


def test_a_conversation_with_tools(told: str) -> None:
    client = client_of(told)
    first = client.responses.create(**asked("call"))
    (call,) = first.output
    assert (call.name, call.arguments) == ("weather", '{"city": "Tokyo"}')
    items = [
        {"role": "user", "content": "call"},
        *first.output,
        {"type": "function_call_output", "call_id": call.call_id, "output": "text: rain"},
    ]
    assert client.responses.create(**asked("", input=items)).output_text == "Hello 東京 🌧"


def test_reasoning_is_sent_back(told: str) -> None:
    client = client_of(told)
    first = client.responses.create(**asked("everything"))
    results = [
        {"type": "function_call_output", "call_id": item.call_id, "output": "text"}
        for item in first.output
        if item.type == "function_call"
    ]
    items = [{"role": "user", "content": "Hi"}, *first.output, *results]
    raw = client.responses.with_raw_response.create(**asked("", input=items))
    assert raw.headers.get("x-pyrite-ignored") is None
    assert raw.parse().output_text == "Hello 東京 🌧"


def test_a_schema_is_parsed(told: str) -> None:
    client = client_of(told)
    parsed = client.responses.parse(**asked("json"), text_format=Person)
    assert parsed.output_parsed == Person(name="Ada", age=36)
    with client.responses.stream(**asked("json"), text_format=Person) as stream:
        assert stream.get_final_response().output_parsed == Person(name="Ada", age=36)


def test_what_is_ignored_is_told_to_the_client(told: str) -> None:
    raw = client_of(told).responses.with_raw_response.create(**asked("text", store=True, user="me"))
    assert raw.headers["x-pyrite-ignored"] == "store, user"


@pytest.mark.parametrize(
    ("word", "fields", "kind", "param"),
    [
        ("text", {"max_output_tokens": -1}, "BadRequestError", "max_output_tokens"),
        ("text", {"previous_response_id": "resp_1"}, "BadRequestError", "previous_response_id"),
        ("text", {"model": "other"}, "NotFoundError", None),
        ("full", {}, "RateLimitError", None),
        ("down", {}, "InternalServerError", None),
    ],
)
def test_errors_are_the_clients_own(
    told: str, word: str, fields: Any, kind: str, param: str | None
) -> None:
    for stream in (False, True):
        with pytest.raises(openai.APIStatusError) as caught:
            client_of(told).responses.create(**asked(word, stream=stream, **fields))
        assert kind in [one.__name__ for one in type(caught.value).__mro__]
        assert caught.value.param == param


def test_an_error_in_a_stream_ends_it_as_failed(told: str) -> None:
    with client_of(told).responses.create(**asked("broken", stream=True)) as stream:
        *_, error, failed = stream
    assert (error.type, error.message) == ("error", "the step failed")
    assert failed.response.error.message == "the step failed"


def test_a_real_model_answers(smollm2: str) -> None:
    client = client_of(smollm2)
    body = {
        "model": "smollm2",
        "input": "What is the capital of France?",
        "max_output_tokens": 12,
        "temperature": 0,
    }
    whole = client.responses.create(**body)
    with client.responses.stream(**body) as stream:
        kinds = [event.type for event in stream]
    assert kinds[-1] in ("response.completed", "response.incomplete")
    with client.responses.create(**body, stream=True) as events:
        last = list(events)[-1].response
    assert whole.output_text == last.output_text != ""
    assert whole.usage.input_tokens == last.usage.input_tokens
    counted = client.responses.input_tokens.count(model="smollm2", input=body["input"])
    assert counted.input_tokens == whole.usage.input_tokens


def test_a_real_model_is_held_to_a_schema(smollm2: str) -> None:
    asking = {"model": "smollm2", "input": "Who is Ada, of 36 years?", "temperature": 0}
    parsed = client_of(smollm2).responses.parse(**asking, text_format=Person, max_output_tokens=60)
    assert parsed.status == "completed"
    assert isinstance(parsed.output_parsed, Person)


@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "weather"}])
def test_a_real_model_must_call(smollm2: str, choice: Any) -> None:
    client = client_of(smollm2)
    question = "How is the weather in Paris?"
    sampling = {"max_output_tokens": 60, "temperature": 0}
    body = {"model": "smollm2", "input": question, **sampling}
    forced = {"tools": [WEATHER], "tool_choice": choice, "parallel_tool_calls": False}
    whole = client.responses.create(**body, **forced)
    with client.responses.stream(**body, **forced) as stream:
        streamed = stream.get_final_response()
    for response in (whole, streamed):
        (call,) = response.output
        assert list(json.loads(call.arguments)) == ["city"]


def test_a_stream_that_is_closed_is_cancelled(smollm2: str, cancelled: Cancelled) -> None:
    body = {"model": "smollm2", "input": "Write a long story.", "max_output_tokens": 1900}
    with client_of(smollm2).responses.create(**body, stream=True) as stream:
        next(iter(stream))
    cancelled()
