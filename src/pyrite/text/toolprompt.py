"""Conversations with tools, mended for the chat template that has to write them.

Most templates list the tools, and write calls and their results. What one leaves out is written
here into the messages: the list of tools into the system message, calls into the content of the
answer that made them, results (for a template that knows nothing of tools) into a user's message.
So every model can be offered tools, in the manner that the Hermes models were taught if it was
taught none. A template is asked what it does by rendering small conversations through it, once.
"""

from __future__ import annotations

import hashlib
import json
import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyrite.text import traced
from pyrite.text.calls.bodies import CallFormat, ChannelBody
from pyrite.text.calls.write import write_calls
from pyrite.text.messages import normalize
from pyrite.text.template import ChatTemplate
from pyrite.text.toolcalls import (
    GENERIC,
    PROBE,
    PROBE_TOOL,
    probe_messages,
    render_or_nothing,
    signed_format,
    written_format,
)

Message = dict[str, Any]

REASONING_FIELDS = ("reasoning_content", "reasoning", "thinking")  # as clients and templates say
SHORT_ID = re.compile(r"[A-Za-z0-9]{9}")
SHORT_ID_LETTERS = string.ascii_letters + string.digits


@dataclass(frozen=True, slots=True)
class ToolManners:
    """How a template treats tools, and in which format its model calls them."""

    calls: CallFormat
    taught: bool  # the model knows this format: it is the template's
    lists_tools: bool
    writes_calls: bool
    writes_results: bool
    system_role: bool  # takes a system message
    developer_role: bool
    short_ids: bool  # refuses ids of calls that are not nine letters and digits

    needs_list: bool  # refuses tools that are absent, and takes an empty list

    @classmethod
    def of(cls, template: ChatTemplate) -> ToolManners:
        written = written_format(template)
        found = written or signed_format(template.source)
        question, answer = probe_messages(template)
        result = {"role": "tool", "name": PROBE[0], "content": "probe result"}
        result["tool_call_id"] = "probe0000"
        long_id = {**answer, "tool_calls": [{**answer["tool_calls"][0], "id": "call_" + "0" * 24}]}

        def render(*messages: Message) -> str:
            return render_or_nothing(template, messages, [PROBE_TOOL])

        called = render(question, answer, result)
        told = render(question, {"role": "assistant", "content": "probe"}, result)
        absent = render_or_nothing(template, [question])
        return cls(
            calls=found or GENERIC,
            taught=found is not None,
            lists_tools="probe tool" in render(question),
            writes_calls=written is not None,
            writes_results=found is not None and "probe result" in (called or told),
            system_role="probe system" in render(_system("probe system"), question),
            developer_role=re.search("[\"']developer[\"']", template.source) is not None,
            short_ids=called != "" and render(question, long_id, result) == "",
            needs_list=absent == "" and render(question) != "",
        )


def mend_plain(messages: Sequence[Mapping[str, Any]]) -> list[Message]:
    """The messages that every template is given. Raises ParameterError."""
    return [_with_reasoning(message) for message in normalize(messages)]


