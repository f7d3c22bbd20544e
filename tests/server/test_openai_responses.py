"""The Responses API over told events: exact JSON and streams, and what becomes of each field."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.server.told import (
    EVERYTHING,
    Told,
    answer_of,
    ended,
    named_events,
    part,
    recut,
    started,
)

from pyrite.errors import BackendError, ContextLengthError, ParameterError
from pyrite.request import PositionLogprobs, TokenLogprob
from pyrite.sampling.grammar import Grammar
from pyrite.server.ask import NamedTool
from pyrite.server.errors import HttpError
from pyrite.server.openai.responses.routes import routes
from pyrite.server.openai.responses.types import RESPONSES
from pyrite.text.answer import CallArguments, CallStart, Content, Piece, Reasoning

WEATHER = {"type": "function", "name": "weather", "parameters": {"type": "object"}, "strict": True}
CLOCK = {"type": "function", "name": "clock", "description": "Tells the time."}


@pytest.fixture
def told() -> Told:
    served = Told(routes)
    served.tell(*answer_of(Content("Hello")))
    return served


def asked(**fields: Any) -> dict[str, Any]:
    return {"model": "told", "input": "Hi", **fields}


def whole(told: Told, **fields: Any) -> dict[str, Any]:
    reply = told.post("/v1/responses", asked(**fields))
    assert reply.status_code == 200, reply.text
    return reply.json()  # type: ignore[no-any-return]


def streamed(told: Told, **fields: Any) -> list[dict[str, Any]]:
    """Events in order; their names are their types, and they are numbered through."""
    reply = told.post("/v1/responses", asked(stream=True, **fields))
    assert reply.status_code == 200, reply.text
    pairs = named_events(reply.text)
    assert [data["sequence_number"] for _, data in pairs] == list(range(len(pairs)))
    assert all(name == data["type"] for name, data in pairs)
    return [data for _, data in pairs]


def refusal(told: Told, **fields: Any) -> dict[str, Any]:
    reply = told.post("/v1/responses", asked(**fields))
    assert reply.status_code == 400, reply.text
    return reply.json()["error"]  # type: ignore[no-any-return]


def conversation(told: Told, *items: Any, **fields: Any) -> list[dict[str, Any]]:
    whole(told, input=list(items), **fields)
    return [dict(message) for message in told.ask.messages]


def without_ids(response: dict[str, Any]) -> dict[str, Any]:
    output = [{**item, "id": ""} for item in response["output"]]
    times = {"created_at": 0, "completed_at": 0}
    return {**response, "id": "", **times, "output": output}


def message(text: str, status: str = "completed") -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    head = {"id": "", "type": "message", "role": "assistant"}
    return {**head, "status": status, "content": [part]}


def test_a_whole_response(told: Told) -> None:
    told.tell(started(10, 4), part(Content("Hel")), part(Content("lo")), ended(cached=4))
    response = whole(told, metadata={"a": "b"}, instructions="Be brief.", temperature=0.5)
    assert response["id"].startswith("resp_")
    assert response["output"][0]["id"].startswith("msg_")
    assert response["created_at"] <= response["completed_at"]
    assert without_ids(response) == {
        "id": "",
        "object": "response",
        "created_at": 0,
        "completed_at": 0,
        "status": "completed",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": "Be brief.",
        "max_output_tokens": None,
        "max_tool_calls": None,
        "metadata": {"a": "b"},
        "model": "told",
        "output": [message("Hello")],
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "service_tier": "default",
        "store": False,
        "temperature": 0.5,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_logprobs": 0,
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": {
            "input_tokens": 10,
            "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
            "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 15,
        },
        "user": None,
    }


def test_a_stream_event_by_event(told: Told) -> None:
    told.tell(*answer_of(Reasoning("Hm"), Content("Hi"), CallStart(0, "c", "clock"),
                         CallArguments(0, "{}"), reason="tool_calls"))  # fmt: skip
    events = streamed(told, tools=[CLOCK])
    assert [event["type"].removeprefix("response.") for event in events] == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "reasoning_text.delta",
        "reasoning_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ]
    first, last = events[0]["response"], events[-1]["response"]
    assert first["status"] == "in_progress"
    assert first["output"] == []
    assert first["usage"] is None
    assert last["status"] == "completed"
    assert [item["type"] for item in last["output"]] == ["reasoning", "message", "function_call"]
    assert {first["id"], events[1]["response"]["id"]} == {last["id"]}
    for event in events[2:-1]:
        item = last["output"][event["output_index"]]
        assert event.get("item_id", item["id"]) == item["id"]
    assert events[7]["item"] == last["output"][0]
    assert events[13]["item"] == last["output"][1]
    call = events[14]["item"]
    assert (call["status"], call["arguments"], call["call_id"]) == ("in_progress", "", "c")
    assert events[15]["delta"] == events[16]["arguments"] == last["output"][2]["arguments"] == "{}"


@pytest.mark.parametrize("summary", [None, "auto"])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_streamed_is_whole_at_every_split(told: Told, size: int, summary: str | None) -> None:
    asking = {"reasoning": {"summary": summary}}
    told.tell(*answer_of(*EVERYTHING, reason="tool_calls"))
    one = without_ids(whole(told, **asking))
    told.tell(*answer_of(*recut(EVERYTHING, size), reason="tool_calls"))
    events = streamed(told, **asking)
    last = events[-1]["response"]
    again = without_ids(whole(told, **asking))
    for response in (one, last, again):
        response["usage"].pop("output_tokens_details")  # one told token a part
    assert one == without_ids(last) == again
    for index, item in enumerate(last["output"]):
        own = [event for event in events if event.get("output_index") == index]
        assert own[0]["type"] == "response.output_item.added"
        assert own[-1] == {**own[-1], "type": "response.output_item.done", "item": item}
        deltas = "".join(event["delta"] for event in own if event["type"].endswith(".delta"))
        assert deltas == text_of(item)


def text_of(item: dict[str, Any]) -> str:
    if item["type"] == "function_call":
        return str(item["arguments"])
    parts = item.get("content") or item["summary"]
    return "".join(part["text"] for part in parts)


def test_reasoning_is_its_own_summary_when_one_is_asked_for(told: Told) -> None:
    told.tell(*answer_of(Reasoning("Hm"), Content("Hi")))
    events = streamed(told, reasoning={"summary": "auto"})
    kinds = [event["type"] for event in events if "summary_index" in event]
    assert kinds == [
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_text.delta",
        "response.reasoning_summary_text.done",
        "response.reasoning_summary_part.done",
    ]
    item = events[-1]["response"]["output"][0]
    assert item["summary"] == [{"type": "summary_text", "text": "Hm"}]
    assert "content" not in item
    item = whole(told)["output"][0]
    assert item["summary"] == []
    assert item["content"] == [{"type": "reasoning_text", "text": "Hm"}]


def test_what_a_limit_cuts_off_is_incomplete(told: Told) -> None:
    told.tell(*answer_of(Content("a"), CallStart(0, "c", "f"), CallArguments(0, '{"a'),
                         reason="length"))  # fmt: skip
    for response in (whole(told), streamed(told)[-1]["response"]):
        assert response["status"] == "incomplete"
        assert response["incomplete_details"] == {"reason": "max_output_tokens"}
        assert response["completed_at"] is None
        assert [item["status"] for item in response["output"]] == ["completed", "incomplete"]
        assert response["output"][1]["arguments"] == '{"a'
    assert streamed(told)[-1]["type"] == "response.incomplete"


def test_an_answer_of_nothing_has_no_items(told: Told) -> None:
    told.tell(started(), part(), part(Content("")), ended())
    assert whole(told)["output"] == []
    kinds = [event["type"] for event in streamed(told)]
    assert kinds == ["response.created", "response.in_progress", "response.completed"]


def test_the_prompt_counts_alike_on_hit_and_miss(told: Told) -> None:
    for cached in (0, 3, 9):
        told.tell(started(10, cached), part(Content("x")), ended(cached=cached))
        usage = whole(told)["usage"]
        assert usage["input_tokens"] == 10
        assert usage["input_tokens_details"]["cached_tokens"] == cached
        assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]


def test_reasoning_tokens_are_those_of_reasoning(told: Told) -> None:
    told.tell(
        started(),
        part(ids=[1]),  # held back: may be a marker
        part(Reasoning("a"), ids=[2, 3]),
        part(ids=[4]),
        part(Content("b"), ids=[5]),
        part(Content("c"), ids=[6, 7]),
        ended(completion=7),
    )
    details = whole(told)["usage"]["output_tokens_details"]
    assert details == {"reasoning_tokens": 3}


def logprobs_of(character: str) -> tuple[PositionLogprobs, ...]:
    own = TokenLogprob(ord(character), -0.5)
    return (PositionLogprobs(own, (own, TokenLogprob(ord("z"), -1.0))),)


@pytest.mark.parametrize("fields", [
    {"include": ["message.output_text.logprobs"], "top_logprobs": 2},
    {"top_logprobs": 2},
])  # fmt: skip
def test_logprobs_are_of_the_text_alone(told: Told, fields: Any) -> None:
    told.tell(
        started(),
        part(Reasoning("r"), logprobs=logprobs_of("r")),
        part(logprobs=logprobs_of("H")),
        part(Content("Hi"), logprobs=logprobs_of("i")),
        part(Content("!"), logprobs=logprobs_of("!")),
        part(CallStart(0, "c", "f"), CallArguments(0, "{}"), logprobs=logprobs_of("{")),
        ended("tool_calls"),
    )
    events = streamed(told, **fields)
    assert told.ask.params.logprobs == 2
    deltas = [event for event in events if event["type"] == "response.output_text.delta"]
    assert [[one["token"] for one in event["logprobs"]] for event in deltas] == [["H", "i"], ["!"]]
    for response in (events[-1]["response"], whole(told, **fields)):
        entries = response["output"][1]["content"][0]["logprobs"]
        assert [entry["token"] for entry in entries] == ["H", "i", "!"]
        assert entries[0]["bytes"] == [72]
        assert [top["token"] for top in entries[0]["top_logprobs"]] == ["H", "z"]
    assert whole(told)["output"][1]["content"][0]["logprobs"] == []


# Errors


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("error", "status", "kind", "code"),
    [
        (ParameterError("top_p", 3, "less"), 400, "invalid_request_error", "invalid_value"),
        (ContextLengthError(9, 8), 400, "invalid_request_error", "context_length_exceeded"),
        (HttpError(401, "no_key", "a key, please"), 401, "authentication_error", "no_key"),
        (HttpError(429, "rate", "no", retry_after=2), 429, "rate_limit_error", "rate"),
        (HttpError(503, "full", "no"), 503, "server_error", "full"),
        (RuntimeError("secret"), 500, "server_error", None),
    ],
)
def test_errors_before_the_first_byte(
    told: Told, stream: bool, error: Exception, status: int, kind: str, code: str | None
) -> None:
    told.tell(error)
    reply = told.post("/v1/responses", asked(stream=stream))
    assert reply.status_code == status
    assert reply.json()["error"]["type"] == kind
    assert reply.json()["error"]["code"] == code
    assert "secret" not in reply.text


@pytest.mark.parametrize(
    ("name", "theirs"),
    [
        ("max_tokens", "max_output_tokens"),
        ("json_schema", "text.format.schema"),
        ("tools[12].function.parameters.type", "tools[12].parameters.type"),
        ("top_p", "top_p"),
    ],
)
def test_fields_are_told_by_this_apis_names(told: Told, name: str, theirs: str) -> None:
    told.tell(ParameterError(name, 3, "less"))
    error = refusal(told)
    assert (error["param"], error["message"]) == (theirs, f"{theirs} = 3: must be less")


def test_an_error_after_the_first_byte_ends_the_stream_as_failed(told: Told) -> None:
    told.tell(started(), part(Content("Hel")), BackendError("broken", hint="ask again"))
    *_, delta, error, failed = streamed(told)
    assert delta["type"] == "response.output_text.delta"
    assert error == {
        "type": "error",
        "code": None,
        "message": "broken (ask again)",
        "param": None,
        "sequence_number": error["sequence_number"],
    }
    assert failed["type"] == "response.failed"
    assert failed["response"]["status"] == "failed"
    assert failed["response"]["error"]["code"] == "server_error"
    assert without_ids(failed["response"])["output"] == [message("Hel", "incomplete")]
    assert told.service.closed


def test_a_model_of_another_name_is_not_found(told: Told) -> None:
    assert told.post("/v1/responses", asked(model="alias")).status_code == 200
    assert told.post("/v1/responses", {"input": "Hi"}).status_code == 200
    assert told.post("/v1/responses", asked(model="other")).status_code == 404


# Fields


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"input": None}, "input"),
        ({"input": []}, "input"),
        ({"input": 3}, "input"),
        ({"input": ["x"]}, "input[0]"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type"),
        ({"input": [{"type": "message", "role": "tool"}]}, "input[0].role"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]},
         "input[0].content[0].type"),
        ({"input": [{"role": "user", "content": [{"type": "input_text"}]}]},
         "input[0].content[0].text"),
        ({"input": [{"type": "function_call", "call_id": "c", "name": "f", "arguments": "[1]"}]},
         "input[0].arguments"),
        ({"input": [{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{"}]},
         "input[0].arguments"),
        ({"input": [{"type": "function_call_output", "call_id": "c", "output": "x"}]},
         "input[0].call_id"),
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"prompt": {"id": "p"}}, "prompt"),
        ({"background": True}, "background"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"max_output_tokens": "5"}, "max_output_tokens"),
        ({"temperature": 3}, "temperature"),
        ({"top_p": -0.1}, "top_p"),
        ({"top_logprobs": 21}, "top_logprobs"),
        ({"top_logprobs": -1}, "top_logprobs"),
        ({"include": ["everything"]}, "include[0]"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": [WEATHER, WEATHER]}, "tools[].name"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": "maybe"}, "tool_choice"),
        ({"tool_choice": {"type": "mcp"}}, "tool_choice.type"),
        ({"tools": [WEATHER], "tool_choice": {"type": "function", "name": "g"}},
         "tool_choice.name"),
        ({"tools": [WEATHER], "tool_choice": {
            "type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "g"}]}},
         "tool_choice.tools[0].name"),
        ({"text": {"format": {"type": "xml"}}}, "text.format.type"),
        ({"reasoning": {"effort": "huge"}}, "reasoning.effort"),
        ({"metadata": {"k" * 65: "v"}}, "metadata"),
        ({"metadata": {"k": "v" * 513}}, "metadata.k"),
        ({"metadata": {str(number): "v" for number in range(17)}}, "metadata"),
        ({"metadata": {"k": 3}}, "metadata[...]"),
    ],
)  # fmt: skip
def test_refusals_name_the_field(told: Told, fields: Any, name: str) -> None:
    error = refusal(told, **fields)
    assert error["param"] == name
    assert error["message"].startswith(f"{name} = ")
    assert error["type"] == "invalid_request_error"
    assert told.service.asks == []


def test_a_forgotten_answer_says_what_to_do(told: Told) -> None:
    error = refusal(told, previous_response_id="resp_1")
    assert "send the whole conversation" in error["message"]


def test_what_is_ignored_is_told(told: Told) -> None:
    fields = {
        "store": True,
        "truncation": "auto",
        "user": "me",
        "include": ["message.output_text.logprobs", "reasoning.encrypted_content"],
        "reasoning": {"mode": "pro"},
        "text": {"verbosity": "low"},
        "colour": 3,
    }
    for stream in (False, True):
        reply = told.post("/v1/responses", asked(stream=stream, **fields))
        assert reply.headers["x-pyrite-ignored"].split(", ") == [
            "store", "truncation", "user", "reasoning.mode", "text.verbosity", "colour",
            "include[reasoning.encrypted_content]",
        ]  # fmt: skip


def test_what_asks_for_nothing_is_not_told(told: Told) -> None:
    fields = {
        "store": False,
        "truncation": "disabled",
        "background": False,
        "service_tier": "auto",
        "previous_response_id": None,
        "stream_options": {"include_obfuscation": False},
    }
    assert "x-pyrite-ignored" not in told.post("/v1/responses", asked(**fields)).headers
    assert whole(told, store=True)["store"] is False


def test_parameters_reach_the_ask(told: Told) -> None:
    whole(told, temperature=0.3, top_p=0.5, max_output_tokens=9, parallel_tool_calls=False)
    params = told.ask.params
    assert (params.temperature, params.top_p, params.max_tokens) == (0.3, 0.5, 9)
    assert params.logprobs is None
    assert not told.ask.parallel_tool_calls
    whole(told, include=["message.output_text.logprobs"])
    assert told.ask.params.logprobs == 0


@pytest.mark.parametrize(
    ("format", "grammar"),
    [
        (None, None),
        ({"type": "text"}, None),
        ({"type": "json_object"}, Grammar.json_object()),
        ({"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True},
         Grammar.json_schema({"type": "object"})),
    ],
)  # fmt: skip
def test_a_format_constrains_the_answer(told: Told, format: Any, grammar: Any) -> None:
    response = whole(told, text={"format": format})
    assert told.ask.params.grammar == grammar
    assert response["text"]["format"] == (format or {"type": "text"})


def test_a_schema_too_large_is_refused(told: Told) -> None:
    schema = {"type": "object", "description": "x" * 2**21}
    format = {"type": "json_schema", "name": "n", "schema": schema}
    assert refusal(told, text={"format": format})["param"] == "text.format.schema"


@pytest.mark.parametrize(
    ("effort", "options"),
    [
        (None, {}),
        ("high", {"reasoning_effort": "high"}),
        ("none", {"reasoning_effort": "none", "enable_thinking": False, "thinking": False}),
    ],
)
def test_effort_goes_to_the_template(told: Told, effort: str | None, options: Any) -> None:
    whole(told, reasoning={"effort": effort})
    assert told.ask.template_options == options


ALLOWED = {"type": "allowed_tools", "mode": "required",
           "tools": [{"type": "function", "name": "clock"}]}  # fmt: skip


@pytest.mark.parametrize(
    ("choice", "expected", "names"),
    [
        (None, "auto", ["weather", "clock"]),
        ("auto", "auto", ["weather", "clock"]),
        ("none", "none", ["weather", "clock"]),
        ("required", "required", ["weather", "clock"]),
        ({"type": "function", "name": "clock"}, NamedTool("clock"), ["weather", "clock"]),
        (ALLOWED, "required", ["clock"]),
    ],
)
def test_tools_and_their_choice(told: Told, choice: Any, expected: Any, names: list[str]) -> None:
    response = whole(told, tools=[WEATHER, CLOCK], tool_choice=choice)
    assert told.ask.tool_choice == expected
    assert [tool["function"]["name"] for tool in told.ask.tools] == names
    assert response["tools"] == [WEATHER, CLOCK]
    assert response["tool_choice"] == (choice or "auto")
    whole(told, tools=[WEATHER])
    function = {"name": "weather", "parameters": {"type": "object"}, "strict": True}
    assert told.ask.tools == [{"type": "function", "function": function}]


# Conversations


def test_a_string_is_one_message(told: Told) -> None:
    text = [{"type": "input_text", "text": "Hi"}]
    whole(told)
    one = told.ask.messages
    assert one == [{"role": "user", "content": "Hi"}]
    assert conversation(told, {"role": "user", "content": "Hi"}) == one
    assert conversation(told, {"type": "message", "role": "user", "content": text}) == one


@pytest.mark.parametrize("content", [{"content": None}, {}, {"content": []}, {"content": ""}])
def test_absent_content_is_empty_and_its_message_stays(told: Told, content: Any) -> None:
    messages = conversation(
        told,
        {"role": "user", "content": "Hi"},
        {"role": "assistant", **content},
        {"role": "user", "content": "Ho"},
    )
    assert messages[1] == {"role": "assistant", "content": ""}


def test_instructions_and_developers_are_one_system_message(told: Told) -> None:
    messages = conversation(
        told,
        {"role": "developer", "content": "Be kind."},
        {"role": "user", "content": "Hi"},
        {"role": "user", "content": "Ho"},
        instructions="Be brief.",
    )
    assert messages == [
        {"role": "system", "content": "Be brief.\nBe kind."},
        {"role": "user", "content": "Hi"},
        {"role": "user", "content": "Ho"},
    ]


@pytest.mark.parametrize("arguments", ["", None, "{}", " {} "])
def test_empty_arguments_are_an_empty_object(told: Told, arguments: str | None) -> None:
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": arguments}
    messages = conversation(told, {"role": "user", "content": "Hi"}, call)
    assert messages[1]["tool_calls"][0]["function"]["arguments"] == "{}"


def test_an_answer_sent_back_is_one_message(told: Told) -> None:
    """Its items, sent back with the result of the call, are the conversation that is cached."""
    pieces: list[Piece] = [Reasoning("Hm"), Content("a "), Content("b")]
    call: list[Piece] = [CallStart(0, "c", "clock"), CallArguments(0, '{"x": "東"}')]
    told.tell(*answer_of(*pieces, *call, reason="tool_calls"))
    for summary in (None, "auto"):
        answer = whole(told, reasoning={"summary": summary})
        result = {"type": "function_call_output", "call_id": "c", "output": "noon"}
        messages = conversation(told, {"role": "user", "content": "Hi"}, *answer["output"], result)
        assert [one["role"] for one in messages] == ["user", "assistant", "tool"]
        assert messages[1]["content"] == "a b"
        assert messages[1]["reasoning_content"] == "Hm"
        arguments = messages[1]["tool_calls"][0]["function"]["arguments"]
        assert json.loads(arguments) == {"x": "東"}
        assert messages[2] == {
            "role": "tool", "tool_call_id": "c", "name": "clock", "content": "noon",
        }  # fmt: skip


def test_an_answer_sent_back_ignores_nothing(told: Told) -> None:
    answer = whole(told)
    reply = told.post("/v1/responses", asked(input=answer["output"]))
    assert "x-pyrite-ignored" not in reply.headers


def test_input_tokens_are_of_the_same_prompt(told: Told) -> None:
    reply = told.post("/v1/responses/input_tokens", asked(instructions="Be."))
    assert reply.json() == {"object": "response.input_tokens", "input_tokens": 5}
    assert told.service.asks == []


def test_every_field_is_documented() -> None:
    rows = RESPONSES.rows()
    assert all(row.words for row in rows if row.fate != "used")
    assert len({row.name for row in rows}) == len(rows)
