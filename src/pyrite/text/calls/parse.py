"""Parses the calls of one section, whatever their format: one generator for each shape of a body.

A call is given out once its name is known and its arguments have begun; what fails before that is
MismatchError, and the text is as if unread. What breaks off later stays open: its arguments do not
parse, for to close them would invent a call that the model never wrote.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from pyrite.text.calls.bodies import (
    BracedBody,
    CallFormat,
    JsonBody,
    NamedBody,
    PythonBody,
    TagBody,
)
from pyrite.text.calls.reader import EndOfTextError, Markers, MismatchError, Parsing, Reader
from pyrite.text.calls.typed import as_json
from pyrite.text.calls.values import GEMMA, JSON, PYTHON, string, value

Tools = Mapping[str, Mapping[str, Any]]  # name -> JSON schema of its arguments

MAX_NAME_LENGTH = 256
ARGUMENT_KEYS = ("arguments", "parameters")  # a family that was taught one may write the other
NAME = re.compile(r"[^\s\"'<>()\[\]{}=,|]*")
KEY = re.compile(r"\w*")


def section(reader: Reader, format: CallFormat, tools: Tools, *, bare: bool) -> Parsing[None]:
    """The calls after a marker, or of an answer that begins with one; and the marker that ends
    them. What is still recorded at its end is whitespace."""
    while True:
        yield from _item(reader, format, tools, bare)
        reader.recorded()
        space = yield from reader.space()
        if format.end and ((yield from reader.optional(format.end)) or reader.ends_in(format.end)):
            reader.recorded()
            return
        if format.separator and not space and (yield from reader.optional(format.separator)):
            yield from reader.space()
        if not (yield from _another(reader, format)):
            return


def _another(reader: Reader, format: CallFormat) -> Parsing[bool]:
    """Whether a further call begins here, without a marker that opens a section."""
    try:
        first = yield from reader.peek()
    except EndOfTextError:
        return False
    body = format.body
    match body:
        case JsonBody(listed=False):
            return first == "{" and (bool(format.separator) or bool(format.end))
        case NamedBody() | TagBody():
            return body.before != "" and (yield from reader.ahead(body.before))
        case PythonBody(listed=False):
            return bool(NAME.fullmatch(first))
    return False


def _item(reader: Reader, format: CallFormat, tools: Tools, bare: bool) -> Parsing[None]:
    yield from reader.space()
    match format.body:
        case JsonBody() as body:
            yield from _json_calls(reader, body, _known(tools, bare))
        case NamedBody() as body:
            yield from _named_call(reader, body)
        case TagBody() as body:
            yield from _tag_call(reader, body, tools)
        case PythonBody() as body:
            yield from _python_calls(reader, body, _known(tools, bare))
        case BracedBody():
            yield from _braced_call(reader)
        case _:
            raise AssertionError(format.body)


Known = Callable[[str], bool]


def _known(tools: Tools, bare: bool) -> Known:
    """Whether a name may be that of a call: without a marker, only a tool's own name is."""
    return lambda name: bool(name) and (not bare or name in tools)


def _listed(reader: Reader, call: Callable[[], Parsing[None]]) -> Parsing[None]:
    """One call or more in brackets."""
    yield from reader.literal("[")
    yield from reader.space()
    yield from call()
    while True:
        reader.recorded()
        yield from reader.space()
        if (yield from reader.optional("]")):
            return
        yield from reader.literal(",")
        yield from reader.space()
        yield from call()


def _json_calls(reader: Reader, body: JsonBody, known: Known) -> Parsing[None]:
    if (yield from reader.peek()) == "[" and body.listed:
        yield from _listed(reader, lambda: _json_call(reader, body, known))
    else:
        yield from _json_call(reader, body, known)


def _json_call(reader: Reader, body: JsonBody, known: Known) -> Parsing[None]:
    """An object; keys other than the two are read over. Arguments that stand before the name wait
    for it."""
    name, early, started = "", "", False
    yield from reader.literal("{")
    yield from reader.space()
    while not (yield from reader.optional("}")):
        key = yield from _text(reader)
        yield from reader.space()
        yield from reader.literal(":")
        yield from reader.space()
        if key == body.name_key and not name:
            name = yield from _text(reader)
            if not known(name):
                raise MismatchError
        elif key in ARGUMENT_KEYS and name and not started:
            yield from arguments(reader, name)
            started = True
        elif key in ARGUMENT_KEYS and not started:
            early = yield from _whole_arguments(reader)
        else:
            yield from value(reader, JSON, lambda text: None)
        yield from reader.space()
        if (yield from reader.optional(",")):
            yield from reader.space()
        elif (yield from reader.peek()) != "}":
            raise MismatchError
    if not name:
        raise MismatchError
    if not started:
        reader.start_call(name)
        reader.give_arguments(early or "{}")


def _text(reader: Reader) -> Parsing[str]:
    parts: list[str] = []
    yield from reader.literal('"')
    yield from string(reader, '"', JSON, parts.append)
    return str(json.loads("".join(parts)))


