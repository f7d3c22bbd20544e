"""What the clients of a soak ask: each kind sends one request and judges the reply.

A kind gives None, or a fault in words. Knows no server but by its address.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyrite.cli.load.answer import Answer
from pyrite.cli.load.http import Address, Connection, encode_request, open_connection
from pyrite.cli.load.prompts import WORDS
from pyrite.cli.load.single import Whole

SHARED = " ".join(WORDS[:150])  # a system message that many have in common
SCHEMA = {
    "type": "object",
    "properties": {
        "colour": {"enum": ["red", "green", "blue"]},
        "size": {"type": "integer", "minimum": 1, "maximum": 99},
        "note": {"type": "string", "maxLength": 12},
    },
    "required": ["colour", "size", "note"],
    "additionalProperties": False,
}


@dataclass
class Client:
    """One of many. `seconds` are those of plain streams, for the drift of latency."""

    address: Address
    dice: random.Random
    models: tuple[str, ...] = ("soak",)  # of which each request asks for one
    connection: Connection | None = None
    seconds: list[tuple[float, float]] = field(default_factory=list)  # (when, how long)

    async def post(self, path: str, body: object, sink: Any) -> int:
        """Asks on the kept connection; a fault closes it."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        if self.connection is None or not self.connection.is_open:
            self.connection = await open_connection(self.address)
        return await self.connection.exchange(encode_request(self.address, path, data, {}), sink)

    def words(self, count: int) -> str:
        return " ".join(self.dice.choices(WORDS, k=count))

    def chat(self, *, tokens: int, shared: bool = False, **more: Any) -> dict[str, Any]:
        system = [{"role": "system", "content": SHARED}] if shared else []
        question = {"role": "user", "content": self.words(self.dice.randint(3, 60))}
        return {
            "model": self.dice.choice(self.models),
            "messages": [*system, question],
            "max_tokens": tokens,
            "temperature": self.dice.choice([0, 0.8]),
            **more,
        }


Kind = Callable[[Client], Awaitable[str | None]]


async def plain(client: Client, *, shared: bool = False) -> str | None:
    """A stream that is read to its end. All of one length, so that their seconds compare."""
    answer = Answer()
    answer.sent = time.perf_counter()
    options = {"stream": True, "stream_options": {"include_usage": True}, "ignore_eos": True}
    await client.post(
        "/v1/chat/completions", client.chat(tokens=16, shared=shared, **options), answer
    )
    answer.finish(time.perf_counter())
    if answer.fault is not None:
        return f"{answer.fault}: {answer.message}"
    client.seconds.append((answer.sent, answer.seconds))
    return None if answer.tokens == 16 else f"{answer.tokens} tokens instead of 16"


async def shared(client: Client) -> str | None:
    return await plain(client, shared=True)


async def slow(client: Client) -> str | None:
    """Reads nothing for a while in the middle of a stream."""
    answer = Answer()
    body = client.chat(tokens=24, stream=True)
    asked = asyncio.ensure_future(client.post("/v1/chat/completions", body, answer))
    await asyncio.wait([asked], timeout=client.dice.random())
    if not asked.done() and client.connection is not None and client.connection.is_open:
        client.connection.pause()
        await asyncio.sleep(client.dice.uniform(0.5, 2))
        client.connection.resume()
    await asked
    answer.finish(time.perf_counter())
    return None if answer.fault in (None, "empty") else f"{answer.fault}: {answer.message}"


async def leaving(client: Client) -> str | None:
    """Goes away before the answer, or in the midst of it."""
    body = client.chat(tokens=200, stream=client.dice.random() < 0.7, ignore_eos=True)
    asked = asyncio.ensure_future(client.post("/v1/chat/completions", body, Whole()))
    await asyncio.wait([asked], timeout=client.dice.choice([0.0, 0.01, 0.2, 1.0]))
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)
    return None


async def logprobs(client: Client) -> str | None:
    body = client.chat(tokens=6, logprobs=True, top_logprobs=5, ignore_eos=True)
    found = await whole(client, "/v1/chat/completions", body)
    if isinstance(found, str):
        return found
    places = found["choices"][0]["logprobs"]["content"]
    wrong = [place for place in places if len(place["top_logprobs"]) != 5]
    return f"top_logprobs of other lengths: {wrong}" if wrong or not places else None


async def grammar(client: Client) -> str | None:
    schema = {"name": "thing", "schema": SCHEMA, "strict": True}
    form = {"type": "json_schema", "json_schema": schema}
    found = await whole(
        client, "/v1/chat/completions", client.chat(tokens=80, response_format=form)
    )
    if isinstance(found, str):
        return found
    choice = found["choices"][0]
    if choice["finish_reason"] == "length":
        return None
    value = json.loads(choice["message"]["content"])
    return None if value.keys() == SCHEMA["properties"].keys() else f"not by the schema: {value}"  # type: ignore[attr-defined]


async def messages(client: Client) -> str | None:
    """Anthropic's dialect."""
    body = client.chat(tokens=8)
    body["messages"] = body["messages"][-1:]
    found = await whole(client, "/v1/messages", body)
    return found if isinstance(found, str) else None


async def wrong(client: Client) -> str | None:
    """What must be refused, with 4xx and words."""
    good = client.chat(tokens=4)
    body, status = client.dice.choice(
        [
            (b"{", 400),
            (good | {"temperature": 9}, 400),
            (good | {"messages": []}, 400),
            (good | {"n": 4096}, 400),
            (good | {"messages": [{"role": "user", "content": "so " * 9000}]}, 400),
            (
                good | {"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}},
                400,
            ),
        ]
    )
    reply = Whole()
    await client.post("/v1/chat/completions", body, reply)
    if reply.status == status and b'"error"' in reply.body:
        return None
    return f"status {reply.status} instead of {status}: {reply.body[:200]!r}"


async def whole(client: Client, path: str, body: Mapping[str, Any]) -> Any:
    """The parsed reply, or a fault."""
    reply = Whole()
    await client.post(path, body, reply)
    if reply.status != 200:
        return f"status {reply.status}: {reply.body[:200]!r}"
    return json.loads(reply.body)


# Kind: how many of a hundred.
KINDS: dict[Kind, int] = {
    plain: 25,
    shared: 20,
    leaving: 20,
    logprobs: 10,
    grammar: 10,
    slow: 5,
    messages: 5,
    wrong: 5,
}
