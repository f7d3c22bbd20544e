"""A request of Anthropic's dialect as the internal ask. Knows no HTTP and no event."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pyrite.errors import ParameterError
from pyrite.sampling.grammar import Grammar
from pyrite.sampling.params import SamplingParams
from pyrite.server.anthropic.conversation import conversation_of
from pyrite.server.anthropic.types import (
    CountRequest,
    MessagesRequest,
    Tool,
    ToolChoiceAny,
    ToolChoiceNone,
    ToolChoiceTool,
)
from pyrite.server.ask import NEUTRAL, ChatAsk, NamedTool, ToolChoice
from pyrite.server.thinking import thinking_options

TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")
SAME = ("max_tokens", "temperature", "top_p", "top_k")  # named alike in SamplingParams


def ask_of(request: CountRequest, defaults: Mapping[str, Any] = NEUTRAL) -> ChatAsk:
    """`defaults`: how to sample where the request does not say. Raises ParameterError."""
    messages = conversation_of(request.system, request.messages)
    return ChatAsk(
        messages,
        params_of(request, defaults),
        tools=tools_of(request.tools),
        tool_choice=choice_of(request),
        parallel_tool_calls=not getattr(request.tool_choice, "disable_parallel_tool_use", False),
        continue_final_message=is_prefill(messages),
        template_options=template_options(request),
    )


def is_prefill(messages: Sequence[dict[str, Any]]) -> bool:
    """Whether the answer goes on with the last message. Raises ParameterError."""
    last = messages[-1]
    if last["role"] != "assistant":
        return False
    if "tool_calls" in last:
        limit = "followed by a message with the tool_result of each tool_use"
        raise ParameterError("messages[-1]", "a message with tool_use", limit)
    return True


def params_of(request: CountRequest, defaults: Mapping[str, Any]) -> SamplingParams:
    if not isinstance(request, MessagesRequest):
        return SamplingParams()
    fields = {name: value for name in SAME if (value := getattr(request, name)) is not None}
    stop = tuple(request.stop_sequences)
    return SamplingParams(**{**defaults, **fields}, stop=stop, grammar=grammar_of(request))


def grammar_of(request: CountRequest) -> Grammar | None:
    """Raises ParameterError for a schema beyond bounds, or two of them."""
    newer = request.output_config.format if request.output_config else None
    if newer and request.output_format:
        raise ParameterError("output_format", "a format", "absent with output_config.format")
    format = newer or request.output_format
    return Grammar.json_schema(format.schema) if format else None


def tools_of(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    """Functions as OpenAI has them. Raises ParameterError for a name that is none, or is twice."""
    seen: set[str] = set()
    for index, tool in enumerate(tools):
        if not TOOL_NAME.fullmatch(tool.name):
            limit = "1 to 128 letters, digits, _ and -"
            raise ParameterError(f"tools[{index}].name", tool.name, limit)
        if tool.name in seen:
            raise ParameterError(f"tools[{index}].name", tool.name, "another name for each tool")
        seen.add(tool.name)
    return [{"type": "function", "function": function_of(tool)} for tool in tools]


def function_of(tool: Tool) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name, "parameters": tool.input_schema}
    if tool.description is not None:
        function["description"] = tool.description
    if tool.strict is not None:
        function["strict"] = tool.strict
    return function


def choice_of(request: CountRequest) -> ToolChoice:
    """Raises ParameterError for a choice that the tools do not leave."""
    choice = request.tool_choice
    if isinstance(choice, ToolChoiceNone):
        return "none"
    if isinstance(choice, ToolChoiceTool):
        if choice.name not in [tool.name for tool in request.tools]:
            raise ParameterError("tool_choice.name", choice.name, "the name of one of the tools")
        return NamedTool(choice.name)
    if isinstance(choice, ToolChoiceAny):
        if not request.tools:
            raise ParameterError("tool_choice.type", "any", '"auto" or "none" without tools')
        return "required"
    return "auto" if request.tools else "none"


def template_options(request: CountRequest) -> dict[str, Any]:
    opened = None if request.thinking is None else request.thinking.type != "disabled"
    effort = None if request.output_config is None else request.output_config.effort
    return thinking_options(opened, effort)
