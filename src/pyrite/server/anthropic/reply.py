"""What /v1/messages answers: the events of one ask as one JSON object or as a stream."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Any

import msgspec

from pyrite.request import Usage
from pyrite.server.anthropic.blocks import Blocks
from pyrite.server.anthropic.errors import description
from pyrite.server.anthropic.types import MessagesRequest
from pyrite.server.ask import ChatAsk, Ended, Event, Part, Started
from pyrite.server.errors import status_of
from pyrite.server.reply import OneReply
from pyrite.server.thinking import ReasoningTokens


@dataclass(slots=True)
class MessageReply(OneReply[MessagesRequest, ChatAsk]):
    request_id: str = field(kw_only=True)
    message_id: str = field(default_factory=lambda: f"msg_{secrets.token_hex(12)}")
    blocks: Blocks = field(default_factory=Blocks)
    thinking: ReasoningTokens = field(default_factory=ReasoningTokens)

    @property
    def keep_alive(self) -> bytes:
        return event({"type": "ping"})

    def failure(self, error: BaseException) -> bytes:
        return event(description(error, status_of(error), self.request_id))

    def _told(self, happened: Event) -> bytes:
        if isinstance(happened, Started):
            message = self._message([], happened.usage)
            return event({"type": "message_start", "message": message}) + event({"type": "ping"})
        if isinstance(happened, Part):
            return b"".join(map(event, self._take(happened)))
        return b"".join(map(event, [*self.blocks.close(), *self._last(happened)]))

    def _take(self, part: Part) -> list[dict[str, Any]]:
        self.thinking.add(part)
        return self.blocks.push(part.pieces)

    def _last(self, ended: Ended) -> list[dict[str, Any]]:
        usage = usage_of(ended.usage, self.thinking.count)
        delta = {"type": "message_delta", "delta": self._stop(ended), "usage": usage}
        return [delta, {"type": "message_stop"}]

    def _end(self, ended: Ended) -> bytes:
        self.blocks.close()
        message = self._message(self.blocks.content, ended.usage)
        return msgspec.json.encode({**message, **self._stop(ended)})

    def _message(self, content: list[dict[str, Any]], usage: Usage) -> dict[str, Any]:
        return {
            "id": self.message_id,
            "type": "message",
            "role": "assistant",
            "model": self.asks[0].adapter or self.service.card.name,
            "content": content,
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage_of(usage, self.thinking.count),
        }

    def _stop(self, ended: Ended) -> dict[str, Any]:
        reason = stop_reason(ended, self.request.max_tokens)
        sequence = ended.stopped_by if reason == "stop_sequence" else None
        return {"stop_reason": reason, "stop_sequence": sequence}


def stop_reason(ended: Ended, max_tokens: int) -> str:
    if ended.reason == "tool_calls":
        return "tool_use"
    if ended.reason == "stop":
        return "stop_sequence" if isinstance(ended.stopped_by, str) else "end_turn"
    full = ended.usage.completion_tokens < max_tokens
    return "model_context_window_exceeded" if full else "max_tokens"


def usage_of(usage: Usage, num_thinking: int) -> dict[str, Any]:
    """As that API counts: the input tokens are those that no cache had."""
    return {
        "input_tokens": usage.prompt_tokens - usage.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"thinking_tokens": num_thinking},
    }


def event(value: dict[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (value["type"].encode(), msgspec.json.encode(value))
