"""Conversations to prompts: messages are mended, turns opened once, prefills continued."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pyrite.errors import ParameterError, TemplateError
from pyrite.text.chat import chat_segments, encode_chat
from pyrite.text.messages import CallShape, normalize
from pyrite.text.template import ChatTemplate

DATA = json.loads((Path(__file__).parent.parent / "golden" / "chat_templates.json").read_text())
CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
HISTORY = [
    {"role": "user", "content": "1+1?"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "content": "2", "tool_call_id": "c1"},
    {"role": "user", "content": "and now?"},
]


def template_of(name: str) -> ChatTemplate:
    entry = DATA["templates"][name]
    return ChatTemplate(
        entry["template"], bos_token=entry["bos_token"], eos_token=entry["eos_token"]
    )


def text(template: ChatTemplate, messages: Sequence[Any], **kwargs: Any) -> str:
    return "".join(part for part, _ in chat_segments(template, messages, **kwargs))


@pytest.mark.parametrize("name", ["qwen2.5", "qwen3", "llama-3.1", "smollm2-gguf", "granite-3.3"])
@pytest.mark.parametrize("absent", [False, True])
def test_null_content_is_empty(name: str, absent: bool) -> None:
    history = [dict(message) for message in HISTORY]
    if absent:
        del history[1]["content"]
    if name == "smollm2-gguf":  # its template knows no calls
        assert "<|im_start|>assistant\n<|im_end|>" in text(template_of(name), history)
    rendered = text(template_of(name), history)
    assert "None" not in rendered
    assert "null" not in rendered


def test_calls_appear_where_a_template_wants_null() -> None:
    """Some templates pass over the calls of a message whose content is an empty string."""
    template = template_of("deepseek-r1-distill-qwen-gguf")
    assert template.call_shape == CallShape("text", null_content=True)
    rendered = text(template, HISTORY)
    assert '{"a": 1}' in rendered
    assert "None" not in rendered


def test_empty_calls_are_removed() -> None:
    source = (
        "{% for m in messages %}{% if 'tool_calls' in m %}{% if m.tool_calls|length != 1 %}"
        "{{ raise_exception('one call') }}{% endif %}{% endif %}{{ m.content }}{% endfor %}"
    )
    messages = [{"role": "assistant", "content": "hi", "tool_calls": []}]
    assert text(ChatTemplate(source), messages) == "hi"
    assert text(ChatTemplate(source), [{**messages[0], "tool_calls": None}]) == "hi"


ITEMS = (
    "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.function.name }}:"
    "{% for k, v in c.function.arguments|items %}{{ k }}={{ v }};{% endfor %}{% endfor %}"
    "{% endfor %}"
)
CONCATENATED = (
    "{% for m in messages %}{% for c in m.tool_calls or [] %}"
    "{{ c.function.name + ':' + c.function.arguments }}{% endfor %}{% endfor %}"
)
AS_JSON = CONCATENATED.replace("+ c.function.arguments", "~ c.function.arguments|tojson")
PRINTED = CONCATENATED.replace("+ c.function.arguments", "~ c.function.arguments")


@pytest.mark.parametrize(
    ("arguments", "items", "written"),
    [
        ('{"a": 1}', "add:a=1;", 'add:{"a": 1}'),
        ({"a": 1}, "add:a=1;", 'add:{"a": 1}'),
        ("", "add:", "add:{}"),
        (None, "add:", "add:{}"),
        ("null", "add:", "add:{}"),
        ('{"é": "ü"}', "add:é=ü;", 'add:{"é": "ü"}'),
    ],
)
def test_arguments_take_the_templates_shape(arguments: Any, items: str, written: str) -> None:
    """One JSON text, encoded once, whichever shape came in."""
    call = {**CALL, "function": {"name": "add", "arguments": arguments}}
    messages = [{"role": "assistant", "content": "", "tool_calls": [call]}]
    assert text(ChatTemplate(ITEMS), messages) == items
    for source in (CONCATENATED, AS_JSON, PRINTED):
        assert text(ChatTemplate(source), messages) == written


@pytest.mark.parametrize("arguments", ["{", "[1]", "1", [1], '"text"', "[" * 100_000])
def test_arguments_that_are_no_object(arguments: Any) -> None:
    call = {**CALL, "function": {"name": "add", "arguments": arguments}}
    messages = [{"role": "assistant", "tool_calls": [call]}]
    with pytest.raises(ParameterError, match=r"messages\[0\]\.tool_calls\[0\]\.function\.arg"):
        text(ChatTemplate(ITEMS), messages)


def test_parts_are_joined() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}, "c"]
    assert normalize([{"role": "user", "content": parts}])[0]["content"] == "abc"
    with pytest.raises(ParameterError, match=r"content\[0\]\.type = 'image_url'"):
        normalize([{"role": "user", "content": [{"type": "image_url"}]}])


@pytest.mark.parametrize(
    "messages",
    ["hi", [1], [{"content": "x"}], [{"role": "user", "content": 5}], [{"role": 1}]],
)
def test_messages_of_the_wrong_kind(messages: Any) -> None:
    with pytest.raises(ParameterError):
        normalize(messages)


def test_lone_surrogate_names_its_field() -> None:
    with pytest.raises(ParameterError, match=r"messages\[0\]\.content"):
        normalize([{"role": "user", "content": "cut \ud83d"}])
    call = {"function": {"name": "f", "arguments": '{"a": "\\ud83d"}'}}
    with pytest.raises(ParameterError, match=r"tool_calls\[0\]\.function\.arguments\.a"):
        normalize([{"role": "assistant", "tool_calls": [call]}])


def test_given_messages_stay_as_they_are() -> None:
    before = json.dumps(HISTORY)
    text(template_of("qwen2.5"), HISTORY)
    assert json.dumps(HISTORY) == before


def test_unknown_role_is_the_templates_business() -> None:
    rendered = text(template_of("smollm2-gguf"), [{"role": "critic", "content": "x"}])
    assert "<|im_start|>critic\nx<|im_end|>" in rendered


def test_default_system_prompt_and_opener() -> None:
    template = template_of("smollm2-gguf")
    user = {"role": "user", "content": "Hi"}
    default = "<|im_start|>system\nYou are a helpful AI assistant named SmolLM"
    asked = text(template, [user])
    assert asked.startswith(default)
    assert asked.endswith("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
    assert asked.count("<|im_start|>assistant") == 1
    closed = text(template, [user], add_generation_prompt=False)
    assert closed + "<|im_start|>assistant\n" == asked
    explicit = text(template, [{"role": "system", "content": ""}, user])
    assert explicit.startswith("<|im_start|>system\n<|im_end|>\n<|im_start|>user")
    prefilled = text(
        template, [user, {"role": "assistant", "content": "Well"}], continue_final_message=True
    )
    assert prefilled == asked + "Well"


@pytest.mark.parametrize("name", DATA["templates"])
@pytest.mark.parametrize("prefill", ["The answer is", "end", "Sure: ", "assistant"])
def test_prefill_leaves_the_turn_open(name: str, prefill: str) -> None:
    messages = [{"role": "user", "content": "Q?"}, {"role": "assistant", "content": prefill}]
    tools = DATA["templates"][name].get("tools_when_absent")
    rendered = text(template_of(name), messages, tools=tools, continue_final_message=True)
    assert rendered.endswith((prefill, prefill.strip()))
    whole = text(template_of(name), messages, tools=tools, add_generation_prompt=False)
    assert whole.startswith(rendered)


def test_prefill_needs_an_assistant_message() -> None:
    with pytest.raises(ParameterError, match="assistant"):
        text(template_of("qwen3"), HISTORY, continue_final_message=True)
    with pytest.raises(ParameterError, match="assistant"):
        text(template_of("qwen3"), [], continue_final_message=True)
    changing = ChatTemplate("{{ messages[-1].content|upper }}")
    with pytest.raises(TemplateError, match="cannot be continued"):
        text(changing, [{"role": "assistant", "content": "abc"}], continue_final_message=True)


def test_empty_prefill_opens_the_turn() -> None:
    user = {"role": "user", "content": "Hi"}
    template = template_of("smollm2-gguf")
    empty = [user, {"role": "assistant", "content": ""}]
    assert text(template, empty, continue_final_message=True) == text(template, [user])


def test_no_template() -> None:
    with pytest.raises(TemplateError, match=r"no chat template.*generate"):
        text(None, HISTORY)  # type: ignore[arg-type]


class Recorder:
    """Stands in for a tokenizer: keeps what it was asked to encode."""

    def encode_segments(
        self, segments: Sequence[tuple[str, bool]], *, bos: bool = False
    ) -> NDArray[np.int32]:
        self.segments = list(segments)
        self.bos = bos
        return np.arange(3, dtype=np.int32)


def test_encode_passes_origins_on() -> None:
    recorder = Recorder()
    ids = encode_chat(recorder, template_of("smollm2-gguf"), [{"role": "user", "content": "<s>"}])
    assert ids.tolist() == [0, 1, 2]
    assert ("<s>", False) in recorder.segments
    assert recorder.bos
