"""Writes calls as a family of models does: for histories whose template leaves them away.

Markers are trusted text and may become control tokens; names and arguments never do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pyrite.text import traced
from pyrite.text.calls.bodies import (
    BracedBody,
    CallFormat,
    ChannelBody,
    JsonBody,
    NamedBody,
    PythonBody,
    TagBody,
)

Call = tuple[str, Mapping[str, Any]]  # name, arguments


def write_calls(format: CallFormat, calls: Sequence[Call]) -> str:
    """The calls with their markers, as `AnswerParser` reads them."""
    written = [_call(format, index, *call) for index, call in enumerate(calls)]
    begin = "" if format.bare else format.begins[0]
    if format.by_sections:
        sections = [
            traced.joined(
                format.padding, [_marked(format, begin), one, _marked(format, format.end)]
            )
            for one in written
        ]
        return traced.joined(format.between, sections)
    inside = traced.joined(format.between, written)
    if format.listed:
        inside = traced.joined("", ["[", inside, "]"])
    padding = format.padding
    return traced.joined(
        "", [_marked(format, begin + padding), inside, padding, _marked(format, format.end)]
    )


def _call(format: CallFormat, index: int, name: str, arguments: Mapping[str, Any]) -> str:
    match format.body:
        case JsonBody(name_key, arguments_key, _, id_key):
            number = {id_key: str(index)} if id_key else {}
            return _dump({**number, name_key: name, arguments_key: arguments})
        case NamedBody(before, between, after, _, name_is_id):
            called = f"functions.{name}:{index}" if name_is_id else name
            parts = [_marked(format, before), called, _marked(format, between), _dump(arguments)]
            return traced.joined("", [*parts, _marked(format, after)])
        case TagBody() as body:
            return _tagged(format, body, name, arguments)
        case PythonBody():
            pairs = ", ".join(f"{key}={_python(value)}" for key, value in arguments.items())
            return f"{name}({pairs})"
        case BracedBody(quote):
            return traced.joined("", [f"call:{name}", _braced(format, quote, arguments)])
        case ChannelBody():
            header = f"commentary to=functions.{name} <|constrain|>json<|message|>"
            return traced.joined("", [_marked(format, header), _dump(arguments)])
    raise AssertionError(format)


def _tagged(format: CallFormat, body: TagBody, name: str, arguments: Mapping[str, Any]) -> str:
    line = "\n" if body.lines else ""
    gap = "\n" if body.before_value else ""
    parts = [_marked(format, body.before), name, _marked(format, body.after_name), "\n"]
    for key, value in arguments.items():
        parts += [_marked(format, body.before_key), key, _marked(format, body.after_key), gap]
        parts += [_marked(format, body.before_value), line]
        parts += [value if isinstance(value, str) else _dump(value), line]
        parts += [_marked(format, body.after_value), "\n"]
    return traced.joined("", [*parts, _marked(format, body.after)])


def _braced(format: CallFormat, quote: str, value: Any) -> str:
    if isinstance(value, str):
        return traced.joined(value, [_marked(format, quote)] * 2)
    if isinstance(value, Mapping):
        pairs = [
            traced.joined("", [f"{key}:", _braced(format, quote, inner)])
            for key, inner in value.items()
        ]
        return traced.joined("", ["{", traced.joined(",", pairs), "}"])
    if isinstance(value, (list, tuple)):
        items = [_braced(format, quote, inner) for inner in value]
        return traced.joined("", ["[", traced.joined(",", items), "]"])
    return _dump(value)


def _python(value: Any) -> str:
    """A literal. Strings as JSON writes them, which Python reads the same way."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_dump(k)}: {_python(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_python, value)) + "]"
    return _dump(value) if isinstance(value, str) else repr(value)


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _marked(format: CallFormat, text: str) -> str:
    """The text, whose markers are trusted."""
    if not text:
        return ""
    pattern = "|".join(map(re.escape, sorted(format.markers, key=len, reverse=True)))
    parts = re.split(f"({pattern})", text)
    return traced.joined(
        "", [traced.literal(part) if part in format.markers else part for part in parts]
    )
