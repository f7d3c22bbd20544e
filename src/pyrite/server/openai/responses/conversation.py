"""The input items of a response as the messages of the internal ask. Knows no sampling."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pyrite.errors import ParameterError
from pyrite.server.openai.responses.types import (
    FunctionCall,
    FunctionCallOutput,
    Item,
    Message,
    Part,
    ReasoningItem,
    Refusal,
)
from pyrite.server.turns import BETWEEN_BLOCKS, Turns
from pyrite.text.messages import arguments_of

ROLES = {"developer": "system"}  # templates know the older name


def with_kinds(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The request with the kind of every item: messages may leave it out."""
    items = raw.get("input")
    if not isinstance(items, list):
        return dict(raw)
    return {**raw, "input": [with_kind(item) for item in items]}


def with_kind(item: Any) -> Any:
    if isinstance(item, dict) and item.get("type") is None and "role" in item:
        return {**item, "type": "message"}
    return item


def conversation_of(instructions: str | None, given: str | list[Item]) -> list[dict[str, Any]]:
    """Messages in the shape of OpenAI's chat completions. Raises ParameterError."""
    if not given and not isinstance(given, str):
        raise ParameterError("input", given, "a text or at least one item")
    turns = Turns()
    if instructions:
        turns.add_text("system", instructions)
    if isinstance(given, str):
        turns.add_text("user", given)
    else:
        for index, item in enumerate(given):
            add_item(turns, item, f"input[{index}]")
    return turns.messages


def add_item(turns: Turns, item: Item, where: str) -> None:
    if isinstance(item, Message):
        add_message(turns, item)
    elif isinstance(item, FunctionCall):
        arguments = arguments_of(item.arguments, f"{where}.arguments")
        turns.add_call(item.call_id, item.name, arguments)
    elif isinstance(item, FunctionCallOutput):
        limit = "the call_id of an earlier function_call"
        turns.add_result(item.call_id, text_of(item.output), f"{where}.call_id", limit)
    else:
        turns.add_reasoning(reasoning_of(item))


def add_message(turns: Turns, message: Message) -> None:
    """Users' messages stay apart; the parts of an answer, and of instructions, are one message."""
    role = ROLES.get(message.role, message.role)
    if role == "user":
        turns.begin(role)
    between = "" if role == "assistant" else BETWEEN_BLOCKS
    turns.add_text(role, text_of(message.content, between))


def text_of(content: str | Iterable[Part] | None, between: str = BETWEEN_BLOCKS) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    texts = (part.refusal if isinstance(part, Refusal) else part.text for part in content)
    return between.join(texts)


def reasoning_of(item: ReasoningItem) -> str:
    return BETWEEN_BLOCKS.join(part.text for part in item.content or item.summary)
