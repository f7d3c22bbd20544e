"""What the answer must look like: `response_format`, and vLLM's and llama.cpp's words for it."""

from __future__ import annotations

from typing import Any

import msgspec

from pyrite.errors import ParameterError
from pyrite.sampling.grammar import Grammar

FORMATS = '{"type": "text"}, {"type": "json_object"} or {"type": "json_schema", ...}'


class Formats(msgspec.Struct, kw_only=True):
    """At most one of the fields may be given."""

    response_format: dict[str, Any] | None = None
    structured_outputs: dict[str, Any] | None = None
    guided_json: dict[str, Any] | str | None = None
    guided_regex: str | None = None
    guided_choice: list[str] | None = None
    guided_grammar: str | None = None
    json_schema: dict[str, Any] | None = None

    def grammar(self) -> Grammar | None:
        """Raises ParameterError."""
        found = {name: grammar for name, grammar in self._named().items() if grammar is not None}
        if len(found) > 1:
            raise ParameterError(list(found)[1], "...", f"absent beside {next(iter(found))}")
        return next(iter(found.values()), None)

    def _named(self) -> dict[str, Grammar | None]:
        given = self.structured_outputs
        return {
            "response_format": response_format_of(self.response_format),
            "structured_outputs": None if given is None else structured_of(given),
            "guided_json": None if self.guided_json is None else schema_of(self.guided_json),
            "guided_regex": None if self.guided_regex is None else Grammar.regex(self.guided_regex),
            "guided_choice": None
            if self.guided_choice is None
            else Grammar.choice(self.guided_choice),
            "guided_grammar": None
            if self.guided_grammar is None
            else Grammar.lark(self.guided_grammar),
            "json_schema": None if self.json_schema is None else schema_of(self.json_schema),
        }


def response_format_of(given: dict[str, Any] | None) -> Grammar | None:
    kind = None if given is None else given.get("type")
    if given is None or kind == "text":
        return None
    if kind == "json_object":
        schema = given.get("schema")  # llama.cpp's form
        return Grammar.json_object() if schema is None else schema_of(schema)
    if kind == "json_schema":
        inner = given.get("json_schema")
        if not isinstance(inner, dict) or "schema" not in inner:
            where = "response_format.json_schema"
            raise ParameterError(where, inner, "an object with a name and a schema")
        return schema_of(inner["schema"])
    raise ParameterError("response_format.type", kind, f"one of {FORMATS}")


def structured_of(given: dict[str, Any]) -> Grammar:
    makers = {
        "json": schema_of,
        "regex": Grammar.regex,
        "choice": Grammar.choice,
        "grammar": Grammar.lark,
        "json_object": lambda wanted: Grammar.json_object(),
    }
    named = [name for name, value in given.items() if value is not None]
    if len(named) != 1 or named[0] not in makers:
        raise ParameterError("structured_outputs", named, f"one of {', '.join(makers)}")
    maker: Any = makers[named[0]]
    grammar: Grammar = maker(given[named[0]])
    return grammar


def schema_of(given: Any) -> Grammar:
    return Grammar.json_schema(given)
