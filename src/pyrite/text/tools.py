"""The tools of a request, checked: names, schemas, and which of them the answer may or must call.

Takes the shape of OpenAI's chat completions. Knows no model and no format of calls.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pyrite.errors import ParameterError

MAX_TOOLS = 128
MAX_DESCRIPTION = 65_536  # characters of one tool, its schema included
MAX_DEPTH = 32  # levels of one schema

NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    description: str
    schema: Mapping[str, Any]  # JSON schema of the arguments, an object
    strict: bool = False  # calls must keep to the schema even where the model is free to call


@dataclass(frozen=True, slots=True)
class ToolUse:
    """What an answer may do: no tools, any of them if it wants to, or one of them at least.

    `tools` are those that may be called: a named one alone, if one is named.
    """

    tools: tuple[Tool, ...] = ()
    mode: Literal["none", "auto", "required"] = "none"
    parallel: bool = True  # several calls in one answer
    schemas: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # of all, by name

    @property
    def strict(self) -> bool:
        return any(tool.strict for tool in self.tools)


def tool_use(
    tools: Sequence[Mapping[str, Any]],
    choice: str | Mapping[str, Any] = "auto",
    *,
    parallel: bool = True,
) -> ToolUse:
    """`choice` is "auto", "none", "required" or `{"type": "function", "function": {"name": ...}}`.

    Raises ParameterError.
    """
    checked = checked_tools(tools)
    schemas = {tool.name: tool.schema for tool in checked}
    if isinstance(choice, Mapping):
        named = _named(choice, checked)
        return ToolUse((named,), "required", parallel=False, schemas=schemas)
    if choice not in ("auto", "none", "required"):
        raise ParameterError("tool_choice", choice, "auto, none, required, or a function by name")
    if choice == "none" or (choice == "auto" and not checked):
        return ToolUse()
    if not checked:
        raise ParameterError("tool_choice", choice, "none or auto while there are no tools")
    mode: Literal["auto", "required"] = "required" if choice == "required" else "auto"
    return ToolUse(checked, mode, parallel, schemas)


def _named(choice: Mapping[str, Any], tools: Sequence[Tool]) -> Tool:
    function = choice.get("function")
    name = function.get("name") if isinstance(function, Mapping) else choice.get("name")
    for tool in tools:
        if tool.name == name:
            return tool
    known = ", ".join(tool.name for tool in tools) or "none"
    raise ParameterError("tool_choice.function.name", name, f"the name of a tool (given: {known})")


def checked_tools(tools: Sequence[Mapping[str, Any]]) -> tuple[Tool, ...]:
    if len(tools) > MAX_TOOLS:
        raise ParameterError("tools", f"{len(tools)} tools", f"at most {MAX_TOOLS} tools")
    checked = tuple(_tool(tool, f"tools[{index}]") for index, tool in enumerate(tools))
    names: set[str] = set()
    for index, tool in enumerate(checked):
        if tool.name in names:
            where = f"tools[{index}].function.name"
            raise ParameterError(where, tool.name, "a name that no other tool has")
        names.add(tool.name)
    return checked


def _tool(tool: Any, where: str) -> Tool:
    function = tool.get("function") if isinstance(tool, Mapping) else None
    if not isinstance(function, Mapping) or tool.get("type", "function") != "function":
        raise ParameterError(where, tool, 'an object {"type": "function", "function": {...}}')
    name = function.get("name")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        limit = "1 to 128 letters, digits, dots, dashes and underscores"
        raise ParameterError(f"{where}.function.name", name, limit)
    description = function.get("description")
    if not isinstance(description, str | None):
        raise ParameterError(f"{where}.function.description", description, "a string")
    schema = _schema(function.get("parameters"), f"{where}.function.parameters")
    return Tool(name, description or "", schema, function.get("strict") is True)


def _schema(schema: Any, where: str) -> Mapping[str, Any]:
    if schema is None:
        return {"type": "object", "properties": {}}
    if not isinstance(schema, Mapping):
        raise ParameterError(where, schema, "a JSON schema, as an object")
    kind = schema.get("type", "object")
    if kind != "object":
        raise ParameterError(f"{where}.type", kind, '"object": arguments have names')
    _check_size(schema, where)
    fault = fault_of(schema)
    if fault:
        raise ParameterError(where, schema, f"a JSON schema: {fault}")
    return {"type": "object", **schema}


def _check_size(schema: Mapping[str, Any], where: str) -> None:
    level: list[Any] = [schema]
    for _ in range(MAX_DEPTH):
        level = [inner for item in level for inner in _inside(item)]
        if not level:
            break
    else:
        raise ParameterError(where, schema, f"at most {MAX_DEPTH} levels deep")
    try:
        length = len(json.dumps(schema))
    except (TypeError, ValueError):
        raise ParameterError(where, schema, "JSON") from None
    if length > MAX_DESCRIPTION:
        raise ParameterError(where, f"{length} characters", f"at most {MAX_DESCRIPTION}")


def _inside(item: Any) -> Sequence[Any]:
    if isinstance(item, Mapping):
        return list(item.values())
    return item if isinstance(item, (list, tuple)) else ()


def fault_of(schema: Mapping[str, Any]) -> str:
    """What is wrong with a JSON schema, or "". A keyword that cannot be enforced is no fault of
    it here: whoever needs it enforced is told then."""
    from llguidance import LLMatcher

    lenient = {"x-guidance": {"lenient": True}}
    grammar = LLMatcher.grammar_from_json_schema(json.dumps({**schema, **lenient}))
    failed, messages = LLMatcher.validate_grammar_with_warnings(grammar)
    return str(messages[0]).replace("\n", " ") if failed else ""
