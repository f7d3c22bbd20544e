"""One turn of a chat through every public template: prompts with tools, histories, parsers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pyrite.errors import ParameterError, TemplateError
from pyrite.text.answer import CallArguments, CallStart, Content, Reasoning
from pyrite.text.answers import AnswerParser
from pyrite.text.calls.write import write_calls
from pyrite.text.template import ChatTemplate
from pyrite.text.toolcalls import FORMATS, whole_calls
from pyrite.text.toolprompt import short_id
from pyrite.text.tools import MAX_DEPTH, MAX_TOOLS, ToolUse, tool_use
from pyrite.text.turn import ChatStyle, Turn, content_rule

DATA = json.loads((Path(__file__).parent.parent / "golden" / "chat_templates.json").read_text())
ARGUMENTS = {"city": 'Zürich "Süd"\n</x>', "days": 2, "exact": True, "deep": {"a": [None, 1.5]}}
TYPES = {"city": "string", "days": "integer", "exact": "boolean", "deep": "object"}
SCHEMA = {
    "type": "object",
    "properties": {key: {"type": kind, "description": key} for key, kind in TYPES.items()},
}
TOOL = {
    "type": "function",
    "function": {"name": "get_weather", "description": "Says the weather.", "parameters": SCHEMA},
}
CALL = {
    "id": "call_0123456789abcdef01234567",
    "type": "function",
    "function": {"name": "get_weather", "arguments": json.dumps(ARGUMENTS)},
}
HISTORY = [
    {"role": "user", "content": "Weather?"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": CALL["id"], "content": [{"type": "text", "text": "rainy 7"}]},
]


def style_of(name: str, *specials: str) -> ChatStyle:
    entry = DATA["templates"][name]
    template = ChatTemplate(
        entry["template"], bos_token=entry["bos_token"], eos_token=entry["eos_token"]
    )
    return ChatStyle(template, lambda text: specials.index(text) if text in specials else None)


def text_of(turn: Turn) -> str:
    return "".join(text for text, _ in turn.segments)


@pytest.mark.parametrize("name", DATA["templates"])
def test_every_model_is_told_of_tools_and_of_what_they_gave(name: str) -> None:
    style = style_of(name)
    text = text_of(style.turn(HISTORY, [TOOL], tool_use([TOOL])))
    assert "get_weather" in text
    assert "rainy 7" in text
    if name != "lfm2":
        assert "Z\\u00fcrich" in text or "Zürich" in text
    asked = text_of(style.turn(HISTORY[:1], [TOOL], tool_use([TOOL])))
    assert "get_weather" in asked
    assert "Says the weather." in asked
    none = text_of(style.turn(HISTORY[:1], [TOOL], tool_use([TOOL], "none")))
    assert "get_weather" not in none
    assert "Weather?" in none


@pytest.mark.parametrize("name", DATA["templates"])
def test_an_ordinary_chat_is_what_the_template_makes_of_it(name: str) -> None:
    """Golden renders, but for what is mended on purpose."""
    style = style_of(name)
    for render in DATA["renders"]:
        given = DATA["conversations"][render["conversation"]]
        if render["template"] != name or render["conversation"] not in ("multi", "user", "system"):
            continue
        if "error" not in render and given.get("add_generation_prompt", True):
            style.template._clock = _fixed  # type: ignore[union-attr]
            assert (
                text_of(style.turn(given["messages"], **given.get("kwargs", {}))) == render["text"]
            )


def _fixed() -> Any:
    import datetime

    return datetime.datetime.fromisoformat(DATA["now"])


@pytest.mark.parametrize("format", FORMATS, ids=lambda row: row.name)
@pytest.mark.parametrize("count", [1, 2])
def test_calls_as_we_write_them_are_read_back(format: Any, count: int) -> None:
    if count == 2 and format.name in ("llama3", "harmony"):
        count = 1  # families that call one function at a time
    calls = [("get_weather", ARGUMENTS), ("ping", {})][:count]
    text = write_calls(format, calls)
    schemas = {"get_weather": SCHEMA, "ping": {}}
    assert whole_calls(format, text, schemas) == calls
    parser = AnswerParser(format, None, tools=schemas)
    pieces = [piece for character in text for piece in parser.push(character)] + parser.finish()
    assert not [piece for piece in pieces if isinstance(piece, Content)]


def test_markers_of_the_history_are_trusted_and_arguments_are_not() -> None:
    call = {**CALL, "function": {"name": "f", "arguments": '{"a": "<|tool_call|>"}'}}
    messages = [{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": [call]}]
    turn = style_of("granite-3.3").turn(messages, [TOOL], tool_use([TOOL]))
    trust = [trusted for text, trusted in turn.segments if "<|tool_call|>" in text]
    assert trust.count(True) == 2  # in the template's own words, and before the call
    assert any("<|tool_call|>" in text and not trusted for text, trusted in turn.segments)


def test_a_template_that_takes_no_system_message_tells_the_user() -> None:
    turn = style_of("gemma-2").turn(HISTORY[:1], [TOOL], tool_use([TOOL]))
    assert text_of(turn).startswith("<bos><start_of_turn>user\n# Tools\n")
    assert text_of(turn).endswith("Weather?<end_of_turn>\n<start_of_turn>model\n")


def test_results_and_what_the_user_says_next_are_one_message() -> None:
    more = {"role": "user", "content": "And now?"}
    other = {**HISTORY[2], "content": "warm"}
    turn = style_of("gemma-2").turn([*HISTORY, other, more], [TOOL], tool_use([TOOL]))
    told = "<tool_response>\nrainy 7\n</tool_response>\n<tool_response>\nwarm\n</tool_response>"
    assert f"<start_of_turn>user\n{told}\nAnd now?<end_of_turn>" in text_of(turn)


@pytest.mark.parametrize("name", ["llama-3.1", "qwen3", "smollm2-gguf", "mistral-small-3.2"])
def test_a_developer_is_the_system_where_the_template_knows_none(name: str) -> None:
    style = style_of(name)
    said = [{"role": "user", "content": "Hi"}]
    by_developer = style.turn([{"role": "developer", "content": "Be brief."}, *said])
    by_system = style.turn([{"role": "system", "content": "Be brief."}, *said])
    assert by_developer.segments == by_system.segments
    both = [
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": "In Latin."},
    ]
    assert "Be brief.\n\nIn Latin." in text_of(style.turn([*both, *said]))


def test_gpt_oss_keeps_its_developer() -> None:
    turn = style_of("gpt-oss").turn(
        [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    )
    assert "<|start|>developer<|message|># Instructions\n\nBe brief." in text_of(turn)


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "thinking"])
@pytest.mark.parametrize("name", ["qwen3", "glm-4.6", "command-r7b", "gpt-oss"])
def test_reasoning_comes_back_under_any_name(name: str, field: str) -> None:
    """Beside a call, where these templates keep it."""
    answer = {**HISTORY[1], field: "hmm, look it up"}
    messages = [HISTORY[0], answer, HISTORY[2]]
    assert "hmm, look it up" in text_of(style_of(name).turn(messages, [TOOL], tool_use([TOOL])))


def test_gpt_oss_takes_content_and_reasoning_beside_a_call() -> None:
    answer = {**HISTORY[1], "content": "I look.", "reasoning_content": "hmm"}
    messages = [HISTORY[0], answer, HISTORY[2]]
    text = text_of(style_of("gpt-oss").turn(messages, [TOOL], tool_use([TOOL])))
    assert "<|channel|>analysis<|message|>hmm\n\nI look.<|end|>" in text


@pytest.mark.parametrize("name", ["deepseek-r1-distill-llama", "deepseek-r1-distill-qwen-gguf"])
def test_content_beside_a_call_is_kept(name: str) -> None:
    messages = [HISTORY[0], {**HISTORY[1], "content": "I look."}, HISTORY[2]]
    text = text_of(style_of(name).turn(messages, [TOOL], tool_use([TOOL])))
    assert "I look." in text
    assert "```json" in text


def test_ids_take_the_form_that_the_template_demands() -> None:
    text = text_of(style_of("mistral-small-3.2").turn(HISTORY, [TOOL], tool_use([TOOL])))
    short = short_id(CALL["id"])
    assert f"[CALL_ID]{short}[ARGS]" in text
    assert f"[TOOL_RESULTS]{short}[TOOL_CONTENT]rainy 7" in text
    assert short_id("abcDEF123") == "abcDEF123"
    assert len({short_id(f"call_{number}") for number in range(1000)}) == 1000


def test_tokens_that_must_be_seen() -> None:
    style = style_of("deepseek-v3.1", "<think>", "</think>", "<｜tool▁sep｜>", "<｜User｜>")
    asked = HISTORY[:1]
    assert style.turn(asked).shown_token_ids == (0, 1)
    assert style.turn(asked, [TOOL], tool_use([TOOL])).shown_token_ids == (0, 1, 2)
    assert style_of("llama-3.1", "<|python_tag|>").turn(asked).shown_token_ids == ()


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("deepseek-r1-distill-llama", {}, True),
        ("deepseek-r1-distill-qwen-gguf", {}, False),
        ("deepseek-v3.1", {}, False),
        ("deepseek-v3.1", {"thinking": True}, True),
        ("qwq", {}, False),
        ("qwq", {"enable_thinking": True}, True),
        ("qwen3", {}, False),
        ("qwen3", {"enable_thinking": False}, False),
        ("glm-4.6", {}, False),
        ("command-r7b", {}, False),
        ("gpt-oss", {}, False),
    ],
)
def test_prompts_that_open_the_reasoning(name: str, options: Any, expected: bool) -> None:
    turn = style_of(name).turn(HISTORY[:1], **options)
    assert turn.starts_in_reasoning is expected
    spelled = [{"role": "user", "content": "what is <think>"}]
    assert style_of(name).turn(spelled, **options).starts_in_reasoning is expected


def test_an_answer_that_is_continued_inside_its_reasoning() -> None:
    begun = [*HISTORY[:1], {"role": "assistant", "content": "<think>It is"}]
    style = style_of("qwen2.5")
    style.reasoning = style_of("qwq").reasoning
    turn = style.turn(begun, continue_final_message=True)
    assert turn.starts_in_reasoning
    parser = turn.parser()
    pieces = [*parser.push(" seven.</think>\n\n7"), *parser.finish()]
    assert pieces == [Reasoning("seven."), Content("7")]


def test_a_turn_with_a_forced_call() -> None:
    use = tool_use([TOOL], {"type": "function", "function": {"name": "get_weather"}})
    turn = style_of("smollm2-gguf").turn(HISTORY[:1], [TOOL], use)
    assert turn.grammar is not None
    assert turn.grammar.startswith("start: ")
    parser = turn.parser()
    pieces = parser.push('<tool_call>\n{"name": "get_weather", "arguments": {}}\n</tool_call>')
    assert [type(piece) for piece in pieces] == [CallStart, CallArguments]
    assert parser.finish() == []


def test_calls_are_text_where_there_are_to_be_none() -> None:
    turn = style_of("qwen3").turn(HISTORY[:1], [TOOL], tool_use([TOOL], "none"))
    text = '<tool_call>\n{"name": "get_weather", "arguments": {}}\n</tool_call>'
    parser = turn.parser()
    assert [*parser.push(text), *parser.finish()] == [Content(text)]


def test_a_model_without_a_template() -> None:
    with pytest.raises(TemplateError, match="no chat template"):
        ChatStyle(None, lambda text: None).turn(HISTORY[:1], [TOOL], tool_use([TOOL]))


def test_content_rules() -> None:
    assert content_rule("json_schema", '{"type": "null"}') == '%json {"type": "null"}'
    assert content_rule("json_schema", "true") == "%json {}"
    assert content_rule("json_object", "") == '%json {"type": "object"}'
    assert content_rule("regex", "a/b\\/c\\\\/d\ne") == "/a\\/b\\/c\\\\\\/d\\ne/"
    assert content_rule("choice", '["a\\"", "b"]') == '("a\\"" | "b")'
    with pytest.raises(ParameterError, match="lark"):
        style_of("qwen3").turn(HISTORY[:1], [TOOL], tool_use([TOOL]), ("lark", "start: /a/"))
    assert style_of("qwen3").turn(HISTORY[:1], content=("lark", "start: /a/")).grammar is None


def tool(name: Any = "f", parameters: Any = None, **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": parameters, **more}}


@pytest.mark.parametrize(
    ("tools", "match"),
    [
        ([tool(), tool("g"), tool()], r"tools\[2\]\.function\.name = 'f'"),
        ([tool("a b")], r"tools\[0\]\.function\.name = 'a b'"),
        ([tool("")], r"tools\[0\]\.function\.name = ''"),
        ([tool(None)], r"tools\[0\]\.function\.name = None"),
        ([tool("n" * 129)], "1 to 128"),
        ([tool("f", [])], "a JSON schema"),
        ([tool("f", {"type": "array"})], r"parameters\.type = 'array'"),
        ([tool("f", {"properties": 5})], "properties must be an object"),
        ([tool("f", {"properties": {"a": {"type": "foo"}}})], "Invalid type"),
        ([tool("f", {"properties": {"a": {"$ref": "#/nowhere"}}})], "nowhere"),
        ([tool("f", {"description": "x" * 70_000})], "70"),
        ([tool("f", description=5)], "description = 5"),
        ([{"type": "retrieval"}], r"tools\[0\]"),
        (["f"], r"tools\[0\]"),
        ([tool(f"f{number}") for number in range(MAX_TOOLS + 1)], "at most 128 tools"),
    ],
)
def test_tools_that_cannot_be_offered(tools: Any, match: str) -> None:
    with pytest.raises(ParameterError, match=match):
        tool_use(tools)


def test_a_schema_that_is_too_deep() -> None:
    schema: dict[str, Any] = {}
    for _ in range(MAX_DEPTH):
        schema = {"properties": {"a": schema}}
    with pytest.raises(ParameterError, match="levels deep"):
        tool_use([tool("f", schema)])


@pytest.mark.parametrize(
    "choice", ["any", "", {"function": {"name": "g"}}, {"function": {}}, {"name": 5}]
)
def test_choices_that_cannot_be_made(choice: Any) -> None:
    with pytest.raises(ParameterError, match="tool_choice"):
        tool_use([tool()], choice)


def test_choices_that_can() -> None:
    tools = [tool(), tool("g", strict=True)]
    assert tool_use([]) == ToolUse()
    assert tool_use(tools, "none") == ToolUse() == tool_use([], "none")
    assert tool_use(tools).mode == "auto"
    assert tool_use(tools).strict
    assert tool_use(tools, "required").tools == tool_use(tools).tools
    named = tool_use(tools, {"type": "function", "function": {"name": "g"}})
    assert [one.name for one in named.tools] == ["g"]
    assert (named.mode, named.parallel, set(named.schemas)) == ("required", False, {"f", "g"})
    with pytest.raises(ParameterError, match="no tools"):
        tool_use([], "required")
