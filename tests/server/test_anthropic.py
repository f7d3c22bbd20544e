"""Anthropic's dialect over told events: exact JSON and streams, and what becomes of each field."""

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
from pyrite.sampling.grammar import Grammar
from pyrite.server.anthropic.blocks import signature_of
from pyrite.server.anthropic.routes import routes
from pyrite.server.anthropic.types import COUNT, MESSAGES
from pyrite.server.ask import NamedTool
from pyrite.server.errors import HttpError
from pyrite.text.answer import CallArguments, CallStart, Content, Piece, Reasoning

WEATHER = {"name": "weather", "input_schema": {"type": "object"}}
CLOCK = {"name": "clock", "description": "Tells the time.", "input_schema": {}}


@pytest.fixture
def told() -> Told:
    served = Told(routes)
    served.tell(*answer_of(Content("Hello")))
    return served


def asked(**fields: Any) -> dict[str, Any]:
    hello = [{"role": "user", "content": "Hi"}]
    return {"model": "told", "max_tokens": 50, "messages": hello, **fields}


def whole(told: Told, **fields: Any) -> dict[str, Any]:
    reply = told.post("/v1/messages", asked(**fields))
    assert reply.status_code == 200, reply.text
    return reply.json()  # type: ignore[no-any-return]


def streamed(told: Told, **fields: Any) -> list[tuple[str, Any]]:
    reply = told.post("/v1/messages", asked(stream=True, **fields))
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-type"].startswith("text/event-stream")
    return named_events(reply.text)


