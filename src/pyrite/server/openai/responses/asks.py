"""A request of the Responses API as the internal ask. Knows no HTTP and no event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyrite.errors import ParameterError
from pyrite.sampling.grammar import Grammar
from pyrite.sampling.params import SamplingParams
from pyrite.server.ask import NEUTRAL, ChatAsk, NamedTool, ToolChoice
from pyrite.server.openai.responses.conversation import conversation_of
from pyrite.server.openai.responses.types import (
    AllowedTools,
    Format,
    FunctionTool,
    JsonObjectFormat,
    JsonSchemaFormat,
    NamedFunction,
    ResponsesRequest,
)
from pyrite.server.thinking import thinking_options

MAX_TOP_LOGPROBS = 20
MAX_PAIRS = 16
MAX_KEY = 64  # characters
MAX_VALUE = 512  # characters
LOGPROBS = "message.output_text.logprobs"
INCLUDED_BY_OTHERS = (  # by tools that are not here, or by a server that keeps secrets
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
    "reasoning.encrypted_content",
)


def ask_of(request: ResponsesRequest, defaults: Mapping[str, Any] = NEUTRAL) -> ChatAsk:
    """`defaults`: how to sample where the request does not say. Raises ParameterError."""
    check_metadata(request.metadata)
    messages = conversation_of(request.instructions, request.input)
    tools = callable_tools(request)
    return ChatAsk(
        messages,
        params_of(request, defaults),
        tools=[{"type": "function", "function": function_of(tool)} for tool in tools],
        tool_choice=choice_of(request, tools),
        parallel_tool_calls=request.parallel_tool_calls,
        template_options=thinking_options(None, request.reasoning.effort),
    )


def wants_logprobs(request: ResponsesRequest) -> bool:
    return LOGPROBS in request.include or bool(request.top_logprobs)


def ignored_includes(include: Sequence[str]) -> tuple[str, ...]:
    """Those that change nothing. Raises ParameterError for an unknown one."""
    known = (LOGPROBS, *INCLUDED_BY_OTHERS)
    for index, name in enumerate(include):
        if name not in known:
            raise ParameterError(f"include[{index}]", name, "one of " + ", ".join(known))
    return tuple(f"include[{name}]" for name in include if name != LOGPROBS)


def params_of(request: ResponsesRequest, defaults: Mapping[str, Any]) -> SamplingParams:
    fields: dict[str, Any] = {
        "max_tokens": request.max_output_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
    }
    top = request.top_logprobs or 0
    if not 0 <= top <= MAX_TOP_LOGPROBS:
        raise ParameterError("top_logprobs", top, f"a whole number from 0 to {MAX_TOP_LOGPROBS}")
    if wants_logprobs(request):
        fields["logprobs"] = top
    fields["grammar"] = grammar_of(request.text.format)
    given = {name: value for name, value in fields.items() if value is not None}
    return SamplingParams(**{**defaults, **given})


def grammar_of(format: Format | None) -> Grammar | None:
    """Raises ParameterError for a schema beyond bounds."""
    if isinstance(format, JsonSchemaFormat):
        return Grammar.json_schema(format.schema)
    return Grammar.json_object() if isinstance(format, JsonObjectFormat) else None


def callable_tools(request: ResponsesRequest) -> list[FunctionTool]:
    """Those that may be called. Raises ParameterError for a name that is twice, or not there."""
    tools = {tool.name: tool for tool in request.tools}
    if len(tools) < len(request.tools):
        every = [tool.name for tool in request.tools]
        twice = next(name for name in every if every.count(name) > 1)
        raise ParameterError("tools[].name", twice, "another name for each function")
    choice = request.tool_choice
    if not isinstance(choice, AllowedTools):
        return request.tools
    for index, one in enumerate(choice.tools):
        check_known(one.name, tools, f"tool_choice.tools[{index}].name")
    allowed = {one.name for one in choice.tools}
    return [tool for tool in request.tools if tool.name in allowed]


def check_known(name: str, tools: Sequence[str] | dict[str, FunctionTool], where: str) -> None:
    if name not in tools:
        raise ParameterError(where, name, "the name of one of the tools")


def function_of(tool: FunctionTool) -> dict[str, Any]:
    fields = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": tool.strict,
    }
    return {name: value for name, value in fields.items() if value is not None}


def choice_of(request: ResponsesRequest, tools: Sequence[FunctionTool]) -> ToolChoice:
    """Raises ParameterError for a choice that the tools do not leave."""
    choice = request.tool_choice
    if isinstance(choice, NamedFunction):
        check_known(choice.name, [tool.name for tool in tools], "tool_choice.name")
        return NamedTool(choice.name)
    wanted: ToolChoice = choice.mode if isinstance(choice, AllowedTools) else choice
    if wanted == "required" and not tools:
        raise ParameterError("tool_choice", wanted, '"auto" or "none" without tools')
    return wanted if tools else "none"


def check_metadata(metadata: dict[str, str]) -> None:
    """Raises ParameterError."""
    if len(metadata) > MAX_PAIRS:
        raise ParameterError("metadata", f"{len(metadata)} pairs", f"at most {MAX_PAIRS} pairs")
    for key, value in metadata.items():
        if len(key) > MAX_KEY:
            raise ParameterError("metadata", key, f"with keys of at most {MAX_KEY} characters")
        if len(value) > MAX_VALUE:
            raise ParameterError(f"metadata.{key}", value, f"at most {MAX_VALUE} characters")
