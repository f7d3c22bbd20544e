"""The output items of a response, while they are written: pieces in, stream events out.

Each item is told as it begins, by its deltas, and whole as it ends; deltas joined are the whole.
Events have no sequence number yet. Knows no HTTP and no token.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pyrite.text.answer import CallArguments, CallStart, Content, Piece, Reasoning

Event = dict[str, Any]
Logprobs = Sequence[dict[str, Any]]


@dataclass(slots=True)
class Open:
    """The item that is being written. Pieces of equal keys belong to it."""

    key: object
    item: dict[str, Any]
    texts: list[str] = field(default_factory=list)
    logprobs: list[dict[str, Any]] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.texts)


class Items:
    """`summarized`: reasoning comes as its own summary, for clients that show nothing else."""

    def __init__(
        self,
        *,
        summarized: bool = False,
        new_id: Callable[[], str] = lambda: secrets.token_hex(16),
    ) -> None:
        self.output: list[dict[str, Any]] = []  # items that are whole
        self._summarized = summarized
        self._new_id = new_id
        self._open: Open | None = None

    def push(self, pieces: Sequence[Piece], logprobs: Logprobs = ()) -> list[Event]:
        """`logprobs` are of the content among the pieces, and go with its first delta."""
        events: list[Event] = []
        for piece in pieces:
            own = logprobs if isinstance(piece, Content) else ()
            events += self._push(piece, own)
            logprobs = () if own else logprobs
        return events

    def _push(self, piece: Piece, logprobs: Logprobs) -> list[Event]:
        text = "" if isinstance(piece, CallStart) else piece.text
        if not text and not isinstance(piece, CallStart):
            return []
        events: list[Event] = []
        if self._open is None or self._open.key != key_of(piece):
            events = [*self.close(), *self._begin(piece)]
        assert self._open is not None
        if text:
            self._open.texts.append(text)
            self._open.logprobs += logprobs
            extra = {"logprobs": list(logprobs)} if isinstance(piece, Content) else {}
            events.append(self._event(f"{self._text_kind()}.delta", delta=text, **extra))
        return events

    def _begin(self, piece: Piece) -> list[Event]:
        self._open = Open(key_of(piece), begun(piece, self._new_id))
        added = self._item_event("response.output_item.added", dict(self._open.item))
        if self._open.item["type"] == "function_call":
            return [added]
        return [added, self._event(f"{self._part_kind()}.added", part=self._part())]

    def close(self, status: Literal["completed", "incomplete"] = "completed") -> list[Event]:
        """Ends the open item, if there is one."""
        if self._open is None:
            return []
        item, text = self._open.item, self._open.text
        kind = f"{self._text_kind()}.done"
        if item["type"] == "function_call":
            events = [self._event(kind, arguments=text, name=item["name"])]
            item = {**item, "arguments": text}
        else:
            extra = {"logprobs": self._open.logprobs} if item["type"] == "message" else {}
            events = [self._event(kind, text=text, **extra)]
            events.append(self._event(f"{self._part_kind()}.done", part=self._part()))
            item = {**item, self._place(): [self._part()]}
        whole = {**item, "status": status}
        events.append(self._item_event("response.output_item.done", whole))
        self.output.append(whole)
        self._open = None
        return events

    def _is_summary(self) -> bool:
        assert self._open is not None
        return self._summarized and self._open.item["type"] == "reasoning"

    def _place(self) -> str:
        return "summary" if self._is_summary() else "content"

    def _part_kind(self) -> str:
        summary = "response.reasoning_summary_part"
        return summary if self._is_summary() else "response.content_part"

    def _text_kind(self) -> str:
        assert self._open is not None
        if self._is_summary():
            return "response.reasoning_summary_text"
        return TEXT_KINDS[self._open.item["type"]]

    def _part(self) -> dict[str, Any]:
        """The part that is being written, as far as it is."""
        assert self._open is not None
        if self._is_summary():
            return {"type": "summary_text", "text": self._open.text}
        if self._open.item["type"] == "reasoning":
            return {"type": "reasoning_text", "text": self._open.text}
        return {
            "type": "output_text",
            "text": self._open.text,
            "annotations": [],
            "logprobs": list(self._open.logprobs),
        }

    def _event(self, kind: str, **fields: Any) -> Event:
        assert self._open is not None
        place: dict[str, Any] = {}
        if self._open.item["type"] != "function_call":
            place = {"summary_index" if self._is_summary() else "content_index": 0}
        where = {"item_id": self._open.item["id"], "output_index": len(self.output)}
        return {"type": kind, **where, **place, **fields}

    def _item_event(self, kind: str, item: dict[str, Any]) -> Event:
        return {"type": kind, "output_index": len(self.output), "item": item}


TEXT_KINDS = {
    "message": "response.output_text",
    "reasoning": "response.reasoning_text",
    "function_call": "response.function_call_arguments",
}


def key_of(piece: Piece) -> object:
    if isinstance(piece, (CallStart, CallArguments)):
        return piece.index
    return type(piece)


def begun(piece: Piece, new_id: Callable[[], str]) -> dict[str, Any]:
    """An item of which nothing is written yet."""
    if isinstance(piece, Content):
        head = {"id": f"msg_{new_id()}", "type": "message", "status": "in_progress"}
        return {**head, "role": "assistant", "content": []}
    if isinstance(piece, Reasoning):
        head = {"id": f"rs_{new_id()}", "type": "reasoning", "status": "in_progress"}
        return {**head, "summary": []}
    assert isinstance(piece, CallStart), f"{piece} of a call that has not begun"
    head = {"id": f"fc_{new_id()}", "type": "function_call", "status": "in_progress"}
    return {**head, "call_id": piece.call_id, "name": piece.name, "arguments": ""}
