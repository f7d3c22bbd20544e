"""The parser of answers: what streams when, what is a call and what is not, and nothing lost."""

# ruff: noqa: E501  (answers stand as they are written)

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from pyrite.text.answer import CallArguments, CallStart, Content, Piece, Reasoning
from pyrite.text.answers import AnswerParser, long_id, merged, short_id
from pyrite.text.calls.typed import as_json
from pyrite.text.calls.write import write_calls
from pyrite.text.reasoning import FORMATS as REASONING
from pyrite.text.toolcalls import FORMATS
from work import counted

ROWS = {row.name: row for row in FORMATS}
THOUGHTS = {row.name: row for row in REASONING}
SCHEMAS = {"f": {"properties": {"s": {"type": "string"}, "n": {"type": "number"}}}}


TEXT = "a line of text, and another\n" + 'say "hello" \\ or not\n'


def parser_of(calls: str | None, reasoning: str | None = None, **options: Any) -> AnswerParser:
    numbers = itertools.count()
    return AnswerParser(
        ROWS[calls] if calls else None,
        THOUGHTS[reasoning] if reasoning else None,
        tools=SCHEMAS,
        new_id=lambda: f"id{next(numbers)}",
        **options,
    )


def parse(
    calls: str | None, text: str, reasoning: str | None = None, **options: Any
) -> list[Piece]:
    parser = parser_of(calls, reasoning, **options)
    return merged([*parser.push(text), *parser.finish()])


def steps(parser: AnswerParser, *texts: str) -> list[list[Piece]]:
    return [*(parser.push(text) for text in texts), parser.finish()]


def joined(pieces: list[Piece], kind: type) -> str:
    return "".join(piece.text for piece in pieces if isinstance(piece, kind))  # type: ignore[union-attr]


def call(name: str, arguments: str, index: int = 0) -> list[Piece]:
    return [CallStart(index, f"id{index}", name), CallArguments(index, arguments)]


def test_a_call_streams_as_openai_clients_expect() -> None:
    """First the name and the id, once; then the arguments as they come; calls are numbered."""
    texts = ["Hi.\n<tool", '_call>\n{"name": "f", ', '"arguments": {"s": "a', "b", "\\", 'n"}']
    got = steps(parser_of("hermes"), *texts, "}\n</tool_call>\n<tool_call>\n", '{"name": "g"}')
    assert got[:2] == [[Content("Hi.")], []]
    assert got[2] == [CallStart(0, "id0", "f"), CallArguments(0, '{"s": "a')]
    assert got[3:6] == [[CallArguments(0, "b")], [], [CallArguments(0, '\\n"}')]]
    assert got[6:] == [[], [CallStart(1, "id1", "g"), CallArguments(1, "{}")], []]


def test_text_waits_only_while_it_may_be_a_marker() -> None:
    got = steps(parser_of("hermes"), "a <", "b <tool_", "x", " <tool_call>", "no", "!")
    assert got == [
        [Content("a")],
        [Content(" <b")],
        [Content(" <tool_x")],
        [],
        [Content(" <tool_call>no")],
        [Content("!")],
        [],
    ]


