"""The requests of Anthropic's Messages API, and what becomes of each of their fields.

Source: the public reference of the Messages API (version 2023-06-01) and the types of its Python
client. Numbers are judged by SamplingParams. Knows no engine and no event.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from pyrite.server.fields import Fields, Ignored, Refused


class TextBlock(msgspec.Struct, tag="text"):
    text: str


class ThinkingBlock(msgspec.Struct, tag="thinking"):
    thinking: str
    signature: str = ""


class RedactedThinkingBlock(msgspec.Struct, tag="redacted_thinking"):
    """What another server's model thought, for that server alone to read."""


class ToolUseBlock(msgspec.Struct, tag="tool_use"):
    id: str
    name: str
    input: dict[str, Any] | None = None


class ToolResultBlock(msgspec.Struct, tag="tool_result"):
    tool_use_id: str
    content: str | list[TextBlock] | None = None
    is_error: bool | None = None


Block = TextBlock | ThinkingBlock | RedactedThinkingBlock | ToolUseBlock | ToolResultBlock


class Message(msgspec.Struct):
    role: Literal["user", "assistant", "system"]
    content: str | list[Block] | None = None


class Tool(msgspec.Struct):
    name: str
    input_schema: dict[str, Any]
    description: str | None = None
    type: Literal["custom"] | None = None
    strict: bool | None = None


class ToolChoiceAuto(msgspec.Struct, tag="auto"):
    disable_parallel_tool_use: bool = False


class ToolChoiceAny(msgspec.Struct, tag="any"):
    disable_parallel_tool_use: bool = False


class ToolChoiceTool(msgspec.Struct, tag="tool"):
    name: str
    disable_parallel_tool_use: bool = False


class ToolChoiceNone(msgspec.Struct, tag="none"):
    pass


ToolChoice = ToolChoiceAuto | ToolChoiceAny | ToolChoiceTool | ToolChoiceNone


class Thinking(msgspec.Struct):
    type: Literal["enabled", "disabled", "adaptive", "between_tools"]


class JsonFormat(msgspec.Struct):
    schema: dict[str, Any]
    type: Literal["json_schema"]


class OutputConfig(msgspec.Struct):
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: JsonFormat | None = None


class CountRequest(msgspec.Struct, kw_only=True):
    """What a prompt is made of."""

    model: str
    messages: list[Message]
    system: str | list[TextBlock] | None = None
    tools: list[Tool] = msgspec.field(default_factory=list)
    tool_choice: ToolChoice | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None
    output_format: JsonFormat | None = None  # where the format was before output_config


class MessagesRequest(CountRequest, kw_only=True):
    max_tokens: int
    stream: bool = False
    stop_sequences: list[str] = msgspec.field(default_factory=list)
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None


TEXT_ALONE = Refused("this engine reads text alone")
CACHED = "every prefix of a prompt is cached without being marked"
EACH_ALIKE = "every request is served alike"

REFUSED = {
    "container": Refused("nothing is executed here: there are no containers"),
    "mcp_servers": Refused("this server calls no other: give their tools in `tools`"),
    "messages[].content[].type": TEXT_ALONE,
    "messages[].content[].content[].type": TEXT_ALONE,
    "system[].type": TEXT_ALONE,
}
IGNORED: dict[str, Ignored | str] = {
    "cache_control": CACHED,
    "system[].cache_control": CACHED,
    "system[].citations": "citations are not written",
    "tools[].cache_control": CACHED,
    "tools[].allowed_callers": "tools are called by the model alone",
    "tools[].defer_loading": "every tool is shown to the model",
    "tools[].eager_input_streaming": "arguments are always streamed as they are written",
    "tools[].input_examples": "chat templates have no place for them",
    "messages[].content[].cache_control": CACHED,
    "messages[].content[].citations": "citations are not written",
    "messages[].content[].caller": "tools are called by the model alone",
    "messages[].content[].data": "only the server that wrote it can read it",
    "messages[].content[].toolset_name": "tools have names of their own",
    "messages[].content[].content[].cache_control": CACHED,
    "messages[].content[].content[].citations": "citations are not written",
    "thinking.budget_tokens": Ignored(
        "max_tokens bounds thinking and answer together",
        kind=Annotated[int, msgspec.Meta(ge=1)],
        limit="a whole number from 1",
    ),
    "thinking.display": "thinking is shown as it is",
    "context_management": "nothing is taken out of a conversation",
    "diagnostics": "the log and the metrics tell of the cache",
    "inference_geo": "there is one place",
    "metadata": Ignored(
        "requests are told apart by their API key", kind=dict[str, Any], limit="an object"
    ),
    "service_tier": EACH_ALIKE,
    "speed": EACH_ALIKE,
    "user_profile_id": "requests are told apart by their API key",
    "workspace_id": "there is one workspace",
}
WORDS = {
    "stop_sequences": "the one that ended the answer is told in stop_sequence",
    "thinking": "enabled, adaptive and between_tools let the template open its reasoning",
    "output_config": "effort goes to the template; format constrains the answer",
}

MESSAGES = Fields(MessagesRequest, REFUSED, IGNORED, WORDS)
SAMPLING = ("max_tokens", "stream", "stop_sequences", "temperature", "top_p", "top_k")
COUNT = Fields(
    CountRequest, REFUSED, {**IGNORED, **dict.fromkeys(SAMPLING, "a prompt is counted without it")}
)