def is_plain(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> bool:
    """Whether no tool and no rare role is in sight, so that any template will do."""
    return not tools and not any(
        message["role"] in ("tool", "developer") or message.get("tool_calls")
        for message in messages
    )


def mend(
    manners: ToolManners, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
) -> tuple[list[Message], list[Mapping[str, Any]] | None]:
    """Messages (those of `mend_plain`) and tools as the template is to have them."""
    mended = _with_names(messages)
    if isinstance(manners.calls.body, ChannelBody):
        mended = [_one_text_beside_a_call(message) for message in mended]
    if not manners.developer_role:
        mended = _developers_as_system(mended)
    if manners.short_ids:
        mended = [_with_short_ids(message) for message in mended]
    if not manners.writes_calls:
        mended = [_with_written_calls(message, manners.calls) for message in mended]
    if not manners.writes_results:
        mended = _results_as_user(mended)
    if tools and not manners.lists_tools:
        return _with_list(mended, describe(manners, tools), manners), None
    return mended, list(tools) or ([] if manners.needs_list else None)


def describe(manners: ToolManners, tools: Sequence[Mapping[str, Any]]) -> str:
    """What a model is told of the tools, for a template that does not tell."""
    listed = "\n".join(json.dumps(tool["function"], ensure_ascii=False) for tool in tools)
    intro = (
        f"# Tools\n\nYou can call these functions:\n<tools>\n{listed}\n</tools>\n\n"
        "To call one, answer with its name and its arguments in exactly this form:\n"
    )
    example = write_calls(manners.calls, [("function-name", {"argument-name": "value"})])
    if manners.writes_results:
        return traced.joined("", [intro, example])
    after = "\n\nIts result comes back between <tool_response> and </tool_response>."
    return traced.joined("", [intro, example, after])


def _system(text: str) -> Message:
    return {"role": "system", "content": text}


def _with_list(messages: list[Message], text: str, manners: ToolManners) -> list[Message]:
    """The list of tools in the system message, or before the first words of the user."""
    if manners.system_role:
        if messages and messages[0]["role"] == "system":
            return [{**messages[0], "content": _paragraphs(messages[0], text)}, *messages[1:]]
        return [_system(text), *messages]
    for index, message in enumerate(messages):
        if message["role"] == "user":
            asked = {**message, "content": traced.joined("\n\n", [text, message["content"]])}
            return [*messages[:index], asked, *messages[index + 1 :]]
    return [{"role": "user", "content": text}, *messages]


def _paragraphs(message: Message, text: str) -> str:
    return traced.joined("\n\n", [part for part in (message["content"], text) if part])


def _with_reasoning(message: Message) -> Message:
    """Reasoning of an earlier answer, under each name that a template may look for."""
    thought = next((message[f] for f in REASONING_FIELDS if isinstance(message.get(f), str)), None)
    if message["role"] != "assistant" or not thought:
        return _without_reasoning(message)
    return {**message, **dict.fromkeys(REASONING_FIELDS, thought)}


def _without_reasoning(message: Message) -> Message:
    return {key: message[key] for key in message if key not in REASONING_FIELDS}


def _one_text_beside_a_call(message: Message) -> Message:
    """GPT-OSS's template takes content or reasoning beside a call, and writes it as reasoning."""
    thought, content = message.get("thinking"), message["content"]
    if not (thought and content and message.get("tool_calls")):
        return message
    return _without_reasoning({**message, "content": f"{thought}\n\n{content}"})


def _with_names(messages: Sequence[Message]) -> list[Message]:
    """A result names the function that was called, which clients leave to its id."""
    names = {
        call.get("id"): call["function"]["name"]
        for message in messages
        for call in message.get("tool_calls") or ()
    }
    return [
        {"name": names[message.get("tool_call_id")], **message}
        if message["role"] == "tool" and message.get("tool_call_id") in names
        else message
        for message in messages
    ]


def _developers_as_system(messages: list[Message]) -> list[Message]:
    """The role that newer clients use for the system's, which few templates know."""
    mended: list[Message] = []
    for message in messages:
        if message["role"] != "developer":
            mended.append(message)
        elif mended and mended[-1]["role"] == "system":
            mended[-1] = {**mended[-1], "content": _paragraphs(mended[-1], message["content"])}
        else:
            mended.append({**message, "role": "system"})
    return mended


def _with_short_ids(message: Message) -> Message:
    if message["role"] == "tool" and isinstance(message.get("tool_call_id"), str):
        return {**message, "tool_call_id": short_id(message["tool_call_id"])}
    calls = message.get("tool_calls")
    if not calls:
        return message
    return {**message, "tool_calls": [{**call, "id": short_id(call.get("id"))} for call in calls]}


def short_id(call_id: Any) -> str:
    """Nine letters and digits that stand for an id: the same ones each time."""
    if isinstance(call_id, str) and SHORT_ID.fullmatch(call_id):
        return call_id
    digest = hashlib.blake2b(repr(call_id).encode(), digest_size=9).digest()
    return "".join(SHORT_ID_LETTERS[byte % len(SHORT_ID_LETTERS)] for byte in digest)


def _with_written_calls(message: Message, format: CallFormat) -> Message:
    calls = message.get("tool_calls")
    if not calls:
        return message
    pairs = [(call["function"]["name"], call["function"]["arguments"]) for call in calls]
    rest = {key: message[key] for key in message if key != "tool_calls"}
    texts = [text for text in (message["content"], write_calls(format, pairs)) if text]
    return {**rest, "content": traced.joined("\n", texts)}


def _results_as_user(messages: list[Message]) -> list[Message]:
    """Results that follow one another, and what the user says after them, are one message."""
    mended: list[Message] = []
    after_result = False
    for message in messages:
        is_result = message["role"] == "tool"
        if is_result:
            text = f"<tool_response>\n{message['content']}\n</tool_response>"
            message = {"role": "user", "content": text}
        if after_result and message["role"] == "user":
            joined = traced.joined("\n", [mended[-1]["content"], message["content"]])
            mended[-1] = {**mended[-1], "content": joined}
        else:
            mended.append(message)
        after_result = is_result
    return mended
