"""Which of its tools a chat may call, must call, or may not: `tool_choice`, in all of its forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyrite.errors import ParameterError
from pyrite.server.ask import NamedTool, ToolChoice

Tools = Sequence[dict[str, Any]]
FORMS = (
    '"none", "auto", "required", {"type": "function", "function": {"name": ...}}, or '
    '{"type": "allowed_tools", "allowed_tools": {"mode": ..., "tools": [...]}}'
)


def callable_tools(given: str | dict[str, Any] | None, tools: Tools) -> tuple[ToolChoice, Tools]:
    """The choice, and the tools that it leaves. Raises ParameterError."""
    if isinstance(given, dict) and given.get("type") == "allowed_tools":
        return allowed(given.get("allowed_tools"), tools)
    return choice_of(given, bool(tools)), tools


def choice_of(given: str | dict[str, Any] | None, has_tools: bool) -> ToolChoice:
    if given is None:
        return "auto" if has_tools else "none"
    if given in ("none", "auto", "required"):
        return given  # type: ignore[return-value]
    if isinstance(given, dict) and given.get("type", "function") == "function":
        name = name_of(given)
        if name is not None:
            return NamedTool(name)
    raise ParameterError("tool_choice", given, FORMS)


def allowed(given: Any, tools: Tools) -> tuple[ToolChoice, Tools]:
    named = given.get("tools") if isinstance(given, dict) else None
    if not isinstance(named, list) or given.get("mode") not in ("auto", "required"):
        raise ParameterError("tool_choice.allowed_tools", given, FORMS)
    names = [name_of(one) for one in named]
    known = [name_of(tool) for tool in tools]
    for index, name in enumerate(names):
        if name is None or name not in known:
            where = f"tool_choice.allowed_tools.tools[{index}].function.name"
            raise ParameterError(where, name, "the name of one of the tools")
    left = [tool for tool, name in zip(tools, known, strict=True) if name in names]
    return (given["mode"] if left else "none"), left


def name_of(tool: Any) -> str | None:
    function = tool.get("function") if isinstance(tool, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    return name if isinstance(name, str) else None
