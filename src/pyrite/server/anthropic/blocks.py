"""The content blocks of an answer, while they are written: pieces in, stream events out.

The joined deltas of a block are the block that the whole answer has. Knows no HTTP.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from pyrite.text.answer import CallArguments, CallStart, Content, Piece, Reasoning

Event = dict[str, Any]


@dataclass(slots=True)
class Block:
    """`start` is the block as it begins, `delta` the kind of its deltas, `name` of their text."""

    key: object  # pieces of equal keys belong to one block
    start: dict[str, Any]
    delta: str
    name: str
    texts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.texts)


class Blocks:
    """Blocks come one after the other; the last one is open until another begins or the end."""

    def __init__(self) -> None:
        self.content: list[dict[str, Any]] = []  # those that are whole
        self._open: Block | None = None

    def push(self, pieces: Sequence[Piece]) -> list[Event]:
        return [event for piece in pieces for event in self._push(piece)]

    def _push(self, piece: Piece) -> list[Event]:
        text = "" if isinstance(piece, CallStart) else piece.text
        if not text and not isinstance(piece, CallStart):
            return []
        events: list[Event] = []
        if self._open is None or self._open.key != key_of(piece):
            events = [*self.close(), self._begin(piece)]
        assert self._open is not None
        if text:
            self._open.texts.append(text)
            delta = {"type": self._open.delta, self._open.name: text}
            events.append(self._delta(delta))
        return events

    def close(self) -> list[Event]:
        """Ends the open block, if there is one."""
        if self._open is None:
            return []
        block = whole(self._open)
        events = [{"type": "content_block_stop", "index": len(self.content)}]
        if block["type"] == "thinking":
            signed = {"type": "signature_delta", "signature": block["signature"]}
            events.insert(0, self._delta(signed))
        self.content.append(block)
        self._open = None
        return events

    def _begin(self, piece: Piece) -> Event:
        self._open = begun(piece)
        index = len(self.content)
        return {
            "type": "content_block_start",
            "index": index,
            "content_block": dict(self._open.start),
        }

    def _delta(self, delta: dict[str, str]) -> Event:
        return {"type": "content_block_delta", "index": len(self.content), "delta": delta}


def key_of(piece: Piece) -> object:
    if isinstance(piece, (CallStart, CallArguments)):
        return piece.index
    return type(piece)


def begun(piece: Piece) -> Block:
    if isinstance(piece, Content):
        return Block(key_of(piece), {"type": "text", "text": ""}, "text_delta", "text")
    if isinstance(piece, Reasoning):
        start: dict[str, Any] = {"type": "thinking", "thinking": "", "signature": ""}
        return Block(key_of(piece), start, "thinking_delta", "thinking")
    assert isinstance(piece, CallStart), f"{piece} of a call that has not begun"
    start = {"type": "tool_use", "id": piece.call_id, "name": piece.name, "input": {}}
    return Block(key_of(piece), start, "input_json_delta", "partial_json")


def whole(block: Block) -> dict[str, Any]:
    kind = block.start["type"]
    if kind == "text":
        return {**block.start, "text": block.text}
    if kind == "thinking":
        return {**block.start, "thinking": block.text, "signature": signature_of(block.text)}
    return {**block.start, "input": input_of(block.text)}


def input_of(text: str) -> dict[str, Any]:
    """Arguments of a call; of one that was cut off by a limit, none: the stop reason says so."""
    try:
        value = msgspec.json.decode(text or "{}")
    except msgspec.DecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def signature_of(thinking: str) -> str:
    """A digest: clients send it back with the block, and nothing here relies on it."""
    return "pyrite-" + hashlib.blake2b(thinking.encode(), digest_size=16).hexdigest()