def conversation(told: Told, *messages: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
    whole(told, messages=list(messages), **fields)
    return [dict(message) for message in told.ask.messages]


def refusal(told: Told, **fields: Any) -> str:
    reply = told.post("/v1/messages", asked(**fields))
    assert reply.status_code == 400, reply.text
    body = reply.json()
    assert body["type"] == "error"
    assert body["error"]["type"] == "invalid_request_error"
    assert body["request_id"] == reply.headers["request-id"]
    return str(body["error"]["message"])


def joined(events: list[tuple[str, Any]]) -> dict[str, Any]:
    """The message that a client puts together."""
    assert all(name == data["type"] for name, data in events)
    assert events[0][0] == "message_start"
    assert events[-1] == ("message_stop", {"type": "message_stop"})
    message = events[0][1]["message"]
    arguments: dict[int, str] = {}
    for name, data in events:
        if name == "content_block_start":
            assert data["index"] == len(message["content"])
            message["content"].append(data["content_block"])
        elif name == "content_block_delta":
            block, delta = message["content"][data["index"]], data["delta"]
            if delta["type"] == "text_delta":
                block["text"] += delta["text"]
            elif delta["type"] == "thinking_delta":
                block["thinking"] += delta["thinking"]
            elif delta["type"] == "signature_delta":
                block["signature"] = delta["signature"]
            else:
                index = data["index"]
                arguments[index] = arguments.get(index, "") + delta["partial_json"]
        elif name == "content_block_stop" and data["index"] in arguments:
            message["content"][data["index"]]["input"] = json.loads(arguments[data["index"]])
        elif name == "message_delta":
            message |= data["delta"]
            message["usage"] |= data["usage"]
    return message  # type: ignore[no-any-return]


def test_a_whole_message(told: Told) -> None:
    told.tell(started(10, 4), part(Content("Hel")), part(Content("lo")), ended(cached=4))
    message = whole(told)
    assert message.pop("id").startswith("msg_")
    assert message == {
        "type": "message",
        "role": "assistant",
        "model": "told",
        "content": [{"type": "text", "text": "Hello"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 6,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 4,
            "output_tokens": 5,
            "output_tokens_details": {"thinking_tokens": 0},
        },
    }


def test_a_stream_event_by_event(told: Told) -> None:
    told.tell(*answer_of(Reasoning("Hm"), Content("Hi"), CallStart(0, "c", "f"),
                         CallArguments(0, "{}"), reason="tool_calls"))  # fmt: skip
    events = streamed(told)
    signature = signature_of("Hm")
    usage = {
        "input_tokens": 10,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": 5,
        "output_tokens_details": {"thinking_tokens": 1},
    }
    call = {"type": "tool_use", "id": "c", "name": "f", "input": {}}
    thinking = {"type": "thinking", "thinking": "", "signature": ""}
    assert [data for _, data in events[1:]] == [
        {"type": "ping"},
        {"type": "content_block_start", "index": 0, "content_block": thinking},
        delta(0, type="thinking_delta", thinking="Hm"),
        delta(0, type="signature_delta", signature=signature),
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
        delta(1, type="text_delta", text="Hi"),
        {"type": "content_block_stop", "index": 1},
        {"type": "content_block_start", "index": 2, "content_block": call},
        delta(2, type="input_json_delta", partial_json="{}"),
        {"type": "content_block_stop", "index": 2},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use", "stop_sequence": None},
            "usage": usage,
        },
        {"type": "message_stop"},
    ]
    assert events[0][1]["message"]["usage"]["output_tokens"] == 0


def delta(index: int, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": fields}


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_streamed_is_whole_at_every_split(told: Told, size: int) -> None:
    told.tell(*answer_of(*EVERYTHING, reason="tool_calls"))
    one = whole(told)
    told.tell(*answer_of(*recut(EVERYTHING, size), reason="tool_calls"))
    other = joined(streamed(told))
    again = whole(told)
    for message in (one, other, again):
        message.pop("id")
        message["usage"].pop("output_tokens_details")  # one told token a part
    assert one == other == again
    assert [block["type"] for block in one["content"]] == [
        "thinking", "text", "tool_use", "tool_use",
    ]  # fmt: skip


def test_pieces_of_one_step_keep_their_order(told: Told) -> None:
    told.tell(started(), part(*EVERYTHING), part(), part(Content("")), ended("tool_calls"))
    assert len(joined(streamed(told))["content"]) == 4


def test_an_answer_of_nothing_has_no_blocks(told: Told) -> None:
    told.tell(started(), part(), ended())
    assert whole(told)["content"] == []
    assert joined(streamed(told))["content"] == []


@pytest.mark.parametrize(
    ("end", "reason", "sequence"),
    [
        ({}, "end_turn", None),
        ({"stopped_by": 2}, "end_turn", None),
        ({"stopped_by": "END"}, "stop_sequence", "END"),
        ({"reason": "tool_calls"}, "tool_use", None),
        ({"reason": "length", "completion": 50}, "max_tokens", None),
        ({"reason": "length", "completion": 49}, "model_context_window_exceeded", None),
    ],
)
def test_stop_reasons(told: Told, end: Any, reason: str, sequence: str | None) -> None:
    told.tell(*answer_of(Content("Hello"), **end))
    for message in (whole(told, stop_sequences=["END"]), joined(streamed(told))):
        assert (message["stop_reason"], message["stop_sequence"]) == (reason, sequence)


def test_a_call_that_a_limit_cut_off_has_no_input(told: Told) -> None:
    told.tell(*answer_of(CallStart(0, "c", "f"), CallArguments(0, '{"a": [1'), reason="length"))
    message = whole(told)
    assert message["content"][0]["input"] == {}
    assert message["stop_reason"] == "model_context_window_exceeded"


def test_the_prompt_counts_alike_on_hit_and_miss(told: Told) -> None:
    totals = []
    for cached in (0, 3, 9):
        told.tell(started(10, cached), part(Content("x")), ended(cached=cached))
        for message in (whole(told), joined(streamed(told))):
            usage = message["usage"]
            assert usage["cache_read_input_tokens"] == cached
            totals.append(usage["input_tokens"] + usage["cache_read_input_tokens"])
    assert set(totals) == {10}


# Errors


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (ParameterError("top_k", 3, "less"), 400, "invalid_request_error"),
        (ContextLengthError(9, 8), 400, "invalid_request_error"),
        (HttpError(401, "no_key", "a key, please"), 401, "authentication_error"),
        (HttpError(403, "forbidden", "no"), 403, "permission_error"),
        (HttpError(404, "model_not_found", "no"), 404, "not_found_error"),
        (HttpError(413, "body_too_large", "no"), 413, "request_too_large"),
        (HttpError(429, "rate", "no", retry_after=2), 429, "rate_limit_error"),
        (HttpError(503, "full", "no", retry_after=2), 503, "overloaded_error"),
        (BackendError("broken"), 500, "api_error"),
        (RuntimeError("secret"), 500, "api_error"),
    ],
)
def test_errors_before_the_first_byte(
    told: Told, stream: bool, error: Exception, status: int, kind: str
) -> None:
    told.tell(error)
    reply = told.post("/v1/messages", asked(stream=stream))
    assert reply.status_code == status
    body = reply.json()
    assert body["type"] == "error"
    assert body["error"]["type"] == kind
    assert body["request_id"] == reply.headers["request-id"]
    assert "secret" not in reply.text
    assert ("retry-after" in reply.headers) == (status in (429, 503))


