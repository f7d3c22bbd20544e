"""Puts together the messages of an ask from the parts in which some dialects send them.

An answer's reasoning, text and calls become one message of the assistant, each result of a tool a
message of its own. Knows no dialect.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from pyrite.errors import ParameterError

BETWEEN_BLOCKS = "\n"  # an author's blocks are separate texts; those of an answer are one text


class Turns:
    """Grows by what is added; `messages` are in the shape of OpenAI's chat completions."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self._names: dict[str, str] = {}  # of the functions that were called, by the call's id

    def begin(self, role: str) -> None:
        self.messages.append({"role": role, "content": ""})

    def add_text(self, role: str, text: str) -> None:
        """Goes on with the last message where that has the same role."""
        last = self._last(role)
        between = "" if role == "assistant" or not last["content"] else BETWEEN_BLOCKS
        last["content"] += between + text

    def add_reasoning(self, text: str) -> None:
        last = self._last("assistant")
        last["reasoning_content"] = last.get("reasoning_content", "") + text

    def add_call(self, call_id: str, name: str, arguments: Mapping[str, Any]) -> None:
        self._names[call_id] = name
        function = {"name": name, "arguments": msgspec.json.encode(arguments).decode()}
        call = {"id": call_id, "type": "function", "function": function}
        self._last("assistant").setdefault("tool_calls", []).append(call)

    def add_result(self, call_id: str, text: str, where: str, limit: str) -> None:
        """Raises ParameterError, for the field `where`, where there was no such call."""
        if call_id not in self._names:
            raise ParameterError(where, call_id, limit)
        result = {"role": "tool", "tool_call_id": call_id, "name": self._names[call_id]}
        self.messages.append({**result, "content": text})

    def _last(self, role: str) -> dict[str, Any]:
        if not self.messages or self.messages[-1]["role"] != role:
            self.begin(role)
        return self.messages[-1]
