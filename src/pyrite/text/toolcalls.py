"""The formats of tool calls, one row a family, and which of them a chat template is written for.

A family is told by what its template does: the first row wins whose parser reads the calls that the
template wrote. A template that writes none, because its authors left the calls to the model, is
told by the markers that stand in it. Knows no model and no tokenizer.

Sources: the chat templates that the families publish, and their model cards.
"""

from __future__ import annotations

import json
from typing import Any

from pyrite.errors import TemplateError
from pyrite.text.answer import CallArguments, CallStart
from pyrite.text.answers import AnswerParser
from pyrite.text.calls import channels
from pyrite.text.calls.bodies import (
    BracedBody,
    CallFormat,
    ChannelBody,
    JsonBody,
    NamedBody,
    PythonBody,
    TagBody,
)
from pyrite.text.calls.parse import Tools
from pyrite.text.messages import normalize
from pyrite.text.template import ChatTemplate

HERMES = CallFormat(
    "hermes",
    ("<tool_call>",),
    "</tool_call>",
    JsonBody(),
    between="\n",
    padding="\n",
    signs=("<tool_call>",),
)

FORMATS = (
    CallFormat(
        "harmony", ("<|channel|>",), "", ChannelBody(), channels.MARKERS, signs=("<|channel|>",)
    ),
    CallFormat(
        "qwen-coder",
        ("<tool_call>",),
        "</tool_call>",
        TagBody(
            "<function=", ">", "<parameter=", ">", "", "</parameter>", "</function>", lines=True
        ),
        between="\n",
        padding="\n",
        signs=("<function=",),
    ),
    CallFormat(
        "seed",
        ("<seed:tool_call>",),
        "</seed:tool_call>",
        TagBody("<function=", ">", "<parameter=", ">", "", "</parameter>", "</function>"),
        between="\n",
        padding="\n",
        signs=("<seed:tool_call>",),
    ),
    CallFormat(
        "minimax",
        ("<minimax:tool_call>",),
        "</minimax:tool_call>",
        TagBody('<invoke name="', '">', '<parameter name="', '">', "", "</parameter>", "</invoke>"),
        between="\n",
        padding="\n",
        signs=("<minimax:tool_call>",),
    ),
    CallFormat(
        "glm",
        ("<tool_call>",),
        "",
        TagBody("", "", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "</tool_call>"),
        inner=("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "</tool_call>"),
        between="\n",
        signs=("<arg_key>",),
    ),
    HERMES,
    CallFormat(
        "kimi",
        ("<|tool_calls_section_begin|>",),
        "<|tool_calls_section_end|>",
        NamedBody(
            "<|tool_call_begin|>",
            "<|tool_call_argument_begin|>",
            "<|tool_call_end|>",
            name_is_id=True,
        ),
        inner=("<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"),
        signs=("<|tool_calls_section_begin|>",),
    ),
    CallFormat(
        "deepseek-r1",
        ("<｜tool▁calls▁begin｜>",),
        "<｜tool▁calls▁end｜>",
        NamedBody(
            "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
            "\n```json\n",
            "\n```<｜tool▁call▁end｜>",
        ),
        inner=("<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"),
        between="\n",
        signs=("<｜tool▁calls▁begin｜>", "```json"),
    ),
    CallFormat(
        "deepseek-v3",
        ("<｜tool▁calls▁begin｜>",),
        "<｜tool▁calls▁end｜>",
        NamedBody("<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"),
        inner=("<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"),
        signs=("<｜tool▁calls▁begin｜>",),
    ),
    CallFormat(
        "cohere",
        ("<|START_ACTION|>",),
        "<|END_ACTION|>",
        JsonBody("tool_name", "parameters", listed=True, id_key="tool_call_id"),
        between=", ",
        signs=("<|START_ACTION|>",),
    ),
    CallFormat(
        "mistral",
        ("[TOOL_CALLS]",),
        "",
        NamedBody("", "[ARGS]", before_id="[CALL_ID]"),
        inner=("[CALL_ID]", "[ARGS]"),
        short_ids=True,
        signs=("[TOOL_CALLS]", "[ARGS]"),
    ),
    CallFormat(
        "mistral-list",
        ("[TOOL_CALLS]",),
        "",
        JsonBody(listed=True),
        between=", ",
        short_ids=True,
        signs=("[TOOL_CALLS]",),
    ),
    CallFormat(
        "granite",
        ("<|tool_call|>",),
        "<|/tool_call|>",
        JsonBody(listed=True),
        between=", ",
        signs=("<|tool_call|>",),
    ),
    CallFormat(
        "nemotron",
        ("<TOOLCALL>",),
        "</TOOLCALL>",
        JsonBody(listed=True),
        between=", ",
        signs=("<TOOLCALL>",),
    ),
    CallFormat(
        "lfm2",
        ("<|tool_call_start|>",),
        "<|tool_call_end|>",
        PythonBody(),
        between=", ",
        signs=("<|tool_list_start|>",),
    ),
    CallFormat(
        "olmo",
        ("<function_calls>",),
        "</function_calls>",
        PythonBody(listed=False),
        between="\n",
        padding="\n",
        signs=("<function_calls>",),
    ),
    CallFormat(
        "functiongemma",
        ("<start_function_call>",),
        "<end_function_call>",
        BracedBody(),
        inner=("<escape>",),
        signs=("<start_function_call>",),
    ),
    CallFormat(
        "gemma4",
        ("<|tool_call>",),
        "<tool_call|>",
        BracedBody('<|"|>'),
        inner=('<|"|>',),
        signs=("<|tool_call>",),
    ),
    CallFormat(
        "llama4",
        ("<|python_start|>",),
        "<|python_end|>",
        PythonBody(),
        between=", ",
        bare=True,
        signs=("<|python_start|>",),
    ),
    CallFormat(
        "llama3",
        ("<|python_tag|>",),
        "",
        JsonBody("name", "parameters"),
        bare=True,
        separator=";",
        signs=("<|python_tag|>",),
    ),
)
GENERIC = HERMES  # for a model whose template knows no tools

PROBE = ("probe_name", {"probe_key": "probe value"})
PROBE_TOOL = {
    "type": "function",
    "function": {
        "name": PROBE[0],
        "description": "probe tool",
        "parameters": {
            "type": "object",
            "properties": {"probe_key": {"type": "string", "description": "probe text"}},
            "required": ["probe_key"],
        },
    },
}


def find_format(template: ChatTemplate) -> CallFormat | None:
    """The row that a template is written for; None for one that knows nothing of calls."""
    return written_format(template) or signed_format(template.source)


def written_format(template: ChatTemplate) -> CallFormat | None:
    """The row whose calls the template writes; None where it writes none that can be read."""
    written = _written_calls(template)
    for row in FORMATS:
        if any(whole_calls(row, text, {PROBE[0]: {}}) == [PROBE] for text in written):
            return row
    return None


def signed_format(template_source: str) -> CallFormat | None:
    """The row whose markers stand in the template."""
    for row in FORMATS:
        if row.signs and all(sign in template_source for sign in row.signs):
            return row
    return None


def whole_calls(format: CallFormat, answer: str, tools: Tools) -> list[tuple[str, Any]]:
    """Names and arguments of the calls in an answer; none if one of them is broken."""
    parser = AnswerParser(format, None, tools=tools)
    pieces = [*parser.push(answer), *parser.finish()]
    names = [piece.name for piece in pieces if isinstance(piece, CallStart)]
    texts = [""] * len(names)
    for piece in pieces:
        if isinstance(piece, CallArguments):
            texts[piece.index] += piece.text
    try:
        return [(name, json.loads(text)) for name, text in zip(names, texts, strict=True)]
    except ValueError:
        return []


def probe_messages(template: ChatTemplate) -> list[dict[str, Any]]:
    """A question, and an answer that calls the probe's tool."""
    name, arguments = PROBE
    function = {"name": name, "arguments": arguments}
    call = {"id": "probe0000", "type": "function", "function": function}
    answer = {"role": "assistant", "content": None, "tool_calls": [call]}
    return normalize([{"role": "user", "content": "probe"}, answer], template.call_shape)


def render_or_nothing(template: ChatTemplate, *arguments: Any, **options: Any) -> str:
    """The template's text; "" where it refuses."""
    try:
        return template.render(*arguments, **options)
    except TemplateError:
        return ""


def _written_calls(template: ChatTemplate) -> list[str]:
    """What the template makes of an answer with a call: without the turn's beginning if that is
    what the template adds to a prompt, else with it."""
    messages = probe_messages(template)
    whole = render_or_nothing(template, messages, [PROBE_TOOL], add_generation_prompt=False)
    prompts = [
        render_or_nothing(template, messages[:1], [PROBE_TOOL], add_generation_prompt=opened)
        for opened in (True, False)
    ]
    return [whole[len(prompt) :] for prompt in prompts if prompt and whole.startswith(prompt)]