def arguments(reader: Reader, name: str, call_id: str = "") -> Parsing[None]:
    """An object as JSON, given out while it is written."""
    if (yield from reader.peek()) != "{":
        whole = yield from _whole_arguments(reader)
        reader.start_call(name, call_id)
        reader.give_arguments(whole)
        return
    reader.start_call(name, call_id)
    try:
        yield from value(reader, JSON, reader.give_arguments)
    except EndOfTextError:
        reader.rest()
        reader.give_arguments(reader.recorded())
        raise


def _whole_arguments(reader: Reader) -> Parsing[str]:
    """An object, the JSON text of one inside a string, or null; as the text of an object."""
    parts: list[str] = []
    yield from value(reader, JSON, parts.append)
    text = "".join(parts)
    return text if text.startswith("{") else unwrapped(text)


def unwrapped(text: str) -> str:
    """The object that a JSON value stands for, which is not itself one."""
    try:
        inner = json.loads(text)
        if inner is None or (isinstance(inner, str) and not inner.strip()):
            return "{}"
        if isinstance(inner, str) and isinstance(json.loads(inner), dict):
            return inner.strip()
    except (ValueError, RecursionError):
        pass
    raise MismatchError


def _named_call(reader: Reader, body: NamedBody) -> Parsing[None]:
    yield from reader.literal(body.before)
    name = (yield from reader.all_of(NAME)).strip()
    if not 0 < len(name) <= MAX_NAME_LENGTH:
        raise MismatchError
    call_id = ""
    if body.before_id and (yield from reader.optional(body.before_id)):
        call_id = yield from reader.all_of(NAME)
    if body.name_is_id and ":" in name:
        call_id, name = name, name.removeprefix("functions.").rpartition(":")[0]
    yield from reader.literal(body.between)
    yield from reader.space()
    if not name or (yield from reader.peek()) != "{":
        raise MismatchError
    yield from arguments(reader, name, call_id)
    if body.after:
        yield from reader.space()
        yield from reader.optional(body.after.strip())


def _tag_call(reader: Reader, body: TagBody, tools: Tools) -> Parsing[None]:
    yield from reader.literal(body.before)
    name = yield from reader.all_of(NAME)
    if not 0 < len(name) <= MAX_NAME_LENGTH:
        raise MismatchError
    yield from reader.literal(body.after_name)
    schema = tools.get(name, {})
    started = False
    while True:
        yield from reader.space()
        if (yield from reader.optional(body.after)):
            break
        key, text = yield from _tagged(reader, body)
        if not started:
            reader.start_call(name)
        pair = f"{json.dumps(key, ensure_ascii=False)}: {as_json(text, schema, key)}"
        reader.give_arguments((", " if started else "{") + pair)
        started = True
    if not started:
        reader.start_call(name)
    reader.give_arguments("}" if started else "{}")


def _tagged(reader: Reader, body: TagBody) -> Parsing[tuple[str, str]]:
    yield from reader.literal(body.before_key)
    key = yield from reader.until(Markers((body.after_key,)), MAX_NAME_LENGTH)
    if body.before_value:
        yield from reader.space()
        yield from reader.literal(body.before_value)
    text = yield from reader.until(Markers((body.after_value,)))
    if body.lines:
        text = text.removeprefix("\n").removesuffix("\n")
    return key, text


def _python_calls(reader: Reader, body: PythonBody, known: Known) -> Parsing[None]:
    if body.listed:
        yield from _listed(reader, lambda: _python_call(reader, known))
    else:
        yield from _python_call(reader, known)


def _python_call(reader: Reader, known: Known) -> Parsing[None]:
    name = yield from reader.all_of(NAME)
    if len(name) > MAX_NAME_LENGTH or not known(name):
        raise MismatchError
    yield from reader.literal("(")
    yield from reader.space()
    num_arguments = 0
    while not (yield from reader.optional(")")):
        key = yield from reader.all_of(KEY)
        yield from reader.space()
        yield from reader.literal("=")
        yield from reader.space()
        if not key:
            raise MismatchError
        if num_arguments == 0:
            reader.start_call(name)
        opening = ", " if num_arguments else "{"
        reader.give_arguments(f"{opening}{json.dumps(key, ensure_ascii=False)}: ")
        yield from value(reader, PYTHON, reader.give_arguments)
        num_arguments += 1
        yield from reader.space()
        if (yield from reader.optional(",")):
            yield from reader.space()
        elif (yield from reader.peek()) != ")":
            raise MismatchError
    if num_arguments == 0:
        reader.start_call(name)
    reader.give_arguments("}" if num_arguments else "{}")


def _braced_call(reader: Reader) -> Parsing[None]:
    yield from reader.literal("call:")
    name = yield from reader.all_of(NAME)
    if not 0 < len(name) <= MAX_NAME_LENGTH or (yield from reader.peek()) != "{":
        raise MismatchError
    reader.start_call(name)
    yield from value(reader, GEMMA, reader.give_arguments)
