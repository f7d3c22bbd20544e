"""What /api/chat and /api/generate answer: the events of one ask as JSON, a line or many."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import msgspec

from pyrite.server.ask import ChatAsk, Ended, Event, Part, TextAsk
from pyrite.server.errors import status_of
from pyrite.server.ollama.errors import envelope
from pyrite.server.ollama.types import Asked
from pyrite.server.openai.chat import position_of
from pyrite.server.reply import OneReply
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
class AnswerReply(OneReply[Asked, ChatAsk | TextAsk]):
    """`shape` puts words into the fields of one of the two."""

    shape: Callable[[Words], dict[str, Any]] = field(kw_only=True)
    words: Words = field(default_factory=Words)  # taken, and not told yet
    calls: Calls = field(default_factory=Calls)
    began: float = field(default_factory=time.perf_counter)
    stream_type: ClassVar[str] = NDJSON

    @property
    def keep_alive(self) -> bytes:
        return b""  # clients read every line as JSON

    def failure(self, error: BaseException) -> bytes:
        return envelope(error, status_of(error)) + b"\n"

    def _told(self, happened: Event) -> bytes:
        if isinstance(happened, Part):
            self._take(happened)
        elif isinstance(happened, Ended):
            self.words.calls = self.calls.close()
        line = self._line({"done": False}) if self.words else b""
        return line + self._line(self._last(happened)) if isinstance(happened, Ended) else line

    def _end(self, ended: Ended) -> bytes:
        self.words.calls += self.calls.close()
        return self._line(self._last(ended))

    def _take(self, part: Part) -> None:
        for piece in part.pieces:
            self.words.calls += self.calls.push(piece)
            if isinstance(piece, Content):
                self.words.content += piece.text
            elif isinstance(piece, Reasoning):
                self.words.thinking += piece.text
        if self.ask.params.logprobs is not None:
            tokenizer = self.service.prompts.tokenizer
            self.words.logprobs += [position_of(entry, tokenizer) for entry in part.logprobs]

    def _last(self, ended: Ended) -> dict[str, Any]:
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

    def _line(self, state: dict[str, Any]) -> bytes:
        """With the words that were taken, which are told then."""
        words, self.words = self.words, Words()
        fields = {"model": self.request.model, "created_at": now(), **self.shape(words), **state}
        if words.logprobs:
            fields["logprobs"] = words.logprobs
        return msgspec.json.encode(fields) + b"\n"


def nanoseconds(seconds: float) -> int:
    return round(seconds * NANOSECONDS)


def now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat().replace("+00:00", "Z")


def loaded(model: str, words: dict[str, Any]) -> dict[str, Any]:
    """The answer to nothing: the model is here, and stays."""
    return {"model": model, "created_at": now(), **words, "done": True, "done_reason": "load"}
