"""Chat completions and completions over the scripted model: shapes, streams, choices, errors."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from tests.patience import PATIENCE
from tests.server.harness import Served, events_of

CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "tin"}], "temperature": 0}


def chat(served: Served, **fields: Any) -> dict[str, Any]:
    with served.client() as client:
        reply = client.post("/v1/chat/completions", json={**CHAT, **fields})
    assert reply.status_code == 200, reply.text
    return reply.json()  # type: ignore[no-any-return]


def streamed(served: Served, path: str = "/v1/chat/completions", **fields: Any) -> list[Any]:
    with served.client() as client:
        reply = client.post(path, json={**CHAT, **fields, "stream": True})
    assert reply.status_code == 200, reply.text
    datas = events_of(reply.text)
    assert datas[-1] == "[DONE]"
    assert datas.count("[DONE]") == 1
    return [json.loads(data) for data in datas[:-1]]


def test_a_stream_joined_is_the_whole_answer(scripted: Served) -> None:
    whole = chat(scripted, max_tokens=20)
    chunks = streamed(scripted, max_tokens=20)
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    text = "".join(delta.get("content") or "" for delta in deltas)
    assert text == whole["choices"][0]["message"]["content"] != ""
    assert deltas[0]["role"] == "assistant"


@pytest.mark.parametrize("n", [1, 3])
def test_each_choice_ends_once_with_an_empty_delta(scripted: Served, n: int) -> None:
    chunks = streamed(scripted, n=n, max_tokens=5, temperature=1, seed=7)
    choices = [chunk["choices"][0] for chunk in chunks]
    ends = [choice for choice in choices if choice["finish_reason"]]
    assert sorted(choice["index"] for choice in ends) == list(range(n))
    assert all(choice["delta"] == {} for choice in ends)
    texts = {
        number: "".join(
            choice["delta"].get("content") or "" for choice in choices if choice["index"] == number
        )
        for number in range(n)
    }
    assert len(set(texts.values())) == n, "choices with one seed must differ"


@pytest.mark.parametrize("options", [None, {"include_usage": False}, {"include_usage": True}])
def test_usage_comes_last_and_only_when_asked_for(scripted: Served, options: Any) -> None:
    chunks = streamed(scripted, max_tokens=3, stream_options=options)
    asked = bool(options and options["include_usage"])
    assert [bool(chunk.get("usage")) for chunk in chunks] == [False] * (len(chunks) - 1) + [asked]
    assert all("choices" in chunk for chunk in chunks)
    if asked:
        assert chunks[-1]["choices"] == []
        assert chunks[-1]["usage"]["completion_tokens"] == 3


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"n": 0}, "n"),
        ({"n": 129}, "n"),
        ({"n": "5"}, "n"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 2**63}, "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"temperature": 3}, "temperature"),
        ({"temperature": -1}, "temperature"),
        ({"top_logprobs": 21, "logprobs": True}, "top_logprobs"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"logit_bias": {"260": 1}}, "logit_bias"),
        ({"logit_bias": {"abc": 1}}, "logit_bias"),
        ({"stop_token_ids": [-1]}, "stop_token_ids"),
        ({"messages": []}, "messages"),
        ({"messages": None}, "messages"),
        ({"tool_choice": 5}, "tool_choice"),
        ({"chat_template_kwargs": {"tokenize": True}}, "chat_template_kwargs"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_a_field_out_of_bounds_is_named(
    scripted: Served, fields: dict[str, Any], name: str, stream: bool
) -> None:
    with scripted.client() as client:
        reply = client.post("/v1/chat/completions", json={**CHAT, "stream": stream, **fields})
    assert reply.status_code == 400, reply.text
    error = reply.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert error["param"] == name


def test_the_context_is_a_clear_limit(scripted: Served) -> None:
    with scripted.client() as client:
        reply = client.post("/v1/completions", json={"prompt": "a" * 512, "stream": True})
        assert reply.status_code == 400
        assert reply.json()["error"]["code"] == "context_length_exceeded"
        assert "512" in reply.json()["error"]["message"]
        body = {"prompt": "a" * 510, "max_tokens": 100, "temperature": 0}
        reply = client.post("/v1/completions", json=body)
    assert reply.json()["choices"][0]["finish_reason"] == "length"
    assert reply.json()["usage"]["completion_tokens"] == 2


HUGE = 10**30


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/v1/completions", {"prompt": [HUGE]}),
        ("/v1/completions", {"prompt": "tin", "priority": -HUGE}),
        ("/v1/embeddings", {"input": [HUGE]}),
        ("/v1/embeddings", {"input": "tin", "dimensions": HUGE}),
    ],
)
def test_a_number_beyond_64_bits_hurts_nobody(
    scripted: Served, path: str, fields: dict[str, Any]
) -> None:
    """Neither its own request, nor those that were asked at the same moment."""

    async def ask() -> list[httpx.Response]:
        async with httpx.AsyncClient(base_url=scripted.url, timeout=PATIENCE) as client:
            good = {"prompt": "tin", "max_tokens": 2}
            bodies = [("/v1/completions", good), (path, fields), ("/v1/completions", good)]
            return await asyncio.gather(*(client.post(to, json=body) for to, body in bodies))

    assert [reply.status_code for reply in asyncio.run(ask())] == [200, 400, 200]


@pytest.mark.parametrize("prompt", ["", [], [""], [[]], None])
def test_an_empty_prompt_is_refused(scripted: Served, prompt: Any) -> None:
    with scripted.client() as client:
        reply = client.post("/v1/completions", json={"prompt": prompt})
    assert reply.status_code == 400
    assert reply.json()["error"]["param"] == "prompt"


def test_prompts_and_choices_are_numbered_through(scripted: Served) -> None:
    body = {"prompt": ["tin", "lead"], "n": 2, "max_tokens": 4, "temperature": 1, "seed": 3}
    with scripted.client() as client:
        reply = client.post("/v1/completions", json=body).json()
        alone = client.post("/v1/completions", json={**body, "prompt": "lead"}).json()
    texts = [choice["text"] for choice in reply["choices"]]
    assert [choice["index"] for choice in reply["choices"]] == [0, 1, 2, 3]
    assert texts[2:] == [choice["text"] for choice in alone["choices"]]
    assert reply["usage"]["prompt_tokens"] == 7
    assert reply["usage"]["completion_tokens"] == 16


def test_best_of_gives_the_likeliest(scripted: Served) -> None:
    body = {"prompt": "tin", "max_tokens": 4, "temperature": 1, "seed": 5, "logprobs": 0}
    with scripted.client() as client:
        every = client.post("/v1/completions", json={**body, "n": 6}).json()["choices"]
        best = client.post("/v1/completions", json={**body, "n": 2, "best_of": 6}).json()["choices"]
    ranked = sorted(every, key=lambda choice: -sum(choice["logprobs"]["token_logprobs"]))
    assert [choice["text"] for choice in best] == [choice["text"] for choice in ranked[:2]]


def test_a_client_that_goes_away_is_cancelled(scripted: Served) -> None:
    body = {**CHAT, "ignore_eos": True, "stream": True}
    with scripted.client() as client:
        with client.stream("POST", "/v1/chat/completions", json=body) as reply:
            next(reply.iter_lines())
        scripted.wait_idle()


def test_health_and_models(scripted: Served) -> None:
    with scripted.client() as client:
        assert client.get("/livez").status_code == 200
        assert client.get("/readyz").status_code == 200
        names = [model["id"] for model in client.get("/v1/models").json()["data"]]
        assert names == ["scripted", "alias"]
        wrong = client.post("/v1/chat/completions", json={**CHAT, "model": "other"})
        assert wrong.status_code == 404
        assert wrong.json()["error"]["code"] == "model_not_found"
        assert client.post("/v1/chat/completions", json={**CHAT, "model": "alias"}).is_success
