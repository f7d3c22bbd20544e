"""Anthropic's messages as those of the internal ask: results of tools become messages of their own.

Turns of one role that follow each other are one turn, as that API has it. Knows no sampling.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from pyrite.errors import ParameterError
from pyrite.server.anthropic.types import (
    Block,
    Message,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)

BETWEEN_BLOCKS = "\n"  # an author's blocks are separate texts; those of an answer are one text
ERROR = "Error: "  # begins the result of a tool that failed: templates have no field for it


def conversation_of(
    system: str | Sequence[TextBlock] | None, messages: Sequence[Message]
) -> list[dict[str, Any]]:
    """Messages in the shape of OpenAI's chat completions. Raises ParameterError."""
    if not messages:
        raise ParameterError("messages", [], "at least one message")
    turns = Turns()
    if system:
        turns.add_text("system", text_of(system))
    for index, message in enumerate(messages):
        turns.add(message, f"messages[{index}]")
    return turns.messages


def text_of(content: str | Iterable[TextBlock] | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return BETWEEN_BLOCKS.join(block.text for block in content)


class Turns:
    """A conversation while it is put together."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self._names: dict[str, str] = {}  # of the tools that were called, by the call's id

    def add(self, message: Message, where: str) -> None:
        if message.content is None or isinstance(message.content, str):
            self.add_text(message.role, message.content or "")
            return
        if not message.content:
            self.add_text(message.role, "")
        for index, block in enumerate(message.content):
            self._add_block(message.role, block, f"{where}.content[{index}]")

    def add_text(self, role: str, text: str) -> None:
        """Goes on with the last message where that has the same role."""
        last = self._last(role)
        between = "" if role == "assistant" or not last["content"] else BETWEEN_BLOCKS
        last["content"] += between + text

    def _add_block(self, role: str, block: Block, where: str) -> None:
        if isinstance(block, TextBlock):
            self.add_text(role, block.text)
        elif isinstance(block, ToolResultBlock):
            self._must_be("user", role, block, where)
            self._add_result(block, where)
        else:
            self._must_be("assistant", role, block, where)
            self._add_own(block)

    def _add_own(self, block: ThinkingBlock | RedactedThinkingBlock | ToolUseBlock) -> None:
        last = self._last("assistant")
        if isinstance(block, ThinkingBlock):
            last["reasoning_content"] = last.get("reasoning_content", "") + block.thinking
        elif isinstance(block, ToolUseBlock):
            self._names[block.id] = block.name
            arguments = msgspec.json.encode(block.input or {}).decode()
            function = {"name": block.name, "arguments": arguments}
            call = {"id": block.id, "type": "function", "function": function}
            last.setdefault("tool_calls", []).append(call)

    def _add_result(self, block: ToolResultBlock, where: str) -> None:
        name = self._names.get(block.tool_use_id)
        if name is None:
            limit = "the id of a tool_use block in an earlier message"
            raise ParameterError(f"{where}.tool_use_id", block.tool_use_id, limit)
        text = text_of(block.content)
        content = ERROR + text if block.is_error else text
        result = {"role": "tool", "tool_call_id": block.tool_use_id, "name": name}
        self.messages.append({**result, "content": content})

    def _last(self, role: str) -> dict[str, Any]:
        if not self.messages or self.messages[-1]["role"] != role:
            self.messages.append({"role": role, "content": ""})
        return self.messages[-1]

    @staticmethod
    def _must_be(wanted: str, role: str, block: Block, where: str) -> None:
        if role != wanted:
            kind = block.__struct_config__.tag
            raise ParameterError(f"{where}.type", kind, f"in a message of the role {wanted!r}")
