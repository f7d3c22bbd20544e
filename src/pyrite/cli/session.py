"""A conversation with a model: what was said, how to sample, and the answer under way.

A model without a chat template continues text: each prompt stands alone then. Draws nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyrite.errors import FormatError
from pyrite.records import dataclass
from pyrite.request import Delta, FinishReason, Timings, Usage

if TYPE_CHECKING:
    from pyrite.llm import Model
    from pyrite.stream import Stream

KIND = "pyrite conversation"  # of a saved file


@dataclass(frozen=True, slots=True)
class Answer:
    """`usage` and `timings` are None for an answer that was stopped."""

    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason
    usage: Usage | None
    timings: Timings | None


@dataclass
class Session:
    """`raw`: the model continues each prompt, and no template is applied."""

    model: Model
    sampling: dict[str, Any]
    system: str | None = None
    raw: bool = False
    messages: list[dict[str, str]] = field(default_factory=list)
    last: Answer | None = None

    @property
    def continues_text(self) -> bool:
        return self.raw or self.model.template is None

    def ask(
        self, text: str, write: Callable[[str], None], stopped: Callable[[], bool] = lambda: False
    ) -> Answer:
        """The answer to `text`, written piece by piece. Raises RequestError and leaves no trace."""
        if self.continues_text:
            self.last = collect(self.model.stream(text, **self.sampling), write, stopped)
            return self.last
        asked = [*self.messages, {"role": "user", "content": text}]
        stream = self.model.chat_stream([*self._opening(), *asked], **self.sampling)
        self.last = collect(stream, write, stopped)
        self.messages = [*asked, {"role": "assistant", "content": self.last.text}]
        return self.last

    def take_back(self) -> str | None:
        """Forgets the last question and its answer; gives the question."""
        if not self.messages:
            return None
        question = self.messages[-2]["content"]
        del self.messages[-2:]
        return question

    def _opening(self) -> list[dict[str, str]]:
        return [] if self.system is None else [{"role": "system", "content": self.system}]

    def save(self, path: Path) -> None:
        """Raises FormatError for a file that is something else already."""
        if path.exists():
            read_conversation(path)
        kept = {"kind": KIND, "system": self.system, "messages": self.messages}
        path.write_text(json.dumps(kept, ensure_ascii=False, indent=1), encoding="utf-8")

    def load(self, path: Path) -> None:
        kept = read_conversation(path)
        self.system = kept["system"]
        self.messages = kept["messages"]


def collect(stream: Stream, write: Callable[[str], None], stopped: Callable[[], bool]) -> Answer:
    """Writes the stream's text as it comes, and ends it when `stopped()` says so."""
    deltas: list[Delta] = []
    with stream:
        while (delta := stream.take(stopped)) is not None:
            if delta.error is not None:
                raise delta.error
            deltas.append(delta)
            write(delta.text)
    last = deltas[-1]
    return Answer(
        text="".join(delta.text for delta in deltas),
        token_ids=tuple(token_id for delta in deltas for token_id in delta.token_ids),
        finish_reason=last.finish_reason or "cancelled",
        usage=last.usage,
        timings=last.timings,
    )


def read_conversation(path: Path) -> dict[str, Any]:
    """What `save` wrote. Raises FormatError, OSError."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        kept = None
    if not isinstance(kept, dict) or kept.get("kind") != KIND or not well_formed(kept):
        raise FormatError(f"{path} holds no saved conversation", hint="take another name")
    return kept


def well_formed(kept: Mapping[str, Any]) -> bool:
    messages = kept.get("messages")
    if not isinstance(messages, list) or len(messages) % 2:
        return False
    roles = ["user", "assistant"] * (len(messages) // 2)
    pairs = zip(messages, roles, strict=True)
    return isinstance(kept.get("system", ""), str | None) and all(
        isinstance(message, dict)
        and message.keys() == {"role", "content"}
        and message["role"] == role
        and isinstance(message["content"], str)
        for message, role in pairs
    )
