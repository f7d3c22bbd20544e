"""The request of OpenAI's Responses API, and what becomes of each of its fields.

Source: the public reference of that API and the types of its Python client. Numbers are judged by
SamplingParams. Knows no engine and no event.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from pyrite.server.fields import Fields, Ignored, Refused


class InputText(msgspec.Struct, tag="input_text"):
    text: str


class OutputText(msgspec.Struct, tag="output_text"):
    text: str


class PlainText(msgspec.Struct, tag="text"):
    text: str


class Refusal(msgspec.Struct, tag="refusal"):
    refusal: str


Part = InputText | OutputText | PlainText | Refusal


class Message(msgspec.Struct, tag="message"):
    role: Literal["user", "assistant", "system", "developer"]
    content: str | list[Part] | None = None
    id: str | None = None
    status: str | None = None
    phase: str | None = None


class FunctionCall(msgspec.Struct, tag="function_call"):
    call_id: str
    name: str
    arguments: str | None = None
    id: str | None = None
    status: str | None = None


class FunctionCallOutput(msgspec.Struct, tag="function_call_output"):
    call_id: str
    output: str | list[Part] | None = None
    id: str | None = None
    status: str | None = None


class ReasoningText(msgspec.Struct):
    text: str
    type: Literal["reasoning_text", "summary_text"]


class ReasoningItem(msgspec.Struct, tag="reasoning"):
    """Its content is read, or its summary where it has no content."""

    summary: list[ReasoningText] = msgspec.field(default_factory=list)
    content: list[ReasoningText] | None = None
    id: str | None = None
    status: str | None = None


Item = Message | FunctionCall | FunctionCallOutput | ReasoningItem


class FunctionTool(msgspec.Struct, tag="function"):
    name: str
    parameters: dict[str, Any] | None = None
    strict: bool | None = None
    description: str | None = None


class NamedFunction(msgspec.Struct, tag="function"):
    name: str


class AllowedTools(msgspec.Struct, tag="allowed_tools"):
    mode: Literal["auto", "required"]
    tools: list[NamedFunction]


ToolChoice = Literal["none", "auto", "required"] | NamedFunction | AllowedTools


class PlainFormat(msgspec.Struct, tag="text"):
    pass


class JsonObjectFormat(msgspec.Struct, tag="json_object"):
    pass


class JsonSchemaFormat(msgspec.Struct, tag="json_schema"):
    name: str
    schema: dict[str, Any]
    description: str | None = None
    strict: bool | None = None


Format = PlainFormat | JsonObjectFormat | JsonSchemaFormat


class Text(msgspec.Struct):
    format: Format | None = None


class Reasoning(msgspec.Struct):
    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    summary: Literal["auto", "concise", "detailed"] | None = None


class ResponsesRequest(msgspec.Struct, kw_only=True):
    input: str | list[Item]
    model: str | None = None
    instructions: str | None = None
    stream: bool = False
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_logprobs: int | None = None
    include: list[str] = msgspec.field(default_factory=list)
    tools: list[FunctionTool] = msgspec.field(default_factory=list)
    tool_choice: ToolChoice = "auto"
    parallel_tool_calls: bool = True
    text: Text = msgspec.field(default_factory=Text)
    reasoning: Reasoning = msgspec.field(default_factory=Reasoning)
    metadata: dict[str, str] = msgspec.field(default_factory=dict)


NO_MEMORY = "answers are not kept: send the whole conversation in `input`"
TEXT_ALONE = Refused("this engine reads text alone")
CACHED = "every prefix of a prompt is cached without being asked for"
NOT_TOLD_APART = "requests are told apart by their API key"
BY_THE_MODEL = "functions are called by the model alone"
NO_NAMESPACES = "functions have no namespaces"

RESPONSES = Fields(
    ResponsesRequest,
    refused={
        "previous_response_id": Refused(NO_MEMORY),
        "conversation": Refused(NO_MEMORY),
        "prompt": Refused("no prompts are kept here: send the text in `instructions` and `input`"),
        "background": Refused("an answer belongs to its request: stream it", harmless=(False,)),
        "moderation": Refused("there is no model that moderates"),
        "input[].type": Refused("other items belong to tools that this server does not have"),
        "input[].content[].type": TEXT_ALONE,
        "input[].output[].type": TEXT_ALONE,
        "tools[].type": Refused("no tools are run here: give functions, and run them yourself"),
        "tool_choice.type": Refused("there are no other tools than functions"),
        "tool_choice.tools[].type": Refused("there are no other tools than functions"),
    },
    ignored={
        "store": Ignored(NO_MEMORY, harmless=(False,)),
        "truncation": Ignored(
            "a prompt that is too long is refused, never cut", harmless=("disabled",)
        ),
        "service_tier": Ignored("every request is served alike", harmless=("auto", "default")),
        "stream_options": Ignored(
            "streams are never obfuscated", harmless=({}, {"include_obfuscation": False})
        ),
        "access_programs": "there is one program",
        "background_options": "nothing runs in the background",
        "context_management": "nothing is taken out of a conversation",
        "image": "there are no images",
        "max_tool_calls": "it bounds tools that the server runs, and there are none",
        "prompt_cache_key": CACHED,
        "prompt_cache_options": CACHED,
        "prompt_cache_retention": CACHED,
        "safety_identifier": NOT_TOLD_APART,
        "user": NOT_TOLD_APART,
        "reasoning.context": "the template decides what reasoning it shows again",
        "reasoning.generate_summary": "its name is reasoning.summary",
        "reasoning.mode": "there is one mode",
        "text.verbosity": Ignored("templates know no verbosity", harmless=("medium",)),
        "input[].caller": BY_THE_MODEL,
        "input[].async": BY_THE_MODEL,
        "input[].namespace": NO_NAMESPACES,
        "input[].encrypted_content": "only the server that wrote it can read it",
        "input[].content[].annotations": Ignored("templates have no place for them", ([],)),
        "input[].content[].logprobs": Ignored("a prompt's tokens are not scored again", ([],)),
        "input[].content[].prompt_cache_breakpoint": CACHED,
        "input[].output[].prompt_cache_breakpoint": CACHED,
        "tools[].allowed_callers": BY_THE_MODEL,
        "tools[].async": BY_THE_MODEL,
        "tools[].defer_loading": "every tool is shown to the model",
        "tools[].output_schema": "templates have no place for it",
    },
    words={
        "include": "message.output_text.logprobs; what belongs to absent tools is ignored",
        "reasoning": "effort goes to the template; with summary, reasoning is its own summary",
        "top_logprobs": "asks for log-probabilities also without include",
    },
)
