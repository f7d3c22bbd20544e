"""Values that a model writes, as JSON text, while they are being written.

One scanner for three notations: JSON itself, Python's literals, and the one of FunctionGemma. What
is given out is valid JSON, piece by piece: JSON comes out as it is (control characters inside
strings become escapes), the others are translated. Knows nothing of calls.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from pyrite.text.calls.reader import Give, Markers, MismatchError, Parsing, Reader

MAX_DEPTH = 256  # levels of brackets; clients' own parsers stop not far beyond
MAX_NUMBER_LENGTH = 1000  # Python reads no whole number of more than 4300 digits

JSON_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
NUMBER = re.compile(r"[-+.0-9a-zA-Z_]*")
WORD = re.compile(r"[A-Za-z]*")
BARE_KEY = re.compile(r"[^\s:,{}\[\]\"']*")
JSON_TEXT = re.compile(r'(?:[^"\\\x00-\x1f]+|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*')
HEXADECIMAL = re.compile(r"[0-9a-fA-F]+")

JSON_ESCAPES = {character: "\\" + character for character in '"\\/bfnrt'}
PYTHON_ESCAPES = {"n": "\\n", "t": "\\t", "r": "\\r", "b": "\\b", "f": "\\f", "a": "\\u0007"} | {
    "v": "\\u000b",
    "0": "\\u0000",
    "\\": "\\\\",
    "'": "'",
    '"': '\\"',
    "/": "/",  # JSON's, which is what a grammar may have made a model write
    "\n": "",
}
JSON_WORDS = {"true": "true", "false": "false", "null": "null"}


@dataclass(frozen=True, slots=True)
class Notation:
    quotes: tuple[str, ...]
    words: Mapping[str, str]  # as written -> as JSON
    escapes: Mapping[str, str]  # after a backslash -> as JSON; within quotes of one character
    brackets: Mapping[str, str]  # opening -> closing
    strict: bool = False  # JSON's numbers, no comma after the last entry, known escapes only
    bare_keys: bool = False


JSON = Notation(('"',), JSON_WORDS, JSON_ESCAPES, {"{": "}", "[": "]"}, strict=True)
PYTHON = Notation(
    ('"', "'"),
    {"True": "true", "False": "false", "None": "null", **JSON_WORDS},
    PYTHON_ESCAPES,
    {"{": "}", "[": "]", "(": ")"},
)
GEMMA = Notation(
    ("<escape>", '<|"|>', '"'), JSON_WORDS, JSON_ESCAPES, {"{": "}", "[": "]"}, bare_keys=True
)

ENDS = {
    quote: Markers((quote, "\\") if len(quote) == 1 else (quote,))
    for quote in ('"', "'", "<escape>", '<|"|>')
}
AS_JSON = {"{": "{", "}": "}", "[": "[", "]": "]", "(": "[", ")": "]"}


def value(reader: Reader, notation: Notation, give: Give) -> Parsing[None]:
    """One whole value. Raises MismatchError at the first character that no value has there."""
    closing: list[str] = []  # of the brackets that are open
    yield from _opened(reader, notation, give, closing)
    first = bool(closing)  # nothing stands yet in the innermost brackets
    while closing:
        give((yield from reader.space()))
        character = yield from reader.peek()
        if character != closing[-1]:
            if not first:
                yield from _comma(reader, notation, give, closing[-1])
            if closing[-1] == "}":
                if (yield from reader.peek()) == "}":
                    continue
                yield from _key(reader, notation, give)
            elif (yield from reader.peek()) == closing[-1]:
                continue
            depth = len(closing)
            yield from _opened(reader, notation, give, closing)
            first = len(closing) > depth
        else:
            give(AS_JSON[reader.take(1)])
            closing.pop()
            first = False


def _opened(reader: Reader, notation: Notation, give: Give, closing: list[str]) -> Parsing[None]:
    """A whole scalar, or an opening bracket whose closing one is noted down."""
    character = yield from reader.peek()
    if character not in notation.brackets:
        yield from scalar(reader, notation, give)
        return
    if len(closing) == MAX_DEPTH:
        raise MismatchError
    closing.append(notation.brackets[reader.take(1)])
    give(AS_JSON[character])


def _comma(reader: Reader, notation: Notation, give: Give, closing: str) -> Parsing[None]:
    """The comma before the next entry; one before the closing bracket is left away."""
    yield from reader.literal(",")
    space = yield from reader.space()
    if (yield from reader.peek()) != closing:
        give("," + space)
    elif notation.strict:
        raise MismatchError


def _key(reader: Reader, notation: Notation, give: Give) -> Parsing[None]:
    quote = yield from _quote(reader, notation)
    if quote:
        yield from string(reader, quote, notation, give)
    else:
        key = (yield from reader.all_of(BARE_KEY)) if notation.bare_keys else ""
        if not key:
            raise MismatchError
        give(json.dumps(key, ensure_ascii=False))
    give((yield from reader.space()))
    yield from reader.literal(":")
    give(":")
    give((yield from reader.space()))


def scalar(reader: Reader, notation: Notation, give: Give) -> Parsing[None]:
    quote = yield from _quote(reader, notation)
    if quote:
        yield from string(reader, quote, notation, give)
        return
    character = yield from reader.peek()
    if character.isalpha():
        word = yield from reader.all_of(WORD)
        if word not in notation.words:
            raise MismatchError
        give(notation.words[word])
    else:
        give(_number((yield from reader.all_of(NUMBER)), notation))


def _number(text: str, notation: Notation) -> str:
    if len(text) > MAX_NUMBER_LENGTH:
        raise MismatchError
    if JSON_NUMBER.fullmatch(text):
        return text
    if notation.strict:
        raise MismatchError
    try:
        return json.dumps(int(text, 0) if "." not in text else float(text), allow_nan=False)
    except ValueError:
        raise MismatchError from None


def _quote(reader: Reader, notation: Notation) -> Parsing[str]:
    """The quote that comes next, which is read; or "" for something else."""
    for quote in notation.quotes:
        if (yield from reader.optional(quote)):
            return quote
    return ""


def string(reader: Reader, quote: str, notation: Notation, give: Give) -> Parsing[None]:
    """The text after an opening quote and the closing one."""
    give('"')
    ends = ENDS[quote]
    while True:
        if notation.strict:
            give(reader.some_of(JSON_TEXT))  # the fast way for what needs no translation
        found = yield from reader.give_until(ends, lambda text: give(_escaped(text)))
        if found == quote:
            break
        yield from _escape(reader, notation, give)
    give('"')


def _escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _escape(reader: Reader, notation: Notation, give: Give) -> Parsing[None]:
    """What follows a backslash. Half of a surrogate pair stays as it is: its other half follows."""
    character = yield from reader.peek()
    digits = {"u": 4, "U": 8, "x": 2}.get(character, 0)
    if character in notation.escapes:
        give(notation.escapes[reader.take(1)])
    elif digits and (character == "u" or not notation.strict):
        reader.take(1)
        code = yield from _code(reader, digits)
        give(f"\\u{code:04x}" if code < 0x10000 else json.dumps(chr(code))[1:-1])
    elif notation.strict:
        raise MismatchError
    else:
        give("\\\\")


def _code(reader: Reader, digits: int) -> Parsing[int]:
    code = ""
    while len(code) < digits:
        character = yield from reader.peek()
        if not HEXADECIMAL.fullmatch(character):
            raise MismatchError
        code += reader.take(1)
    if int(code, 16) > 0x10FFFF:
        raise MismatchError
    return int(code, 16)
