"""JSON schemas before they are compiled: read, bounded, and given our way of writing JSON.

What a schema means is the compiler's to say (`compiler.py`), and so is which keywords it knows;
here stand the bounds, and the few keywords of old drafts that it would pass over in silence.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pyrite.errors import ParameterError
from pyrite.sampling.limits import (
    MAX_ENUM_VALUES,
    MAX_MINIMUM,
    MAX_PROPERTIES,
    MAX_SCHEMA_DEPTH,
)
from pyrite.sampling.pattern import check_pattern

NAME = "json_schema"

MAX_EXACT = 2**53  # as large as a whole number may be and every reader of JSON agrees on it

# Where schemas lie in a schema.
SCHEMAS = ("additionalProperties", "additionalItems", "contains", "not", "if", "then", "else")
LISTS = ("prefixItems", "allOf", "anyOf", "oneOf")
MAPPINGS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")

# Of draft 3, where they constrain; nobody would enforce them.
REFUSED = ("extends", "disallow", "divisibleBy")

# A blank after a comma and a colon may be left out, and there is no other: a model that would go on
# with blanks for ever cannot.
WRITING = {"whitespace_flexible": False, "item_separator": ", ?", "key_separator": ": ?"}


def parse_schema(source: str) -> Any:
    """The schema, checked. Raises ParameterError."""
    try:
        schema = DECODER.decode(source)
    except RecursionError:
        raise _too_deep(source) from None
    except ValueError as error:
        raise ParameterError(NAME, source, f"a JSON schema: {error}") from None
    check_schema(schema)
    return schema


def check_schema(schema: Any) -> None:
    """Raises ParameterError for what is out of bounds, or would be passed over."""
    if not isinstance(schema, (dict, bool)):
        raise ParameterError(NAME, schema, "an object, true or false")
    _check_depth(schema)
    for one in _schemas(schema):
        _check_node(one)


def written(schema: Any) -> Any:
    """The schema with what the compiler is told about blanks."""
    if schema is False:
        raise ParameterError(NAME, schema, "a schema that some value meets")
    return {**(schema if isinstance(schema, dict) else {}), "x-guidance": WRITING}


def _check_depth(schema: Any) -> None:
    level = [schema]
    depth = 0
    while level:
        if depth > MAX_SCHEMA_DEPTH:
            raise _too_deep(schema)
        level = [child for value in level for child in _children(value)]
        depth += 1


def _children(value: Any) -> Iterator[Any]:
    inner = value.values() if isinstance(value, dict) else value
    if isinstance(value, (dict, list)):
        for child in inner:
            if isinstance(child, (dict, list)):
                yield child
            elif isinstance(child, float) and child in (float("inf"), float("-inf")):
                raise ParameterError(NAME, child, "made of numbers that a float holds")


def _schemas(schema: Any) -> Iterator[dict[str, Any]]:
    """Every schema in the schema, itself included."""
    found = [schema]
    while found:
        one = found.pop()
        if not isinstance(one, dict):
            continue
        yield one
        items = one.get("items")
        found += items if isinstance(items, list) else [items]
        found += [one.get(key) for key in SCHEMAS]
        for key in LISTS:
            found += one[key] if isinstance(one.get(key), list) else []
        for key in MAPPINGS:
            found += one[key].values() if isinstance(one.get(key), dict) else []


def _check_node(schema: dict[str, Any]) -> None:
    for key in (*REFUSED, "x-guidance"):
        if key in schema:
            raise ParameterError(NAME, key, f"without {key!r}, which is not enforced here")
    for key in ("minLength", "minItems", "minProperties"):
        least = schema.get(key)
        if isinstance(least, (int, float)) and least > MAX_MINIMUM:
            raise ParameterError(NAME, {key: least}, f"a schema whose {key} is <= {MAX_MINIMUM}")
    _check_count(schema, "enum", MAX_ENUM_VALUES)
    _check_exact([schema.get("enum"), schema.get("const")])
    _check_count(schema, "properties", MAX_PROPERTIES)
    for pattern in (schema.get("pattern"), *_keys(schema.get("patternProperties"))):
        if isinstance(pattern, str):
            check_pattern(NAME, pattern)


def _check_exact(value: Any) -> None:
    """Of numbers that are to be written as they are: the compiler rounds what is larger."""
    found = [value]
    while found:
        one = found.pop()
        if isinstance(one, (int, float)) and abs(one) > MAX_EXACT:
            raise ParameterError(NAME, one, f"numbers of at most {MAX_EXACT} in 'enum' and 'const'")
        found += one.values() if isinstance(one, dict) else one if isinstance(one, list) else []


def _check_count(schema: dict[str, Any], key: str, most: int) -> None:
    value = schema.get(key)
    if isinstance(value, (list, dict)) and len(value) > most:
        raise ParameterError(NAME, {key: f"{len(value)} of them"}, f"at most {most} in one {key!r}")


def _keys(value: Any) -> list[str]:
    return list(value) if isinstance(value, dict) else []


def _too_deep(schema: Any) -> ParameterError:
    return ParameterError(NAME, schema, f"at most {MAX_SCHEMA_DEPTH} values deep")


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _integer(digits: str) -> int:
    """JSON sets no bound; beyond 64 bits the compiler fails."""
    if len(digits) > 20 or not -(2**63) <= int(digits) < 2**64:
        raise ValueError(f"{digits[:24]} is beyond 64 bits")
    return int(digits)


DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_int=_integer)