def test_an_error_after_the_first_byte_is_the_last_event(told: Told) -> None:
    told.tell(started(), part(Content("Hel")), BackendError("broken", hint="ask again"))
    reply = told.post("/v1/messages", asked(stream=True))
    assert reply.status_code == 200
    name, data = named_events(reply.text)[-1]
    assert name == "error"
    assert data == {
        "type": "error",
        "error": {"type": "api_error", "message": "broken (ask again)"},
        "request_id": reply.headers["request-id"],
    }
    assert told.service.closed
    told.tell(started(), part(Content("Hel")), BackendError("broken"))
    assert told.post("/v1/messages", asked()).status_code == 500


@pytest.mark.parametrize(
    ("name", "theirs"),
    [
        ("stop", "stop_sequences"),
        ("json_schema", "output_config.format.schema"),
        ("tools[12].function.parameters.type", "tools[12].input_schema.type"),
        ("tools[0].function.name", "tools[0].name"),
        ("top_k", "top_k"),
    ],
)
def test_fields_are_told_by_this_dialects_names(told: Told, name: str, theirs: str) -> None:
    told.tell(ParameterError(name, 3, "less", hint="ask for less"))
    reply = told.post("/v1/messages", asked())
    assert reply.json()["error"]["message"] == f"{theirs} = 3: must be less (ask for less)"


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"3", b'"x"', b"\xff", b"[" * 100_000])
def test_a_body_that_is_no_object(told: Told, body: bytes) -> None:
    for path in ("/v1/messages", "/v1/messages/count_tokens"):
        reply = told.post(path, body)
        assert reply.status_code == 400
        assert reply.json()["error"]["type"] == "invalid_request_error"


def test_a_model_of_another_name_is_not_found(told: Told) -> None:
    for path in ("/v1/messages", "/v1/messages/count_tokens"):
        assert told.post(path, asked(model="alias")).status_code == 200
        reply = told.post(path, asked(model="other"))
        assert reply.status_code == 404
        assert reply.json()["error"]["type"] == "not_found_error"


# Fields


@pytest.mark.parametrize("missing", ["model", "messages", "max_tokens"])
def test_what_must_be_given(told: Told, missing: str) -> None:
    body = asked()
    del body[missing]
    reply = told.post("/v1/messages", body)
    assert reply.status_code == 400
    assert f"{missing} = None: must be given" in reply.json()["error"]["message"]


