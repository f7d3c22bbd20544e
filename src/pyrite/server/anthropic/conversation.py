"""Anthropic's messages as those of the internal ask.

Turns of one role that follow each other are one turn, as that API has it. Knows no sampling.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pyrite.errors import ParameterError
from pyrite.server.anthropic.types import (
    Block,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from pyrite.server.turns import BETWEEN_BLOCKS, Turns

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
        add_message(turns, message, f"messages[{index}]")
    return turns.messages


def text_of(content: str | Iterable[TextBlock] | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return BETWEEN_BLOCKS.join(block.text for block in content)


def add_message(turns: Turns, message: Message, where: str) -> None:
    content = message.content or ""
    if isinstance(content, str):
        turns.add_text(message.role, content)
        return
    for index, block in enumerate(content):
        add_block(turns, message.role, block, f"{where}.content[{index}]")


def add_block(turns: Turns, role: str, block: Block, where: str) -> None:
    if isinstance(block, TextBlock):
        turns.add_text(role, block.text)
        return
    must_be("user" if isinstance(block, ToolResultBlock) else "assistant", role, block, where)
    if isinstance(block, ThinkingBlock):
        turns.add_reasoning(block.thinking)
    elif isinstance(block, ToolUseBlock):
        turns.add_call(block.id, block.name, block.input or {})
    elif isinstance(block, ToolResultBlock):
        text = text_of(block.content)
        limit = "the id of a tool_use block in an earlier message"
        shown = ERROR + text if block.is_error else text
        turns.add_result(block.tool_use_id, shown, f"{where}.tool_use_id", limit)


def must_be(wanted: str, role: str, block: Block, where: str) -> None:
    if role != wanted:
        kind = block.__struct_config__.tag
        raise ParameterError(f"{where}.type", kind, f"in a message of the role {wanted!r}")
