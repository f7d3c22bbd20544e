"""JSON of a client into typed values, with errors that name the field. Knows no dialect."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from pyrite.errors import ParameterError, RequestError
from pyrite.server.errors import HttpError

T = TypeVar("T")
PATH_STEP = re.compile(r"\[[^\]]*\]|[^.\[]+")


TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)


def check_values(body: bytes, most: int) -> None:
    """Raises HttpError 413 for JSON of more than about `most` values.

    Each becomes an object of Python's, and meanwhile nobody else is served.
    """
    num_texts = (body.count(b'"') - body.count(b'\\"')) // 2
    if num_texts <= 2 * most and structure(body) > most:
        body = TEXT.sub(b"", body)  # commas within texts part no values
    if num_texts > 2 * most or structure(body) > most:
        raise HttpError(
            413,
            "too_many_values",
            f"the JSON has more than the limit of {most} values",
            hint="send less at once, or raise --limit json_values",
        )


def structure(body: bytes) -> int:
    """Marks that part values or begin them."""
    return body.count(b",") + body.count(b"[") + body.count(b"{")


def json_object(body: bytes) -> dict[str, Any]:
    """The object in a body, without its nulls: those stand for defaults. Raises RequestError."""
    try:
        value = msgspec.json.decode(body)
    except RecursionError:
        raise RequestError("the body is nested too deeply", hint="send flatter JSON") from None
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        hint = "send one JSON object in UTF-8"
        raise RequestError(f"the body is not JSON: {error}", hint=hint) from None
    if not isinstance(value, dict):
        raise RequestError("the body is JSON, but not an object", hint="send {...}")
    return {key: item for key, item in value.items() if item is not None}


def converted(raw: dict[str, Any], kind: type[T]) -> T:
    """`raw` as a struct. Raises ParameterError that names the field."""
    try:
        return msgspec.convert(raw, kind, strict=True)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$.")
        name = where.rstrip("`") or "body"
        if what.startswith("Object missing required field"):
            missing = what.split("`")[1]
            name = missing if name == "body" else f"{name}.{missing}"
            raise ParameterError(name, None, "given") from None
        raise ParameterError(name, value_at(raw, name), limit_of(what)) from None


def limit_of(what: str) -> str:
    """From msgspec's "Expected `int`, got `str`" the first half."""
    if what.startswith("Invalid "):
        return "one of those that the interface names"
    return what.removeprefix("Expected ").partition(", got")[0].replace("`", "")


def value_at(raw: Any, path: str) -> Any:
    """What lies at `messages[0].content`; None where the path cannot be followed."""
    for step in PATH_STEP.findall(path):
        try:
            raw = raw[int(step[1:-1])] if step.startswith("[") else raw[step]
        except (KeyError, IndexError, TypeError, ValueError):
            return None
    return raw


def renamed(error: BaseException, names: Mapping[str, str]) -> BaseException:
    """The error, told by the name that a dialect has for its field.

    `names` are expressions that a whole name must match, and what it becomes.
    """
    if not isinstance(error, ParameterError):
        return error
    for pattern, theirs in names.items():
        if match := re.fullmatch(pattern, error.name):
            return ParameterError(match.expand(theirs), error.value, error.limit, hint=error.hint)
    return error
