"""JSON of a client into typed values, with errors that name the field. Knows no dialect."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from pyrite.errors import ParameterError, RequestError

T = TypeVar("T")


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
        given = raw.get(name.split(".")[0].split("[")[0])
        raise ParameterError(name, given, limit_of(what)) from None


def limit_of(what: str) -> str:
    """From msgspec's "Expected `int`, got `str`" the first half."""
    return what.removeprefix("Expected ").partition(", got")[0].replace("`", "")