IMAGE = {"type": "image", "source": {"type": "url", "url": "x"}}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"max_tokens": 0}, "max_tokens = 0: must be at least 1"),
        ({"max_tokens": "5"}, "max_tokens = '5'"),
        ({"temperature": 2.5}, "temperature = 2.5: must be a number from 0.0 to 2.0"),
        ({"top_p": -1}, "top_p = -1"),
        ({"top_k": -1}, "top_k = -1"),
        ({"stop_sequences": [""]}, "stop_sequences = ''"),
        ({"stop_sequences": ["x"] * 17}, "at most 16"),
        ({"messages": []}, "messages = []: must be at least one message"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role = 'tool'"),
        ({"messages": [{"role": "user", "content": [IMAGE]}]},
         "messages[0].content[0].type = 'image': must be \"text\""),
        ({"messages": [{"role": "user", "content": [IMAGE]}]}, "reads text alone"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]},
         "messages[0].content[0].text = None: must be given"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": 3}]}]},
         "messages[0].content[0].text = 3: must be str"),
        ({"messages": [{"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t", "content": "x"}]}]},
         "messages[0].content[0].tool_use_id = 't'"),
        ({"messages": [{"role": "user", "content": [
            {"type": "tool_use", "id": "t", "name": "n", "input": {}}]}]},
         "messages[0].content[0].type = 'tool_use'"),
        ({"messages": [{"role": "assistant", "content": [
            {"type": "tool_use", "id": "t", "name": "n", "input": {}}]}]},
         "tool_result of each tool_use"),
        ({"system": [IMAGE]}, "system[0].type = 'image'"),
        ({"tools": [{"name": "f"}]}, "tools[0].input_schema = None: must be given"),
        ({"tools": [{"type": "bash_20250124", "name": "bash", "input_schema": {}}]},
         "tools[0].type = 'bash_20250124'"),
        ({"tools": [{**WEATHER, "name": "a b"}]}, "tools[0].name = 'a b'"),
        ({"tools": [WEATHER, WEATHER]}, "tools[1].name = 'weather'"),
        ({"tool_choice": {"type": "any"}}, "tool_choice.type = 'any'"),
        ({"tool_choice": {"type": "maybe"}}, "tool_choice.type = 'maybe'"),
        ({"tool_choice": {"type": "tool", "name": "g"}, "tools": [WEATHER]},
         "tool_choice.name = 'g'"),
        ({"thinking": {"type": "deep"}}, "thinking.type = 'deep'"),
        ({"container": "c"}, "container = 'c': must be absent"),
        ({"metadata": 5}, "metadata = 5: must be an object"),
        ({"messages": [{"role": "", "content": "x"}]}, "messages[0].role = ''"),
        ({"thinking": {"type": "enabled", "budget_tokens": -1}},
         "thinking.budget_tokens = -1: must be a whole number from 1"),
        ({"mcp_servers": [{}]}, "mcp_servers"),
    ],
)  # fmt: skip
def test_refusals_name_field_and_value(told: Told, fields: Any, words: str) -> None:
    assert words in refusal(told, **fields)
    assert told.service.asks == []


def test_what_is_ignored_is_told(told: Told) -> None:
    cached = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}
    fields = {
        "metadata": {"user_id": "me"},
        "service_tier": "auto",
        "thinking": {"type": "enabled", "budget_tokens": 2000},
        "system": [cached],
        "colour": 3,
        "container": None,
    }
    for stream in (False, True):
        reply = told.post("/v1/messages", asked(stream=stream, **fields))
        assert reply.status_code == 200
        assert reply.headers["x-pyrite-ignored"].split(", ") == [
            "metadata", "service_tier", "thinking.budget_tokens", "system[].cache_control",
            "colour",
        ]  # fmt: skip
    assert "x-pyrite-ignored" not in told.post("/v1/messages", asked()).headers


def test_parameters_reach_the_ask(told: Told) -> None:
    whole(told, temperature=0.3, top_p=0.5, top_k=7, stop_sequences=["a", "b"], max_tokens=9)
    params = told.ask.params
    assert (params.temperature, params.top_p, params.top_k) == (0.3, 0.5, 7)
    assert (params.max_tokens, params.stop) == (9, ("a", "b"))


def test_whole_numbers_are_numbers(told: Told) -> None:
    whole(told, temperature=1, top_p=1)
    assert told.ask.params.temperature == 1.0


