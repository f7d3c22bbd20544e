"""Whatever a model could write under a grammar of calls is read as valid calls of those tools."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from llguidance import LLMatcher, LLTokenizer

from pyrite.errors import ParameterError
from pyrite.sampling.lark import prepare_lark
from pyrite.text.answer import CallArguments, CallStart, Content, Piece, Reasoning
from pyrite.text.answers import AnswerParser
from pyrite.text.callgrammar import call_grammar
from pyrite.text.calls import channels
from pyrite.text.calls.bodies import CallFormat
from pyrite.text.reasoning import FORMATS as REASONING
from pyrite.text.reasoning import ReasoningFormat
from pyrite.text.toolcalls import FORMATS
from pyrite.text.tools import ToolUse, tool_use

ROWS = {row.name: row for row in FORMATS}
THOUGHTS = {row.name: row for row in REASONING}
EOS = 256
WEATHER = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
        "days": {"type": "integer", "minimum": 0, "maximum": 9},
        "at": {"$ref": "#/$defs/point"},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 3}, "maxItems": 2},
    },
    "required": ["city", "at"],
    "additionalProperties": False,
    "$defs": {
        "point": {
            "type": "object",
            "properties": {"x": {"type": "integer"}, "exact": {"type": "boolean"}},
            "required": ["x"],
            "additionalProperties": False,
        }
    },
}
NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": schema, "strict": True}}
    for name, schema in (("get_weather", WEATHER), ("ping", NOTHING))
]


# Where text is free, letters drawn one by one would never make a marker.
SPELLED = (
    *("<tool_call>", "<seed:tool_call>", "</parameter>", "</arg_value>", "<escape>", '<|"|>'),
    *("</think>", "[/THINK]", "<|END_THINKING|>", "<|START_ACTION|>", "[TOOL_CALLS]"),
)


class Bytes:
    """A vocabulary of single bytes, and of the given markers as special tokens."""

    eos_token_id = EOS
    bos_token_id = None

    def __init__(self, markers: tuple[str, ...]) -> None:
        self.markers = markers
        self.tokens = [bytes([byte]) for byte in range(256)]
        self.tokens += [b"<eos>", *(marker.encode() for marker in markers)]
        self.special_token_ids = list(range(EOS, len(self.tokens)))

    def __call__(self, text: bytes | str) -> list[int]:
        return list(text.encode() if isinstance(text, str) else text)

    def find(self, marker: str) -> int | None:
        return EOS + 1 + self.markers.index(marker) if marker in self.markers else None


def written(source: str, vocabulary: Bytes, seed: int) -> str:
    """A text that the grammar allows, drawn at random, with a bent for coming to an end."""
    from llguidance import TokenizerWrapper

    draw = random.Random(seed)
    tokenizer = LLTokenizer(TokenizerWrapper(vocabulary))
    prepared = prepare_lark(source, vocabulary.find, len(vocabulary.tokens))
    matcher = LLMatcher(tokenizer, LLMatcher.grammar_from_lark(prepared))
    texts = [text for text in SPELLED if text not in vocabulary.markers]
    out = bytearray()
    likely = [EOS, *vocabulary.special_token_ids, *b'"}])>\n,<']
    for _ in range(3000):
        if draw.random() < 0.1:
            spelled = list(draw.choice(texts).encode())
            count = matcher.try_consume_tokens(spelled)
            out += bytes(spelled[:count])
        mask = matcher.compute_bitmask()
        assert not matcher.is_error(), matcher.get_error()
        allowed = [i for i in range(len(vocabulary.tokens)) if mask[i // 8] >> (i % 8) & 1]
        ends = [i for i in likely if i in allowed]
        token = draw.choice(ends if ends and draw.random() < 0.3 else allowed)
        if token == EOS:
            return out.decode()
        out += vocabulary.tokens[token]
        assert matcher.consume_token(token), source
    raise AssertionError("no end")


def parse(
    text: str, row: CallFormat | None, thought: ReasoningFormat | None, use: ToolUse, started: bool
) -> list[Piece]:
    parser = AnswerParser(row, thought, starts_in_reasoning=started, tools=use.schemas)
    return [*parser.push(text), *parser.finish()]


def calls_of(pieces: list[Piece]) -> list[tuple[str, Any]]:
    calls: list[tuple[str, str]] = []
    for piece in pieces:
        if isinstance(piece, CallStart):
            calls.append((piece.name, ""))
        elif isinstance(piece, CallArguments):
            calls[piece.index] = (calls[piece.index][0], calls[piece.index][1] + piece.text)
    return [(name, json.loads(text)) for name, text in calls]


def check(name: str, arguments: Any) -> None:
    if name == "ping":
        assert arguments == {}
        return
    assert name == "get_weather"
    assert set(arguments) <= set(WEATHER["properties"])  # type: ignore[arg-type]
    assert isinstance(arguments["city"], str)
    assert isinstance(arguments["at"]["x"], int)
    assert arguments.get("unit", "celsius") in ("celsius", "fahrenheit")
    assert 0 <= arguments.get("days", 0) <= 9
    assert all(len(tag) <= 3 for tag in arguments.get("tags", []))


def vocabulary(row: CallFormat, special: bool, *more: str) -> Bytes:
    """Where markers are text, reasoning may spell them; those of channels never are."""
    special = special or row.name == "harmony"
    return Bytes(tuple(dict.fromkeys((*row.markers, *more))) if special else ())


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("special", [False, True])
def test_forced_calls_are_valid_calls_and_nothing_else(name: str, special: bool) -> None:
    row = ROWS[name]
    use = tool_use(TOOLS, "required")
    words = vocabulary(row, special, *channels.MARKERS)
    source = call_grammar(row, use, None, words.find)
    assert source is not None
    for seed in range(4):
        text = written(source, words, seed)
        pieces = parse(text, row, None, use, started=False)
        calls = calls_of(pieces)
        assert calls, text
        for call in calls:
            check(*call)
        if name != "harmony":  # which may think first
            assert not [piece for piece in pieces if isinstance(piece, Content)], text


@pytest.mark.parametrize("name", ["hermes", "qwen-coder", "granite", "llama3", "harmony", "lfm2"])
def test_a_named_tool_is_called_once(name: str) -> None:
    row = ROWS[name]
    use = tool_use(TOOLS, {"type": "function", "function": {"name": "ping"}})
    words = vocabulary(row, True)
    source = call_grammar(row, use, None, words.find)
    assert source is not None
    text = written(source, words, 1)
    assert calls_of(parse(text, row, None, use, started=False)) == [("ping", {})]


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("special", [False, True])
def test_strict_calls_are_valid_once_they_begin(name: str, special: bool) -> None:
    row = ROWS[name]
    use = tool_use(TOOLS, "auto")
    words = vocabulary(row, special)
    source = call_grammar(row, use, None, words.find)
    assert source is not None
    num_calls = 0
    for seed in range(6):
        text = written(source, words, seed)
        for call in calls_of(parse(text, row, None, use, started=False)):
            check(*call)
            num_calls += 1
    assert num_calls or not special or row.bare


@pytest.mark.parametrize(
    ("name", "thought"),
    [("hermes", "think"), ("cohere", "cohere"), ("harmony", "harmony"), ("mistral", "mistral")],
)
@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("mode", ["none", "auto", "required"])
def test_reasoning_then_a_call_or_the_schema(
    name: str, thought: str, special: bool, mode: str
) -> None:
    row, format = ROWS[name], THOUGHTS[thought]
    use = replace(tool_use(TOOLS, mode), schemas={"get_weather": WEATHER, "ping": NOTHING})
    words = vocabulary(row, special, *format.markers)
    for started in (False, True):
        source = call_grammar(
            row,
            use,
            format,
            words.find,
            starts_in_reasoning=started,
            content='%json {"enum": ["yes"]}',
        )
        assert source is not None
        for seed in range(4):
            text = written(source, words, seed)
            pieces = parse(text, row, format, use, started=started)
            calls = calls_of(pieces)
            content = "".join(piece.text for piece in pieces if isinstance(piece, Content))
            for call in calls:
                check(*call)
            assert content == ("" if calls else '"yes"'), text
            assert bool(calls) == (mode == "required") or mode == "auto"
            thoughts = [piece for piece in pieces if isinstance(piece, Reasoning)]
            assert len(thoughts) <= 1


def test_nothing_to_constrain() -> None:
    row = ROWS["hermes"]
    tools = [{"type": "function", "function": {"name": "ping"}}]
    find: Callable[[str], int | None] = lambda marker: None  # noqa: E731
    assert call_grammar(row, tool_use(tools, "auto"), THOUGHTS["think"], find) is None
    assert call_grammar(row, tool_use(tools, "none"), THOUGHTS["think"], find) is None
    assert call_grammar(None, tool_use([], "auto"), None, find) is None
    schema = call_grammar(None, tool_use([], "auto"), None, find, content="/a+/")
    assert schema == "start: /a+/\n"


def test_an_argument_that_is_required_and_not_there() -> None:
    schema = {"type": "object", "properties": {}, "required": ["x"]}
    tools = [{"type": "function", "function": {"name": "f", "parameters": schema}}]
    with pytest.raises(ParameterError, match="'x'"):
        call_grammar(ROWS["lfm2"], tool_use(tools, "required"), None, lambda marker: None)
