"""Tool calls over HTTP: free, forced, named, parallel, streamed; with a schema and with none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.engine.scripted import EOS, VOCABULARY, History, hashed
from tests.server.harness import Served, events_of, scripted_server

WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city"],
        },
    },
}
CLOCK = {"type": "function", "function": {"name": "clock", "parameters": {"type": "object"}}}
CHAT: dict[str, Any] = {
    "messages": [{"role": "user", "content": "tin"}],
    "temperature": 0,
    "tools": [WEATHER, CLOCK],
}
TWO_CALLS = (
    'Of course.\n<tool_call>\n{"name": "weather", "arguments": {"city": "Mün\\"chen ☂"}}\n'
    '</tool_call>\n<tool_call>\n{"name": "clock", "arguments": {}}\n</tool_call>'
)


class Speaker:
    """Answers any prompt with one text, then ends."""

    def __init__(self) -> None:
        self.answer = b""
        self.prompt: History = ()

    def say(self, text: str) -> None:
        self.answer, self.prompt = text.encode(), ()

    def __call__(self, history: History) -> NDArray[np.float32]:
        if not self.prompt or history[: len(self.prompt)] != self.prompt:
            self.prompt = history
        logits = np.zeros(VOCABULARY, np.float32)
        done = len(history) - len(self.prompt)
        logits[self.answer[done] if done < len(self.answer) else EOS] = 50
        return logits


@pytest.fixture(scope="module")
def speaker() -> Speaker:
    return Speaker()


@pytest.fixture(scope="module")
def spoken(speaker: Speaker) -> Iterator[Served]:
    with scripted_server(speaker, context=4096, num_pages=256) as served:
        yield served


def whole(served: Served, **fields: Any) -> dict[str, Any]:
    with served.client() as client:
        reply = client.post("/v1/chat/completions", json={**CHAT, **fields})
    assert reply.status_code == 200, reply.text
    choice: dict[str, Any] = reply.json()["choices"][0]
    return choice


def test_two_calls_whole_and_streamed(spoken: Served, speaker: Speaker) -> None:
    speaker.say(TWO_CALLS)
    choice = whole(spoken)
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] == "Of course."
    calls = choice["message"]["tool_calls"]
    assert [call["function"]["name"] for call in calls] == ["weather", "clock"]
    assert json.loads(calls[0]["function"]["arguments"]) == {"city": 'Mün"chen ☂'}
    assert json.loads(calls[1]["function"]["arguments"]) == {}
    assert calls[0]["id"] != calls[1]["id"]

    speaker.say(TWO_CALLS)
    with spoken.client() as client:
        reply = client.post("/v1/chat/completions", json={**CHAT, "stream": True})
    chunks = [json.loads(data)["choices"][0] for data in events_of(reply.text)[:-1]]
    assert chunks[-1]["finish_reason"] == "tool_calls"
    assert chunks[-1]["delta"] == {}
    text = "".join(chunk["delta"].get("content") or "" for chunk in chunks)
    assert text == "Of course."
    deltas = [one for chunk in chunks for one in chunk["delta"].get("tool_calls", ())]
    for index, name in enumerate(("weather", "clock")):
        first, *rest = [one for one in deltas if one["index"] == index]
        assert first["id"]
        assert first["type"] == "function"
        assert first["function"] == {"name": name, "arguments": ""}
        assert all(set(one) == {"index", "function"} for one in rest)
        joined = "".join(one["function"]["arguments"] for one in rest)
        assert joined == calls[index]["function"]["arguments"]


def test_none_calls_nothing(spoken: Served, speaker: Speaker) -> None:
    speaker.say(TWO_CALLS)
    choice = whole(spoken, tool_choice="none")
    assert "tool_calls" not in choice["message"]
    assert choice["message"]["content"] == TWO_CALLS
    assert choice["finish_reason"] == "stop"
    speaker.say("tin")
    assert whole(spoken, tools=None, tool_choice="none")["message"]["content"] == "tin"


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        ("required", {"weather", "clock"}),
        ({"type": "function", "function": {"name": "clock"}}, {"clock"}),
        ({"type": "function", "function": {"name": "weather"}}, {"weather"}),
    ],
)
def test_a_forced_call_is_made_and_valid(choice: Any, names: set[str]) -> None:
    """The model would rather say anything else."""

    def talkative(history: History) -> NDArray[np.float32]:
        logits = hashed(history)
        logits[[34, 125]] += 25  # it ends strings and objects where it may
        return logits

    with scripted_server(talkative, context=4096, num_pages=256) as served:
        made = whole(served, tool_choice=choice, parallel_tool_calls=False, max_tokens=500)
    (call,) = made["message"]["tool_calls"]
    assert made["finish_reason"] == "tool_calls"
    assert call["function"]["name"] in names
    arguments = json.loads(call["function"]["arguments"])
    if call["function"]["name"] == "weather":
        assert isinstance(arguments["city"], str)


@pytest.mark.parametrize(
    "fields",
    [
        {"tool_choice": {"type": "function", "function": {"name": "unknown"}}},
        {"tool_choice": "required", "tools": []},
        {"tool_choice": "maybe"},
        {"tools": [{"type": "function"}]},
        {"tools": [{"type": "function", "function": {"name": "a b"}}]},
        {"tools": [CLOCK, CLOCK]},
        {"tools": [{"type": "function", "function": {"name": "x", "parameters": {"type": 3}}}]},
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_tools_that_cannot_be(spoken: Served, fields: dict[str, Any], stream: bool) -> None:
    with spoken.client() as client:
        reply = client.post("/v1/chat/completions", json={**CHAT, **fields, "stream": stream})
    assert reply.status_code == 400, reply.text
    assert reply.json()["error"]["message"]


def test_a_history_with_calls_is_taken(spoken: Served, speaker: Speaker) -> None:
    speaker.say("It rains.")
    call = {"id": "c", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    for content in ({"content": None}, {"content": ""}, {}):
        history = [
            {"role": "user", "content": "tin"},
            {"role": "assistant", "tool_calls": [call], **content},
            {"role": "tool", "tool_call_id": "c", "content": "rain"},
        ]
        assert whole(spoken, messages=history)["message"]["content"] == "It rains."
    empty = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b", "tool_calls": []},
    ]
    assert whole(spoken, messages=[*empty, {"role": "user", "content": "c"}], tools=None)


def allowed(*names: str, mode: str = "required") -> dict[str, Any]:
    tools = [{"type": "function", "function": {"name": name}} for name in names]
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}


def test_tools_that_are_allowed(scripted: Served) -> None:
    with scripted.client() as client:
        body = {**CHAT, "max_tokens": 200, "parallel_tool_calls": False}
        reply = client.post("/v1/chat/completions", json={**body, "tool_choice": allowed("clock")})
        assert reply.status_code == 200, reply.text
        calls = reply.json()["choices"][0]["message"]["tool_calls"]
        assert {call["function"]["name"] for call in calls} == {"clock"}
        none = client.post("/v1/chat/completions", json={**body, "tool_choice": allowed()})
        assert none.json()["choices"][0]["message"].get("tool_calls") is None


@pytest.mark.parametrize(
    ("choice", "param"),
    [
        (allowed("nobody"), "tool_choice.allowed_tools.tools[0].function.name"),
        (allowed("clock", mode="none"), "tool_choice.allowed_tools"),
        ({"type": "allowed_tools"}, "tool_choice.allowed_tools"),
        ({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [1]}}, None),
    ],
)
def test_tools_that_cannot_be_allowed(scripted: Served, choice: Any, param: str | None) -> None:
    with scripted.client() as client:
        reply = client.post("/v1/chat/completions", json={**CHAT, "tool_choice": choice})
    assert reply.status_code == 400
    assert param is None or reply.json()["error"]["param"] == param
