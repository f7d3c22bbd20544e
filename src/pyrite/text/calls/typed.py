"""Arguments that a model wrote as bare text, as JSON of the type that the tool's schema names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def as_json(text: str, schema: Mapping[str, Any], key: str) -> str:
    """The JSON text of one argument. A string where the schema allows nothing else, or where the
    text is no JSON of an allowed type."""
    properties = schema.get("properties")
    own = properties.get(key) if isinstance(properties, Mapping) else None
    types = types_of(own)
    if types == {"string"}:
        return json.dumps(text, ensure_ascii=False)
    bare = text.strip()
    if "boolean" in types and bare in ("True", "False"):
        return bare.lower()
    if "null" in types and bare == "None":
        return "null"
    kind = kind_of(bare)
    if kind is None or kind == "string" or (types and not _allowed(kind, types)):
        return json.dumps(text, ensure_ascii=False)
    return bare


def _allowed(kind: str, types: set[str]) -> bool:
    """A whole number is a number, and 5.0 a whole one."""
    numeric = {"integer", "number"}
    return kind in types or (kind in numeric and bool(types & numeric))


def types_of(schema: Any) -> set[str]:
    """The JSON types that a schema allows; empty when it does not say."""
    if not isinstance(schema, Mapping):
        return set()
    named = schema.get("type")
    if isinstance(named, str):
        return {named}
    if isinstance(named, list):
        return {kind for kind in named if isinstance(kind, str)}
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    if isinstance(values, list) and values:
        return {KINDS.get(type(value), "null") for value in values}
    choices = schema.get("anyOf", schema.get("oneOf", ()))
    found = [types_of(choice) for choice in choices] if isinstance(choices, (list, tuple)) else []
    return set().union(*found) if all(found) else set()


KINDS = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    dict: "object",
    list: "array",
    type(None): "null",
}


def kind_of(text: str) -> str | None:
    """The type of a JSON text, or None when it is not JSON."""
    try:
        return KINDS[type(json.loads(text, parse_constant=_refuse))]
    except (ValueError, RecursionError):
        return None


def _refuse(name: str) -> None:
    raise ValueError(name)
