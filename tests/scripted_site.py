"""A server that speaks OpenAI's streams from a script: what it sends, in which pieces, and when."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

# What a reply is made of: bytes to send, seconds to wait; it ends by closing the connection.
Step = bytes | float
Script = Callable[[dict[str, Any]], Iterable[Step]]  # of the request's body


class Cut(float):
    """After so many seconds the connection is reset."""


def event(value: object) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def chunk(text: str, **delta: object) -> bytes:
    return event({"choices": [{"index": 0, "delta": {"content": text, **delta}}]})


def usage(prompt: int, completion: int, cached: int = 0) -> bytes:
    counts = {"prompt_tokens": prompt, "completion_tokens": completion}
    return event(
        {"choices": [], "usage": {**counts, "prompt_tokens_details": {"cached_tokens": cached}}}
    )


DONE = b"data: [DONE]\n\n"
ROLE = event({"choices": [{"delta": {"role": "assistant", "content": ""}}]})
END = event({"choices": [{"delta": {}, "finish_reason": "length"}]})
STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)


def chunked(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def stream(*parts: Step) -> list[Step]:
    """A whole streamed reply, one chunk of HTTP a part."""
    body = [chunked(part) if isinstance(part, bytes) else part for part in parts]
    return [STREAM_HEAD, *body, b"0\r\n\r\n"]


def whole(body: object, status: int = 200) -> list[Step]:
    data = json.dumps(body).encode()
    return [b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n" % (status, len(data)) + data]


def torn(steps: Iterable[Step], size: int) -> list[Step]:
    """The same bytes in pieces of `size`, each on its way before the next is written."""
    data = b"".join(step for step in steps if isinstance(step, bytes))
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    return [step for piece in pieces for step in (piece, 0.0)]


def counting(body: dict[str, Any]) -> int:
    """Tokens of a prompt: words, and eight around each message; "time" is two tokens."""
    texts = [message["content"] for message in body.get("messages", ())] or [body["prompt"]]
    words = " ".join(texts).split()
    return len(words) + words.count("time") + 8 * len(texts)


@asynccontextmanager
async def scripted_site(script: Script) -> AsyncIterator[str]:
    """Gives the URL. Requests with stream go to the script, others are answered by `counting`."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while body := await read_request(reader):
            for step in script(body) if body.get("stream") else whole(counted(body)):
                if isinstance(step, bytes):
                    writer.write(step)
                    await writer.drain()
                    continue
                await asyncio.sleep(step)
                if isinstance(step, Cut):
                    writer.transport.abort()
                    return
        writer.close()

    async def guarded(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await answer(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            writer.transport.abort()

    server = await asyncio.start_server(guarded, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    finally:
        server.close()


def counted(body: dict[str, Any]) -> dict[str, Any]:
    if "model" not in body:
        return {"data": [{"id": "scripted"}]}
    return {"usage": {"prompt_tokens": counting(body), "completion_tokens": 1}}


async def read_request(reader: asyncio.StreamReader) -> dict[str, Any]:
    """Empty when the client has gone."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        if "content-length: " not in head:
            return {"path": head.split()[1]}
        length = int(head.split("content-length: ")[1].split("\r\n")[0])
        return dict(json.loads(await reader.readexactly(length)))
    except asyncio.IncompleteReadError:
        return {}
