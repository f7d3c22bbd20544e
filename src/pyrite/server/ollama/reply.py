"""What /api/chat and /api/generate answer: the events of one ask as JSON, a line or many."""

from __future__ import annotations

import datetime
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import msgspec

from pyrite.server.ask import Ask, Ended, Event, Part
from pyrite.server.errors import status_of
from pyrite.server.http import Headers
from pyrite.server.ollama.errors import envelope
from pyrite.server.openai.chat import position_of
from pyrite.server.service import Service
from pyrite.text.answer import CallArguments, CallStart, Content, Piece, Reasoning

NDJSON = "application/x-ndjson"
NANOSECONDS = 1_000_000_000


@dataclass(slots=True)
class Words:
    """What was answered since the last line."""

    content: str = ""
    thinking: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    logprobs: list[dict[str, Any]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.content or self.thinking or self.calls or self.logprobs)


def as_message(words: Words) -> dict[str, Any]:
    """The field that /api/chat has for them."""
    message: dict[str, Any] = {"role": "assistant", "content": words.content}
    if words.thinking:
        message["thinking"] = words.thinking
    if words.calls:
        message["tool_calls"] = words.calls
    return {"message": message}


def as_response(words: Words) -> dict[str, Any]:
    """The fields that /api/generate has for them."""
    thinking = {"thinking": words.thinking} if words.thinking else {}
    return {"response": words.content, **thinking}


class Calls:
    """Tool calls, which this dialect tells whole."""

    def __init__(self) -> None:
        self._started: CallStart | None = None
        self._texts: list[str] = []

    def push(self, piece: Piece) -> list[dict[str, Any]]:
        """The call that the piece ends, if one was being written."""
        if isinstance(piece, CallArguments):
            self._texts.append(piece.text)
            return []
        ended = self.close()
        if isinstance(piece, CallStart):
            self._started = piece
        return ended

    def close(self) -> list[dict[str, Any]]:
        started, texts = self._started, self._texts
        self._started, self._texts = None, []
        if started is None:
            return []
        function = {"index": started.index, "name": started.name}
        return [{"id": started.call_id, "function": function | {"arguments": object_of(texts)}}]


def object_of(texts: Sequence[str]) -> dict[str, Any]:
    """Arguments of a call; of one that was cut off by a limit, none: done_reason says so."""
    try:
        value = msgspec.json.decode("".join(texts) or "{}")
    except msgspec.DecodeError:
        return {}
    return value if isinstance(value, dict) else {}


@dataclass(slots=True)
class AnswerReply:
    """`shape` puts words into the fields of one of the two."""

    service: Service
    ask: Ask
    tenant: str
    model: str  # as the client calls it
    streams: bool
    shape: Callable[[Words], dict[str, Any]]
    headers: Headers = ()
    media_type: str = "application/json"
    calls: Calls = field(default_factory=Calls)
    began: float = field(default_factory=time.perf_counter)
    keep_alive: bytes = b""  # clients read every line as JSON

    def __post_init__(self) -> None:
        if self.streams:
            self.media_type = NDJSON

    def failure(self, error: BaseException) -> bytes:
        return envelope(error, status_of(error)) + b"\n"

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        async with aclosing(self.service.answer([self.ask], self.tenant)) as events:
            if self.streams:
                async for line in self._lines(events):
                    yield line
            else:
                yield await self._whole(events)

    async def _lines(self, events: AsyncGenerator[Event, None]) -> AsyncGenerator[bytes, None]:
        async for happened in events:
            words = Words()
            if isinstance(happened, Part):
                self._add(words, happened)
            elif isinstance(happened, Ended):
                words.calls = self.calls.close()
            if words:
                yield self._line({"done": False}, words)
            if isinstance(happened, Ended):
                yield self._line(self._end(happened), Words())

    async def _whole(self, events: AsyncGenerator[Event, None]) -> bytes:
        words = Words()
        ended: Ended | None = None
        async for happened in events:
            if isinstance(happened, Part):
                self._add(words, happened)
            elif isinstance(happened, Ended):
                ended = happened
        assert ended is not None, "an ask that did not end"
        words.calls += self.calls.close()
        return self._line(self._end(ended), words)

    def _add(self, words: Words, part: Part) -> None:
        for piece in part.pieces:
            words.calls += self.calls.push(piece)
            if isinstance(piece, Content):
                words.content += piece.text
            elif isinstance(piece, Reasoning):
                words.thinking += piece.text
        if self.ask.params.logprobs is not None:
            tokenizer = self.service.prompts.tokenizer
            words.logprobs += [position_of(entry, tokenizer) for entry in part.logprobs]

    def _end(self, ended: Ended) -> dict[str, Any]:
        return {
            "done": True,
            "done_reason": "length" if ended.reason == "length" else "stop",
            "total_duration": nanoseconds(time.perf_counter() - self.began),
            "load_duration": 0,
            "prompt_eval_count": ended.usage.prompt_tokens,
            "prompt_eval_duration": nanoseconds(ended.timings.prompt_seconds),
            "eval_count": ended.usage.completion_tokens,
            "eval_duration": nanoseconds(ended.timings.decode_seconds),
        }

    def _line(self, state: dict[str, Any], words: Words) -> bytes:
        line = {"model": self.model, "created_at": now(), **self.shape(words), **state}
        if words.logprobs:
            line["logprobs"] = words.logprobs
        return msgspec.json.encode(line) + b"\n"


def nanoseconds(seconds: float) -> int:
    return round(seconds * NANOSECONDS)


def now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat().replace("+00:00", "Z")


def loaded(model: str, words: dict[str, Any]) -> dict[str, Any]:
    """The answer to nothing: the model is here, and stays."""
    return {"model": model, "created_at": now(), **words, "done": True, "done_reason": "load"}
