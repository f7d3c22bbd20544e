r"""The grammar of an answer that must call tools, may call them strictly, or keeps to a schema
after reasoning: Lark, as `sampling/lark.py` documents it.

    start: thought? calls          a call is forced (`required`, or a function by name)
    start: thought? (calls | value)   a call or what the schema allows
    start: (head call)* TEXT       free text, and calls that are valid once one has begun

Calls are written as the family's own models write them, arguments by the tool's schema. A marker
that is a special token of the model stands as that token, so text that spells it is something else.

Where arguments are no JSON, the schema of each one is kept to, and required ones come first; what
relates several (`oneOf`, `additionalProperties`, ... of the whole) is not said by such a grammar,
nor are a string's pattern and length where it stands as bare text.

Where the model is free to call and no tool is strict nothing is constrained. It would cost little
(a mask of free text took 4 us over 49,000 tokens, the grammar of 30 tools 14 ms), but a family may
be used to a layout of its calls that differs from this one in blanks or quotes, and the parser
reads them all. Knows no engine.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from pyrite.errors import ParameterError
from pyrite.text.calls.bodies import (
    BracedBody,
    CallFormat,
    ChannelBody,
    JsonBody,
    NamedBody,
    PythonBody,
    TagBody,
)
from pyrite.text.calls.typed import types_of
from pyrite.text.reasoning import ReasoningFormat
from pyrite.text.tools import Tool, ToolUse

MAX_FORCED_CALLS = 16  # of one answer: a small model may never find an end by itself
TEXT = r"/(.|\n)*/"
NUMBER = "/[0-9]{1,3}/"
SHORT_ID = "/[a-zA-Z0-9]{9}/"

FindToken = Callable[[str], int | None]  # the id of the special token that is written so


def call_grammar(
    format: CallFormat | None,
    use: ToolUse,
    reasoning: ReasoningFormat | None,
    find: FindToken,
    *,
    starts_in_reasoning: bool = False,
    content: str | None = None,
) -> str | None:
    """The grammar's source, or None where nothing constrains the answer.

    `content` is the Lark expression that content without calls must match (`%json {...}`, `/.../`).
    Raises ParameterError for schemas that this format cannot be made to keep to.
    """
    mode = use.mode if format is not None else "none"
    if mode == "none" and (content is None or reasoning is None):
        return None if content is None else f"start: {content}\n"
    if mode == "auto" and content is None and not use.strict:
        return None
    writer = _Writer(format, use, reasoning, find)
    in_channels = reasoning is not None and reasoning.channels
    if in_channels or (format is not None and isinstance(format.body, ChannelBody)):
        return writer.channels(mode, content)
    return writer.sections(mode, content, starts_in_reasoning)


class _Writer:
    """Collects rules. Expressions are strings; a rule's name is one too."""

    def __init__(
        self,
        format: CallFormat | None,
        use: ToolUse,
        reasoning: ReasoningFormat | None,
        find: FindToken,
    ) -> None:
        self._format = format
        self._use = use
        self._reasoning = reasoning
        self._find = find
        self._rules: list[str] = []
        self._marker = re.compile(
            "|".join(map(re.escape, sorted(format.markers, key=len, reverse=True)))
            if format and format.markers
            else r"(?!)"
        )

    # Whole answers.

    def sections(self, mode: str, content: str | None, started: bool) -> str:
        if mode == "auto" and content is None:
            return self._source(self._free_text_with_calls())
        thought = self._thought(started)
        choices = [content] if content is not None and mode != "required" else []
        if mode != "none":
            choices.append(self._calls())
        return self._source(f"{thought} ({' | '.join(choices)})")

    def channels(self, mode: str, content: str | None) -> str:
        begin = self._markers("<|channel|>analysis<|message|>")
        end = self._free_until("<|end|>")
        analysis = self._rule(f'{begin} {end} {self._markers("<|start|>")} "assistant"')
        choices = []
        if mode != "required":
            choices.append(self._markers("<|channel|>final<|message|>") + f" ({content or TEXT})")
        if mode != "none":
            choices.append(self._one_of(self._channel_call(tool) for tool in self._use.tools))
        return self._source(f"{analysis}? ({' | '.join(choices)})")

    def _source(self, start: str) -> str:
        return "".join([f"start: {start}\n", *self._rules])

    def _thought(self, started: bool) -> str:
        """The reasoning before anything else, with the blank lines that follow it."""
        if self._reasoning is None:
            return ""
        end = self._free_until(self._reasoning.end)
        thought = self._rule(f"{end} /\\n{{1,2}}/?")
        return thought if started else f"({self._term(self._reasoning.begin)} {thought})?"

    def _free_text_with_calls(self) -> str:
        assert self._format is not None
        begin = self._term(self._format.begins[0])
        calls = self._section(repeated=False)
        if self._format.bare:
            self._rules.append("NO_CALL: /[^\\s{\\[](.|\\n)*/\n")
            return f"NO_CALL | ({begin})? {calls}"
        if begin.startswith("<["):
            return f"({TEXT} {begin} {calls})* {TEXT}"
        self._rules.append(f"TEXT: {TEXT}\n")
        head = self._rule(f"TEXT {begin}", "[lazy]")
        return f"({head} {calls})* TEXT"

    # Calls.

    def _calls(self) -> str:
        """One or more calls, from the first marker to the last."""
        assert self._format is not None
        begin = "" if self._format.bare else self._term(self._format.begins[0])
        return self._repeated(f"{begin} {self._section(repeated=True)}", self._format.by_sections)

    def _section(self, *, repeated: bool) -> str:
        """What follows the first marker."""
        assert self._format is not None
        padding = _text(self._format.padding)
        item = self._one_of(self._call(tool) for tool in self._use.tools)
        inside = self._repeated(item, not self._format.by_sections)
        if self._format.listed:
            inside = f'"[" {inside} "]"'
        return self._rule(f"{padding} {inside} {padding} {self._end()}")

    def _repeated(self, item: str, many: bool) -> str:
        assert self._format is not None
        if not many or not self._use.parallel or (self._format.bare and not self._format.end):
            return item
        name = self._rule(item)
        between = _text(self._format.between)
        return f"{name} ({between} {name}){{0,{MAX_FORCED_CALLS - 1}}}"

    def _end(self) -> str:
        """The marker after the calls, unless it is another model's than the one before them."""
        assert self._format is not None
        begin, end = self._format.begins[0], self._format.end
        if not end or (self._find(begin) is not None and self._find(end) is None):
            return ""
        return self._term(end)

    def _call(self, tool: Tool) -> str:
        assert self._format is not None
        match self._format.body:
            case JsonBody() as body:
                return self._json_call(tool, body)
            case NamedBody() as body:
                return self._named_call(tool, body)
            case TagBody() as body:
                return self._tag_call(tool, body)
            case PythonBody():
                pairs = self._pairs(tool, lambda key, schema: f"{_text(key + '=')} {_json(schema)}")
                return f"{_text(tool.name + '(')} {self._row(pairs, ', ')} " + _text(")")
            case BracedBody(mark):
                pairs = self._pairs(tool, partial(self._braced_pair, mark))
                return f"{_text(f'call:{tool.name}{{')} {self._row(pairs, ',')} " + _text("}")
        raise AssertionError(self._format)

    def _json_call(self, tool: Tool, body: JsonBody) -> str:
        number = f'{_text(f"{json.dumps(body.id_key)}: ")} /"[0-9]{{1,3}}"/ {_text(", ")}'
        name = f"{json.dumps(body.name_key)}: {json.dumps(tool.name)}, "
        return (
            f'"{{" {number if body.id_key else ""} '
            f'{_text(f"{name}{json.dumps(body.arguments_key)}: ")} {_json(tool.schema)} "}}"'
        )

    def _named_call(self, tool: Tool, body: NamedBody) -> str:
        name = _text(tool.name)
        if body.name_is_id:
            name = f"{_text(f'functions.{tool.name}:')} {NUMBER}"
        if body.before_id:
            name += f" ({self._markers(body.before_id)} {SHORT_ID})?"
        before, between, after = map(self._markers, (body.before, body.between, body.after))
        return f"{before} {name} {between} {_json(tool.schema)} {after}"

    def _tag_call(self, tool: Tool, body: TagBody) -> str:
        def pair(key: str, schema: Mapping[str, Any]) -> str:
            opening = self._markers(body.before_key) + " " + _text(key)
            opening += f" {self._markers(body.after_key)} "
            if body.before_value:
                opening += f"{_text(chr(10))} {self._markers(body.before_value)}"
            return f"{opening} {self._tag_value(schema, body)} {_text(chr(10))}"

        pairs = self._row(self._pairs(tool, pair), "")
        name = f"{self._markers(body.before)} {_text(tool.name)} {self._markers(body.after_name)}"
        return f"{name} {_text(chr(10))} {pairs} {self._markers(body.after)}"

    def _tag_value(self, schema: Mapping[str, Any], body: TagBody) -> str:
        line = "\n" if body.lines else ""
        end = self._markers(line + body.after_value)
        if types_of(schema) != {"string"}:
            return f"{_text(line)} {_json(schema)} {end}"
        if _texts(schema):
            return f"{_text(line)} ({' | '.join(map(_text, _texts(schema)))}) {end}"
        return f"{_text(line)} {self._free_until(body.after_value)}"

    def _braced_pair(self, mark: str, key: str, schema: Mapping[str, Any]) -> str:
        if types_of(schema) != {"string"}:
            return f"{_text(key + ':')} {_json(schema)}"
        quote = self._term(mark)
        if _texts(schema):
            value = f"{quote} ({' | '.join(map(_text, _texts(schema)))}) {quote}"
        else:
            value = f"{quote} {self._free_until(mark)}"
        return f"{_text(key + ':')} {value}"

    def _channel_call(self, tool: Tool) -> str:
        header = f"<|channel|>commentary to=functions.{tool.name} <|constrain|>json<|message|>"
        return f"{self._markers(header)} {_json(tool.schema)}"

    def _pairs(
        self, tool: Tool, write: Callable[[str, Mapping[str, Any]], str]
    ) -> list[tuple[str, bool]]:
        """(rule, whether it must be there) of each argument, in the order of the schema."""
        properties = tool.schema.get("properties", {})
        required = set(tool.schema.get("required", ()))
        missing = required - set(properties)
        if missing:
            raise ParameterError(
                "tools", sorted(missing)[0], f"a property of {tool.name}, whose schema requires it"
            )
        shared = {key: tool.schema[key] for key in ("$defs", "definitions") if key in tool.schema}
        written = []
        for key, schema in properties.items():
            own = schema if isinstance(schema, Mapping) else {}
            rule = self._rule(write(key, {**shared, **own}))
            written.append((rule, key in required))
        return written

    def _row(self, pairs: Sequence[tuple[str, bool]], joint: str) -> str:
        """The rules in their order, those that may be left away or not, with a joint between."""
        first, later = "", ""
        for rule, needed in reversed(pairs):
            after, skipped = f"{rule} {later}", later
            joined = f"{_text(joint)} {after}"
            first = after if needed else f"({after} | {first})" if first else f"({after})?"
            later = self._rule(
                joined if needed else f"({joined} | {skipped})" if skipped else f"({joined})?"
            )
        return first

    # Parts.

    def _one_of(self, expressions: Any) -> str:
        return "(" + " | ".join(self._rule(expression) for expression in expressions) + ")"

    def _rule(self, expression: str, options: str = "") -> str:
        name = f"r{len(self._rules)}"
        self._rules.append(f"{name}{options}: {expression}\n")
        return name

    def _markers(self, text: str) -> str:
        """Text with markers in it."""
        parts, start = [], 0
        for found in self._marker.finditer(text):
            parts += [_text(text[start : found.start()]), self._term(found[0])]
            start = found.end()
        return " ".join(part for part in (*parts, _text(text[start:])) if part)

    def _free_until(self, marker: str) -> str:
        """Any text up to the first marker, and the marker. One that is a token ends any text."""
        term = self._term(marker)
        return f"{TEXT} {term}" if term.startswith("<[") else self._rule(TEXT, f"[suffix={term}]")

    def _term(self, marker: str) -> str:
        token_id = self._find(marker)
        return _text(marker) if token_id is None else f"<[{token_id}]>"


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False) if text else ""


def _json(schema: Mapping[str, Any]) -> str:
    return f"%json {json.dumps(schema, ensure_ascii=False)}"


def _texts(schema: Mapping[str, Any]) -> list[str]:
    """The only strings that a schema allows, if it names them."""
    values = [schema["const"]] if "const" in schema else schema.get("enum", [])
    return [value for value in values if isinstance(value, str)]