def test_without_formats_everything_is_content_at_once() -> None:
    text = "<think>a</think> <tool_call>{} \n\n"
    assert steps(parser_of(None), "<think>a", "</think", " <tool_")[:2] == [
        [Content("<think>a")],
        [Content("</think")],
    ]
    assert "".join(p.text for p in parse(None, text) if isinstance(p, Content)) == text


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>",
        "<tool_call> is how one calls",
        "<tool_call>\n{}\n</tool_call>",
        '<tool_call>\n{"arguments": {}}\n</tool_call>',
        '<tool_call>\n{"name": 5, "arguments": {}}\n</tool_call>',
        '<tool_call>\n{"name": "", "arguments": {}}\n</tool_call>',
        '<tool_call>\n{"name": "f", "arguments": [1]}\n</tool_call>',
        '<tool_call>\n{"name": "f", "arguments": "no"}\n</tool_call>',
        '<tool_call>\n{"name": "f" "arguments": {}}\n</tool_call>',
        '<tool_call>\n{"name": "f", "argu',
        "<tool_call>\n{'name': 'f'}\n</tool_call>",
        "</tool_call> <tool_call <tool_cal",
        "  \n <tool_call>x\n\n",
        "text \n <tool_call>\n\n x </tool_call> more \n",
    ],
)
def test_what_looks_like_a_call_and_is_none_is_content(text: str) -> None:
    for pieces in ([text], list(text)):
        got = [piece for one in steps(parser_of("hermes"), *pieces) for piece in one]
        assert all(isinstance(piece, Content) for piece in got)
        assert "".join(piece.text for piece in got) == text  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("body", "arguments"),
    [
        ('{"name": "f", "arguments": {"a": {"b": [{}, []]}}}', '{"a": {"b": [{}, []]}}'),
        ('{"arguments": {"a": 1}, "name": "f"}', '{"a": 1}'),
        (
            '{"id": 7, "type": "function", "name": "f", "arguments": {"a": 1}, "x": [{}]}',
            '{"a": 1}',
        ),
        ('{"name": "f", "arguments": "{\\"a\\": 1}"}', '{"a": 1}'),
        ('{"name": "f", "arguments": null}', "{}"),
        ('{"name": "f", "arguments": ""}', "{}"),
        ('{"name": "f"}', "{}"),
        ('{"name": "f", "parameters": {"a": 1}}', '{"a": 1}'),
        ('{"name": "f", "arguments": {"a": "}{\\"]["}}', '{"a": "}{\\"]["}'),
        (
            '{"name": "f", "arguments": {"a": "\\u00e9\\ud83d\\ude00"}}',
            '{"a": "\\u00e9\\ud83d\\ude00"}',
        ),
        ('{"name": "f", "arguments": {"a": "x\ny\tz"}}', '{"a": "x\\ny\\tz"}'),
        ('{"name": "f", "arguments": {"a": -1.5e+3, "b": true, "c": null}}', None),
        ('{"name": "\\u0066", "arguments": {"é": "😀"}}', '{"é": "😀"}'),
    ],
)
def test_the_forms_of_one_call(body: str, arguments: str | None) -> None:
    text = f"<tool_call>\n{body}\n</tool_call>"
    expected = arguments or json.dumps(json.loads(body)["arguments"])
    for pieces in ([text], list(text)):
        got = [piece for one in steps(parser_of("hermes"), *pieces) for piece in one]
        assert got[0] == CallStart(0, "id0", "f")
        joined = "".join(piece.text for piece in got[1:] if isinstance(piece, CallArguments))
        assert json.loads(joined) == json.loads(expected)
        assert len([piece for piece in got if not isinstance(piece, CallArguments)]) == 1


def test_a_call_without_its_end_and_what_follows_it() -> None:
    body = '<tool_call>{"name": "f", "arguments": {}}'
    assert parse("hermes", f"{body} and so") == [*call("f", "{}"), Content("and so")]
    assert parse("hermes", body) == call("f", "{}")
    assert parse("hermes", f"{body}\n</tool_c") == call("f", "{}")
    assert parse("hermes", f"{body}\n</tool_x") == [*call("f", "{}"), Content("</tool_x")]
    assert parse("hermes", f"a {body}</tool_call> b") == [
        Content("a"),
        *call("f", "{}"),
        Content("  b"),
    ]


def test_a_call_that_breaks_off_stays_open() -> None:
    """Whoever gets it can see that it is not whole."""
    text = '<tool_call>{"name": "f", "arguments": {"a": "x\\u00'
    assert parse("hermes", text) == call("f", '{"a": "x\\u00')
    assert parse("hermes", text[:-4]) == call("f", '{"a": "x')
    broken = '<tool_call>{"name": "f", "arguments": {"a": nul, "b": 1}}</tool_call>'
    assert parse("hermes", broken) == [
        *call("f", '{"a": '),
        Content('nul, "b": 1}}</tool_call>'),
    ]


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ('{"name": "f", "parameters": {"s": "x"}}', True),
        (' \n{"name": "f", "parameters": {"s": "x"}}', True),
        ('<|python_tag|>{"name": "unknown", "parameters": {"s": "x"}}', True),
        ('{"name": "unknown", "parameters": {"s": "x"}}', False),
        ('{"name": "Ann", "age": 7}', False),
        ('See: {"name": "f", "parameters": {"s": "x"}}', False),
        ('<|python_tag|>print("hello")', False),
    ],
)
def test_a_call_without_a_marker_has_a_tools_name(text: str, calls: bool) -> None:
    got = parse("llama3", text)
    if calls:
        assert isinstance(got[0], CallStart)
        assert got[1:] == [CallArguments(0, '{"s": "x"}')]
    else:
        assert got == [Content(text)]


def test_several_calls_of_llama() -> None:
    one = '{"name": "f", "parameters": {}}'
    assert parse("llama3", f"{one}; {one}") == [*call("f", "{}"), *call("f", "{}", 1)]
    assert parse("llama4", "[f(s='it\\'s', n=1_0), f()]") == [
        *call("f", '{"s": "it\'s", "n": 10}'),
        *call("f", "{}", 1),
    ]


