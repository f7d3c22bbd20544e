"""What replies of chat completions and completions have in common."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import msgspec

from pyrite.server.errors import status_of
from pyrite.server.openai.errors import description
from pyrite.server.reply import Asked, AskReply, Prompt


@dataclass(slots=True)
class OpenAIReply(AskReply[Asked, Prompt]):
    """One request's answers, whole or as chunks."""

    answer_id: str = field(kw_only=True)
    created: int = field(default_factory=lambda: int(time.time()))

    def failure(self, error: BaseException) -> bytes:
        return event({"error": description(error, status_of(error))})

    def _shell(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        """What every object and chunk of an answer begins with."""
        return {
            "id": self.answer_id,
            "object": kind,
            "created": self.created,
            "model": self.asks[0].adapter or self.service.card.name,
            "choices": choices,
        }


def event(value: Any) -> bytes:
    return b"data: " + msgspec.json.encode(value) + b"\n\n"
