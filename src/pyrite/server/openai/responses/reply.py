"""What /v1/responses answers: the events of one ask as one JSON object or as a stream."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from pyrite.request import PositionLogprobs, Usage
from pyrite.server.ask import ChatAsk, Ended, Event, Part, Started
from pyrite.server.errors import status_of
from pyrite.server.openai.chat import position_of
from pyrite.server.openai.responses.asks import wants_logprobs
from pyrite.server.openai.responses.errors import description
from pyrite.server.openai.responses.items import Items
from pyrite.server.openai.responses.types import ResponsesRequest
from pyrite.server.reply import OneReply
from pyrite.server.thinking import ReasoningTokens
from pyrite.text.answer import Content


@dataclass(slots=True)
class ResponseReply(OneReply[ResponsesRequest, ChatAsk]):
    """`raw` is the request as it came: an answer repeats parts of it."""

    raw: Mapping[str, Any] = field(kw_only=True)
    answer_id: str = field(kw_only=True)
    created: int = field(default_factory=lambda: int(time.time()))
    items: Items = field(init=False)
    thinking: ReasoningTokens = field(default_factory=ReasoningTokens)
    waiting: list[PositionLogprobs] = field(default_factory=list)  # of text that is held back
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.items = Items(summarized=self.request.reasoning.summary is not None)

    def failure(self, error: BaseException) -> bytes:
        told = description(error, status_of(error))
        error_event = {name: told[name] for name in ("code", "message", "param")}
        self.items.close("incomplete")
        failed = {"code": "server_error", "message": told["message"]}
        response = self._response("failed", error=failed)
        return self._written(
            [{"type": "error", **error_event}, {"type": "response.failed", "response": response}]
        )

    def _told(self, happened: Event) -> bytes:
        return self._written(self._events(happened))

    def _events(self, happened: Event) -> list[dict[str, Any]]:
        if isinstance(happened, Started):
            response = self._response("in_progress")
            kinds = ("response.created", "response.in_progress")
            return [{"type": kind, "response": response} for kind in kinds]
        if isinstance(happened, Part):
            return self._take(happened)
        status = status_at(happened)
        events = self.items.close(status)
        return [*events, {"type": f"response.{status}", "response": self._ended(happened)}]

    def _end(self, ended: Ended) -> bytes:
        self.items.close(status_at(ended))
        return msgspec.json.encode(self._ended(ended))

    def _take(self, part: Part) -> list[dict[str, Any]]:
        self.thinking.add(part)
        self.waiting += part.logprobs
        logprobs: list[dict[str, Any]] = []
        written = any(isinstance(piece, Content) for piece in part.pieces)
        if written and wants_logprobs(self.request):
            tokenizer = self.service.prompts.tokenizer
            logprobs = [position_of(entry, tokenizer) for entry in self.waiting]
        if part.pieces:
            self.waiting = []
        return self.items.push(part.pieces, logprobs)

    def _ended(self, ended: Ended) -> dict[str, Any]:
        status = status_at(ended)
        if status == "completed":
            more: dict[str, Any] = {"completed_at": int(time.time())}
        else:
            more = {"incomplete_details": {"reason": "max_output_tokens"}}
        return self._response(status, usage=usage_of(ended.usage, self.thinking.count), **more)

    def _response(self, status: str, **more: Any) -> dict[str, Any]:
        asked = self.request
        return {
            "id": self.answer_id,
            "object": "response",
            "created_at": self.created,
            "completed_at": None,
            "status": status,
            "background": False,
            "error": None,
            "incomplete_details": None,
            "instructions": asked.instructions,
            "max_output_tokens": asked.max_output_tokens,
            "max_tool_calls": None,
            "metadata": asked.metadata,
            "model": self.asks[0].adapter or self.service.card.name,
            "output": list(self.items.output),
            "parallel_tool_calls": asked.parallel_tool_calls,
            "previous_response_id": None,
            "reasoning": asked.reasoning,
            "service_tier": "default",
            "store": False,
            "temperature": self.ask.params.temperature,
            "text": {"format": self.raw.get("text", {}).get("format") or {"type": "text"}},
            "tool_choice": asked.tool_choice,
            "tools": self.raw.get("tools", []),
            "top_logprobs": asked.top_logprobs or 0,
            "top_p": self.ask.params.top_p,
            "truncation": "disabled",
            "usage": None,
            "user": None,
            **more,
        }

    def _written(self, events: Iterable[dict[str, Any]]) -> bytes:
        numbered = ({**one, "sequence_number": next(self.numbers)} for one in events)
        return b"".join(map(event, numbered))


def status_at(ended: Ended) -> Literal["completed", "incomplete"]:
    return "incomplete" if ended.reason == "length" else "completed"


def usage_of(usage: Usage, num_reasoning: int) -> dict[str, Any]:
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": num_reasoning},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }


def event(value: dict[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (value["type"].encode(), msgspec.json.encode(value))
