"""Chat messages as clients send them, mended into what chat templates expect.

Content that is null or absent becomes "", parts of text are joined, an empty `tool_calls` goes, and
tool-call arguments take the shape that the template wants. Roles are the template's business.
Knows no template and no token; what cannot be mended is a ParameterError that names the field.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pyrite.errors import ParameterError
from pyrite.records import dataclass


@dataclass(frozen=True, slots=True)
class CallShape:
    """How a template wants tool calls: arguments as an object or as its JSON text; and whether the
    message that has them and no content must say null, for the calls to be seen."""

    arguments: Literal["mapping", "text"] = "mapping"
    null_content: bool = False


CALL_SHAPES = (
    CallShape(),
    CallShape("text"),
    CallShape("mapping", null_content=True),
    CallShape("text", null_content=True),
)


def normalize(
    messages: Sequence[Mapping[str, Any]], shape: CallShape = CALL_SHAPES[0]
) -> list[dict[str, Any]]:
    """New messages; the given ones stay as they are. Raises ParameterError."""
    if isinstance(messages, (str, bytes)) or not isinstance(messages, Sequence):
        raise ParameterError("messages", messages, "a list of messages")
    mended: list[dict[str, Any]] = []
    for index, message in enumerate(messages):
        mended += _parts(_message(message, f"messages[{index}]", shape), shape)
    return mended


def _parts(message: dict[str, Any], shape: CallShape) -> list[dict[str, Any]]:
    """Where calls are only seen beside null, the content before them is a message of its own."""
    if not shape.null_content or not message.get("tool_calls") or message["content"] is None:
        return [message]
    content = {key: message[key] for key in message if key != "tool_calls"}
    return [content, {**message, "content": None}]


def _message(message: Any, where: str, shape: CallShape) -> dict[str, Any]:
    if not isinstance(message, Mapping):
        raise ParameterError(where, message, 'an object such as {"role": "user", "content": "Hi"}')
    if not isinstance(message.get("role"), str):
        raise ParameterError(f"{where}.role", message.get("role"), "a string")
    mended = dict(message)
    mended["content"] = text_of(message.get("content"), f"{where}.content")
    calls = mended.pop("tool_calls", None)
    if calls:
        if not isinstance(calls, Sequence) or isinstance(calls, str):
            raise ParameterError(f"{where}.tool_calls", calls, "a list of calls")
        mended["tool_calls"] = [
            _call(call, f"{where}.tool_calls[{index}]", shape) for index, call in enumerate(calls)
        ]
        if shape.null_content and not mended["content"]:
            mended["content"] = None
    _check_surrogates(mended, where)
    return mended


def text_of(content: Any, where: str) -> str:
    """A string, null, or a list of parts {"type": "text", "text": ...}, as one string."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        raise ParameterError(where, content, "a string, null, or a list of text parts")
    return "".join(_part(part, f"{where}[{index}]") for index, part in enumerate(content))


def _part(part: Any, where: str) -> str:
    if isinstance(part, str):
        return part
    kind = part.get("type", "text") if isinstance(part, Mapping) else None
    if kind not in ("text", "input_text", "output_text"):
        raise ParameterError(f"{where}.type", kind, '"text": this engine reads text alone')
    if not isinstance(part.get("text"), str):
        raise ParameterError(f"{where}.text", part.get("text"), "a string")
    return str(part["text"])


def _call(call: Any, where: str, shape: CallShape) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise ParameterError(f"{where}.function", function, "an object with a name")
    decoded = arguments_of(function.get("arguments"), f"{where}.function.arguments")
    shaped = decoded if shape.arguments == "mapping" else json.dumps(decoded, ensure_ascii=False)
    return {**call, "function": {**function, "arguments": shaped}}


def arguments_of(arguments: Any, where: str) -> dict[str, Any]:
    """An object, or a string that holds one; null and "" are {}."""
    if arguments is None or (isinstance(arguments, str) and not arguments.strip()):
        return {}
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            raise ParameterError(where, arguments, "a JSON object, as a string") from None
    if arguments is None:
        return {}
    if not isinstance(arguments, Mapping):
        raise ParameterError(where, arguments, "a JSON object")
    return dict(arguments)


def _check_surrogates(value: Any, where: str) -> None:
    """No encoding of text can carry half of a surrogate pair: say which field has one."""
    stack = [(value, where)]
    while stack:
        item, path = stack.pop()
        if isinstance(item, str) and not _encodable(item):
            raise ParameterError(path, item, "text without halves of surrogate pairs")
        if isinstance(item, Mapping):
            for key, inner in item.items():
                stack += [(key, path), (inner, f"{path}.{key}")]
        elif isinstance(item, (list, tuple)):
            stack += [(inner, f"{path}[{index}]") for index, inner in enumerate(item)]


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