@pytest.mark.parametrize("schema", [{"type": "object"}, {}])
def test_a_schema_constrains_the_answer(told: Told, schema: Any) -> None:
    format = {"type": "json_schema", "schema": schema}
    whole(told, output_config={"format": format})
    assert told.ask.params.grammar == Grammar.json_schema(schema)
    whole(told, output_format=format)
    assert told.ask.params.grammar == Grammar.json_schema(schema)
    assert "output_format" in refusal(told, output_format=format, output_config={"format": format})
    whole(told)
    assert told.ask.params.grammar is None


def test_a_schema_too_large_is_refused(told: Told) -> None:
    schema = {"type": "object", "description": "x" * 2**21}
    words = refusal(told, output_config={"format": {"type": "json_schema", "schema": schema}})
    assert words.startswith("output_config.format.schema = ")


@pytest.mark.parametrize(
    ("thinking", "options"),
    [
        (None, {}),
        ({"type": "disabled"}, {"enable_thinking": False, "thinking": False}),
        ({"type": "adaptive"}, {"enable_thinking": True, "thinking": True}),
        ({"type": "enabled", "budget_tokens": 1024}, {"enable_thinking": True, "thinking": True}),
    ],
)
def test_thinking_goes_to_the_template(told: Told, thinking: Any, options: Any) -> None:
    whole(told, thinking=thinking)
    assert told.ask.template_options == options
    whole(told, output_config={"effort": "high"})
    assert told.ask.template_options == {"reasoning_effort": "high"}


@pytest.mark.parametrize(
    ("choice", "expected", "parallel"),
    [
        (None, "auto", True),
        ({"type": "auto"}, "auto", True),
        ({"type": "auto", "disable_parallel_tool_use": True}, "auto", False),
        ({"type": "any"}, "required", True),
        ({"type": "none"}, "none", True),
        ({"type": "tool", "name": "clock", "disable_parallel_tool_use": True},
         NamedTool("clock"), False),
    ],
)  # fmt: skip
def test_tools_and_their_choice(told: Told, choice: Any, expected: Any, parallel: bool) -> None:
    whole(told, tools=[WEATHER, {**CLOCK, "type": "custom"}], tool_choice=choice)
    assert told.ask.tool_choice == expected
    assert told.ask.parallel_tool_calls == parallel
    assert told.ask.tools == [
        {"type": "function",
         "function": {"name": "weather", "parameters": {"type": "object"}}},
        {"type": "function",
         "function": {"name": "clock", "description": "Tells the time.", "parameters": {}}},
    ]  # fmt: skip
    whole(told)
    assert (told.ask.tool_choice, told.ask.tools) == ("none", [])


# Conversations


def test_a_string_is_one_block(told: Told) -> None:
    text = [{"type": "text", "text": "Hi"}]
    one = conversation(told, {"role": "user", "content": "Hi"}, system="Be brief.")
    blocks = [{"type": "text", "text": "Be brief."}]
    other = conversation(told, {"role": "user", "content": text}, system=blocks)
    assert one == other == [
        {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"},
    ]  # fmt: skip


@pytest.mark.parametrize("content", [{"content": None}, {}, {"content": []}, {"content": ""}])
def test_absent_content_is_empty_and_its_message_stays(told: Told, content: Any) -> None:
    messages = conversation(
        told,
        {"role": "user", "content": "Hi"},
        {"role": "assistant", **content},
        {"role": "user", "content": "Ho"},
    )
    assert messages[1] == {"role": "assistant", "content": ""}


def test_tools_results_become_messages_of_their_own(told: Told) -> None:
    calls = [
        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "a", "name": "weather", "input": {"city": "東京"}},
        {"type": "tool_use", "id": "b", "name": "clock", "input": {}},
        {"type": "tool_use", "id": "c", "name": "clock"},
    ]
    results = [
        {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "rain"}]},
        {"type": "tool_result", "tool_use_id": "b", "content": "no clock", "is_error": True},
        {"type": "tool_result", "tool_use_id": "c"},
        {"type": "text", "text": "So?"},
    ]
    messages = conversation(
        told,
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": calls},
        {"role": "user", "content": results},
    )
    assert messages[1:] == [
        {
            "role": "assistant",
            "content": "I look.",
            "reasoning_content": "Hm.",
            "tool_calls": [
                called("a", "weather", '{"city":"東京"}'),
                called("b", "clock", "{}"),
                called("c", "clock", "{}"),
            ],
        },
        {"role": "tool", "tool_call_id": "a", "name": "weather", "content": "rain"},
        {"role": "tool", "tool_call_id": "b", "name": "clock", "content": "Error: no clock"},
        {"role": "tool", "tool_call_id": "c", "name": "clock", "content": ""},
        {"role": "user", "content": "So?"},
    ]


