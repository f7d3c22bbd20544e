"""Structured output over HTTP: every spelling constrains, and what cannot is a 400."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from tests.server.harness import Served, events_of

SCHEMA = {
    "type": "object",
    "properties": {"metal": {"enum": ["tin", "lead"]}, "count": {"type": "integer"}},
    "required": ["metal", "count"],
    "additionalProperties": False,
}
CHAT: dict[str, Any] = {
    "messages": [{"role": "user", "content": "tin"}],
    "max_tokens": 200,
    "temperature": 0,
}


@pytest.mark.parametrize(
    "fields",
    [
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "m", "schema": SCHEMA},
            }
        },
        {"structured_outputs": {"json": SCHEMA}},
        {"guided_json": SCHEMA},
        {"json_schema": SCHEMA},
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_a_schema_is_held(scripted: Served, fields: dict[str, Any], stream: bool) -> None:
    with scripted.client() as client:
        reply = client.post("/v1/chat/completions", json={**CHAT, **fields, "stream": stream})
    assert reply.status_code == 200, reply.text
    if stream:
        chunks = [json.loads(data) for data in events_of(reply.text)[:-1]]
        text = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks)
        reason = chunks[-1]["choices"][0]["finish_reason"]
    else:
        text = reply.json()["choices"][0]["message"]["content"]
        reason = reply.json()["choices"][0]["finish_reason"]
    if reason == "stop":
        value = json.loads(text)
        assert value["metal"] in ("tin", "lead")
        assert isinstance(value["count"], int)
    else:  # a number may go on for ever
        assert re.match(r'\{"metal":\s*"(tin|lead)",\s*"count":\s*-?\d', text)


def test_a_choice_and_a_pattern(scripted: Served) -> None:
    with scripted.client() as client:
        body = {**CHAT, "guided_choice": ["zinc", "lead"]}
        text = client.post("/v1/chat/completions", json=body).json()["choices"][0]["message"]
        assert text["content"] in ("zinc", "lead")
        done = client.post("/v1/completions", json={"prompt": "tin", "guided_regex": "[0-9]{3}"})
    assert re.fullmatch("[0-9]{3}", done.json()["choices"][0]["text"])


@pytest.mark.parametrize(
    "fields",
    [
        {"response_format": {"type": "xml"}},
        {"response_format": {"type": "json_schema"}},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}},
        {"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "tin"}}}},
        {"response_format": {"type": "json_schema", "json_schema": {"schema": 3}}},
        {"guided_regex": "["},
        {"guided_regex": "(?<=x)y"},
        {"guided_grammar": "start: nothing"},
        {"guided_choice": []},
        {"grammar": 'root ::= "x"'},
        {"guided_json": SCHEMA, "guided_regex": "x"},
        {"structured_outputs": {"json": SCHEMA, "regex": "x"}},
        {"guided_json": {"$ref": "https://elsewhere.example/schema.json"}},
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_what_cannot_be_held_is_refused(
    scripted: Served, fields: dict[str, Any], stream: bool
) -> None:
    with scripted.client() as client:
        reply = client.post("/v1/chat/completions", json={**CHAT, **fields, "stream": stream})
        canary = client.post("/v1/chat/completions", json={**CHAT, "max_tokens": 2})
    assert reply.status_code == 400, reply.text
    assert reply.json()["error"]["message"]
    assert canary.status_code == 200
