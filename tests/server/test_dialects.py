"""What must hold in every dialect: no value of a field is a server's error, and one prompt has one
answer whoever translates it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from tests.server.harness import Served
from tests.server.told import EVERYTHING, ToldService, answer_of

from pyrite.server import anthropic, ollama, openai
from pyrite.server.fields import Fields
from pyrite.server.ollama import types as ollama_types
from pyrite.server.openai import chat, completions
from pyrite.server.openai.responses.types import RESPONSES

HELLO = [{"role": "user", "content": "Hi"}]
TOOL = {"name": "f", "description": "d", "input_schema": {}, "strict": True}
FUNCTION = {"type": "function", "function": {"name": "f", "parameters": {}}}

# Requests with every kind of object that a dialect knows, whose places are then filled with junk.
FULL: dict[str, dict[str, Any]] = {
    "/v1/messages": {
        "model": "told",
        "max_tokens": 5,
        "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "a"}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "t", "signature": "s"},
                    {"type": "redacted_thinking", "data": "d"},
                    {"type": "tool_use", "id": "i", "name": "f", "input": {"a": [1]}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "i",
                        "content": [{"type": "text", "text": "r"}],
                        "is_error": False,
                    }
                ],
            },
        ],
        "tools": [TOOL],
        "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": True},
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {}}},
        "stop_sequences": ["x"],
        "stream": False,
        "temperature": 1,
        "top_k": 3,
        "top_p": 0.5,
        "metadata": {"user_id": "u"},
    },
    "/v1/responses": {
        "model": "told",
        "input": [
            {"role": "developer", "content": "d"},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}]},
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "r"}]},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "o"},
        ],
        "instructions": "i",
        "tools": [{"type": "function", "name": "f", "parameters": {}, "strict": True}],
        "tool_choice": {
            "type": "allowed_tools",
            "mode": "auto",
            "tools": [{"type": "function", "name": "f"}],
        },
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {}}},
        "reasoning": {"effort": "low", "summary": "auto"},
        "include": ["message.output_text.logprobs"],
        "top_logprobs": 1,
        "max_output_tokens": 5,
        "metadata": {"a": "b"},
        "stream": False,
        "parallel_tool_calls": True,
    },
    "/api/chat": {
        "model": "told",
        "messages": [
            {"role": "user", "content": "a", "images": []},
            {
                "role": "assistant",
                "thinking": "t",
                "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}],
            },
            {"role": "tool", "tool_name": "f", "content": "r"},
        ],
        "tools": [FUNCTION],
        "format": {"type": "object"},
        "options": {"num_predict": 5, "temperature": 1, "stop": ["x"], "num_ctx": 8},
        "think": True,
        "keep_alive": "5m",
        "stream": False,
    },
    "/api/generate": {"model": "told", "prompt": "p", "system": "s", "options": {}, "raw": False},
    "/api/embed": {"model": "told", "input": ["a"], "dimensions": 2},
    "/api/show": {"model": "other"},
}
JUNK = [None, True, 0, -1, 1.5, 1e300, 2**70, "", "x", "\ud800", [], [1], [[]], [{}], {}, {"a": 1}]
TABLES: dict[str, Fields] = {
    "/v1/messages": anthropic.types.MESSAGES,
    "/v1/responses": RESPONSES,
    "/api/chat": ollama_types.CHAT,
    "/api/generate": ollama_types.GENERATE,
    "/api/embed": ollama_types.EMBED,
    "/api/show": ollama_types.SHOW,
}


def spoilt(value: Any) -> Iterator[Any]:
    """The value with junk in each of its places, one at a time; and without each of its fields."""
    yield from JUNK
    if isinstance(value, dict):
        for key, item in value.items():
            yield {name: other for name, other in value.items() if name != key}
            for bad in spoilt(item):
                yield {**value, key: bad}
    elif isinstance(value, list):
        for index, item in enumerate(value):
            for bad in spoilt(item):
                yield [*value[:index], bad, *value[index + 1 :]]


def statuses(path: str, bodies: Sequence[Any]) -> list[tuple[int, str]]:
    service = ToldService(answer_of(*EVERYTHING, reason="tool_calls"))
    routes = [route for dialect in (openai, anthropic, ollama) for route in dialect.routes(service)]  # type: ignore[arg-type]

    async def send() -> list[tuple[int, str]]:
        transport = httpx.ASGITransport(Starlette(routes=routes))
        found = []
        async with httpx.AsyncClient(transport=transport, base_url="http://told") as client:
            for body in bodies:
                reply = await client.post(path, content=json.dumps(body).encode())
                found.append((reply.status_code, reply.text))
        return found

    return asyncio.run(send())


@pytest.mark.parametrize("path", FULL)
def test_no_value_of_a_field_is_the_servers_fault(path: str) -> None:
    full = FULL[path]
    ((status, text),) = statuses(path, [full])
    assert status == 200 or path == "/api/show", text
    others = [{**full, name: junk} for name in names(TABLES[path]) for junk in JUNK]
    bodies = [*spoilt(full), *others]
    for body, (status, text) in zip(bodies, statuses(path, bodies), strict=True):
        assert status in (200, 400, 404), (body, text)
        assert "bug" not in text


def names(table: Fields) -> list[str]:
    """Fields at the top of a request."""
    return [row.name for row in table.rows() if "." not in row.name]


@pytest.mark.parametrize("table", [*TABLES.values(), chat.FIELDS, completions.FIELDS])
def test_a_used_field_is_not_listed_and_an_ignored_one_is(table: Fields) -> None:
    for row in table.rows():
        if row.fate == "ignored" and "." not in row.name:
            assert table.check({row.name: {"a": 1}}) == (row.name,)


def test_one_prompt_has_one_answer_in_every_dialect(scripted: Served) -> None:
    asked = {"model": "scripted", "stream": False, "temperature": 0}
    hi = [{"role": "user", "content": "tin"}]
    options = {"temperature": 0, "num_predict": 9, "top_k": 0, "top_p": 1}
    with scripted.client() as client:

        def post(path: str, **fields: Any) -> Any:
            reply = client.post(path, json={**asked, **fields})
            assert reply.status_code == 200, reply.text
            return reply.json()

        chatted = post("/v1/chat/completions", messages=hi, max_tokens=9)
        messaged = post("/v1/messages", messages=hi, max_tokens=9)
        responded = post("/v1/responses", input="tin", max_output_tokens=9)
        ollamaed = post("/api/chat", messages=hi, options=options)
        generated = post("/api/generate", prompt="tin", options=options)
        counted = post("/v1/messages/count_tokens", messages=hi)
    text = chatted["choices"][0]["message"]["content"]
    assert text
    assert messaged["content"] == [{"type": "text", "text": text}]
    assert responded["output"][0]["content"][0]["text"] == text
    assert ollamaed["message"]["content"] == generated["response"] == text
    count = chatted["usage"]["prompt_tokens"]
    usage = messaged["usage"]
    assert usage["input_tokens"] + usage["cache_read_input_tokens"] == count
    assert responded["usage"]["input_tokens"] == count
    assert ollamaed["prompt_eval_count"] == generated["prompt_eval_count"] == count
    assert counted["input_tokens"] == count
    reasons = (messaged["stop_reason"], responded["status"], ollamaed["done_reason"])
    assert reasons == ("max_tokens", "incomplete", "length")