def called(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


def test_turns_of_one_role_are_one_turn(told: Told) -> None:
    messages = conversation(
        told,
        {"role": "user", "content": "a"},
        {"role": "user", "content": [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}]},
        {"role": "assistant", "content": "d"},
        {"role": "assistant", "content": [{"type": "text", "text": "e"}]},
        {"role": "user", "content": "f"},
    )
    assert [message["content"] for message in messages] == ["a\nb\nc", "de", "f"]


def test_a_last_message_of_the_assistant_is_continued(told: Told) -> None:
    conversation(told, {"role": "user", "content": "Hi"})
    assert not told.ask.continue_final_message
    conversation(
        told, {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "The answer is ("}
    )
    assert told.ask.continue_final_message


def test_an_answer_sent_back_is_the_answer(told: Told) -> None:
    """What was answered, sent back, must be the conversation that the cache knows."""
    pieces: list[Piece] = [Content("a "), Content("b"), CallStart(0, "t", "clock")]
    told.tell(*answer_of(*pieces, CallArguments(0, '{"x": 1}'), reason="tool_calls"))
    answer = whole(told)
    messages = conversation(
        told,
        {"role": "user", "content": "Hi"},
        {"role": answer["role"], "content": answer["content"]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t"}]},
    )
    assert messages[1]["content"] == "a b"
    assert json.loads(messages[1]["tool_calls"][0]["function"]["arguments"]) == {"x": 1}


# Counting


def test_a_count_is_of_the_same_prompt(told: Told) -> None:
    fields = {"model": "told", "system": "Be.", "messages": [{"role": "user", "content": "Hi"}]}
    reply = told.post("/v1/messages/count_tokens", fields)
    assert reply.status_code == 200
    assert reply.json() == {"input_tokens": 5}
    assert reply.headers["request-id"].startswith("req_")
    assert told.service.asks == [], "nothing is generated for a count"


def test_a_count_tells_what_it_ignores_and_refuses(told: Told) -> None:
    reply = told.post("/v1/messages/count_tokens", asked(temperature=7))
    assert reply.headers["x-pyrite-ignored"] == "max_tokens, temperature"
    reply = told.post("/v1/messages/count_tokens", asked(messages=[]))
    assert reply.status_code == 400


def test_every_field_is_documented() -> None:
    for table in (MESSAGES, COUNT):
        rows = table.rows()
        assert all(row.words for row in rows if row.fate != "used")
        assert len({row.name for row in rows}) == len(rows)


VERSION = {"anthropic-version": "2023-06-01"}


def test_models_are_listed_as_this_dialects_clients_read_them(told: Told) -> None:
    listed = told.send("GET", "/v1/models", headers=VERSION).json()
    assert [one["id"] for one in listed["data"]] == ["told", "alias"]
    assert (listed["has_more"], listed["first_id"], listed["last_id"]) == (False, "told", "alias")
    (one,) = (one for one in listed["data"] if one["id"] == "told")
    assert (one["type"], one["created_at"]) == ("model", "1970-01-01T00:00:01Z")
    assert told.send("GET", "/v1/models/told", headers=VERSION).json() == one
    missing = told.send("GET", "/v1/models/other", headers=VERSION)
    assert missing.status_code == 404
    assert missing.json()["error"]["type"] == "not_found_error"
    assert told.send("GET", "/v1/models").status_code == 404  # others' list is not in this dialect