@pytest.mark.parametrize(
    ("row", "text", "arguments"),
    [
        ("lfm2", "<|tool_call_start|>[f(s=\"a\\n'b'\", n=-.5)]<|tool_call_end|>", {"s": "a\n'b'", "n": -0.5}),
        ("lfm2", "<|tool_call_start|>[f(a=(1, 2,), b={'k': None,}, c=True)]<|tool_call_end|>", {"a": [1, 2], "b": {"k": None}, "c": True}),
        ("lfm2", "<|tool_call_start|>[f(a='\\x41\\U0001F600\\d', b=0x10)]<|tool_call_end|>", {"a": "A😀\\d", "b": 16}),
        ("olmo", "<function_calls>\nf(s='x')\n</function_calls>", {"s": "x"}),
        ("functiongemma", "<start_function_call>call:f{s:<escape>a,\"}<escape>,n:[1,{k:true}]}<end_function_call>", {"s": 'a,"}', "n": [1, {"k": True}]}),
        ("gemma4", '<|tool_call>call:f{s:<|"|>a"b\\<|"|>,o:{k:[1,null]},"q":"x\\""}<tool_call|>', {"s": 'a"b\\', "o": {"k": [1, None]}, "q": 'x"'}),
        ("qwen-coder", "<tool_call>\n<function=f>\n<parameter=s>\n12\n</parameter>\n<parameter=n>\n12\n</parameter>\n<parameter=o>\n{\"a\": 1}\n</parameter>\n</function>\n</tool_call>", {"s": "12", "n": 12, "o": {"a": 1}}),
        ("glm", "<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>true</arg_value>\n<arg_key>n</arg_key><arg_value>x</arg_value></tool_call>", {"s": "true", "n": "x"}),
        ("glm", "<tool_call>f</tool_call>", {}),
        ("granite", '<|tool_call|>{"name": "f", "arguments": {"s": "x"}}', {"s": "x"}),
        ("granite", '<|tool_call|>[{"name": "f", "arguments": {"s": "x"}}]<|/tool_call|>', {"s": "x"}),
        ("mistral", '[TOOL_CALLS]f[ARGS]{"s": "x"}', {"s": "x"}),
        ("deepseek-v3", '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{"s": "x"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>', {"s": "x"}),
        ("harmony", '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"s": "x"}<|call|>', {"s": "x"}),
        ("harmony", ' to=functions.f<|channel|>commentary json<|message|>{"s": "x"}', {"s": "x"}),
    ],
)  # fmt: skip
def test_forms_that_no_golden_template_writes(row: str, text: str, arguments: Any) -> None:
    for pieces in ([text], list(text)):
        got = [piece for one in steps(parser_of(row), *pieces) for piece in one]
        assert got[0] == CallStart(0, "id0", "f")
        assert all(isinstance(piece, CallArguments) for piece in got[1:])
        assert json.loads("".join(piece.text for piece in got[1:])) == arguments  # type: ignore[union-attr]


def test_ids_that_the_format_states() -> None:
    got = parse("mistral", "[TOOL_CALLS]f[CALL_ID]abcDEF123[ARGS]{}[TOOL_CALLS]f[ARGS]{}")
    assert [piece.call_id for piece in got if isinstance(piece, CallStart)] == ["abcDEF123", "id0"]
    begin, argument = "<|tool_call_begin|>", "<|tool_call_argument_begin|>"
    kimi = f"<|tool_calls_section_begin|>{begin}functions.f:3{argument}{{}}<|tool_call_end|>"
    assert parse("kimi", kimi)[0] == CallStart(0, "functions.f:3", "f")
    assert long_id().startswith("call_")
    assert len({long_id() for _ in range(100)} | {short_id() for _ in range(100)}) == 200
    assert len(short_id()) == 9


@pytest.mark.parametrize(
    ("row", "text", "started", "expected"),
    [
        ("think", "<think>\nhm\n\nso\n</think>\n\nyes\n", False, [Reasoning("hm\n\nso"), Content("yes")]),
        ("think", "hm</think>yes", True, [Reasoning("hm"), Content("yes")]),
        ("think", "\n\nhm", True, [Reasoning("hm")]),
        ("think", "<think>\n\n</think>\n\nyes", False, [Content("yes")]),
        ("think", "yes <think>no</think>", False, [Content("yes <think>no</think>")]),
        ("think", "<thin", False, [Content("<thin")]),
        ("think", "<think>a</think>\n<think>b</think>c", False, [Reasoning("a"), Reasoning("b"), Content("c")]),
        ("granite", "<think>a</think> <response>b</response>\n", False, [Reasoning("a"), Content("b")]),
        ("granite", "a <response>b</response>", False, [Content("a <response>b</response>")]),
        ("mistral", "[THINK]a [b][/THINK]c", False, [Reasoning("a [b]"), Content("c")]),
        ("harmony", "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b", False, [Reasoning("a"), Content("b")]),
        ("harmony", "<|channel|>final<|message|>b<|return|>", False, [Content("b")]),
        ("harmony", "no header <|channel|>final<|message|>b", False, [Content("no header b")]),
    ],
)  # fmt: skip
def test_reasoning(row: str, text: str, started: bool, expected: list[Piece]) -> None:
    got = parse(None, text, row, starts_in_reasoning=started)
    for kind in (Reasoning, Content):
        assert joined(got, kind) == joined(expected, kind)
    kinds = [kind for kind, _ in itertools.groupby(got, type)]
    assert kinds == [kind for kind, _ in itertools.groupby(expected, type)]


def test_reasoning_that_spells_a_call() -> None:
    call_text = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
    got = parse("hermes", f"<think>I could {call_text}</think>{call_text}", "think")
    assert got == [Reasoning(f"I could {call_text}"), *call("f", "{}")]


def test_calls_of_gpt_oss_where_there_are_to_be_none() -> None:
    text = '<|channel|>commentary to=functions.f<|message|>{"s": 1}<|call|>'
    assert parse(None, text, "harmony") == [Content(text)]


def test_arguments_as_text_take_the_type_of_the_schema() -> None:
    def of(text: str, **schema: Any) -> str:
        return as_json(text, {"properties": {"k": schema}}, "k")

    assert of("5", type="string") == '"5"'
    assert of("5", type="number") == of(" 5\n", type=["null", "integer"]) == of("5") == "5"
    assert of("True", type="boolean") == "true"
    assert of("None", type=["integer", "null"]) == "null"
    assert of("x", type="number") == '"x"'
    assert of("[1", type="array") == '"[1"'
    assert of("NaN", type="number") == '"NaN"'
    assert of("1", enum=["1", "2"]) == '"1"'
    assert of("1", anyOf=[{"type": "string"}, {"type": "integer"}]) == "1"
    assert of("x", anyOf=[{"type": "string"}, {"type": "integer"}]) == '"x"'
    assert of('"q"') == '"\\"q\\""'
    assert as_json("[" * 100_000, {}, "k").startswith('"[')
    assert as_json("5", {"properties": 7}, "k") == "5"


def pushed(parser: AnswerParser, text: str, size: int) -> tuple[list[Piece], int, int]:
    """In small pieces. Gives also the characters that each push had before it, summed, and lines of code."""
    pieces: list[Piece] = []
    characters = 0
    with counted() as work:
        for at in range(0, len(text), size):
            pieces += parser.push(text[at : at + size])
            characters += len(parser._reader._text)
        pieces += parser.finish()
    return pieces, characters, work.lines


@pytest.mark.parametrize("row", ["hermes", "qwen-coder", "lfm2", "harmony", "glm"])
def test_long_arguments_in_small_pieces_are_no_more_work_a_character(row: str) -> None:
    """Each is handled a bounded number of times."""
    work = []
    for number in (100, 1000):
        line = TEXT * number
        written = str(write_calls(ROWS[row], [("f", {"s": line})]))
        pieces, characters, lines = pushed(parser_of(row), written, 64)
        assert json.loads(joined(pieces, CallArguments)) == {"s": line}
        work.append((characters, lines))
    assert work[1][0] < 10.5 * work[0][0], work
    assert work[1][1] < 10.5 * work[0][1], work


def test_a_thousand_calls_and_deep_ones() -> None:
    one = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>\n'
    got = parse("hermes", one * 1000)
    assert [piece.index for piece in got if isinstance(piece, CallStart)] == list(range(1000))
    deep = '<tool_call>{"name": "f", "arguments": {"a": ' + "[" * 200 + "]" * 200 + "}}</tool_call>"
    assert len(parse("hermes", deep)) == 2
    hostile = '<tool_call>{"name": "f", "arguments": {"a": ' + "[" * 300
    assert isinstance(parse("hermes", hostile)[-1], Content)


@pytest.mark.parametrize(
    "atom",
    ["<tool_call>", "<tool_cal", " ", '<tool_call>{"arguments": ', '<tool_call>{"name": "f", '],
)
def test_beginnings_without_end(atom: str) -> None:
    work = []
    for number in (200, 2000):
        pieces, characters, lines = pushed(parser_of("hermes"), atom * number, 16)
        assert joined(pieces, Content) == atom * number
        work.append((characters, lines))
    assert work[1][0] < 10.5 * work[0][0], work
    assert work[1][1] < 10.5 * work[0][1], work
