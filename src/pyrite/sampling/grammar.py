"""What a request's text must look like: a JSON schema, a regular expression, a grammar, a choice.

A plain value, bounded when it is made; `schema.py` and `lark.py` read it, `compiler.py` compiles
it. Knows no tokens.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from pyrite.errors import ParameterError
from pyrite.records import dataclass
from pyrite.sampling.limits import GRAMMAR_BYTES, MAX_CHOICES


@dataclass(frozen=True, slots=True)
class Grammar:
    """`source` is JSON for a schema and for a choice (a list of strings); empty for `json_object`.

    Made by the class methods. Raises ParameterError, named after the kind.
    """

    kind: str  # a key of GRAMMAR_BYTES
    source: str

    def __post_init__(self) -> None:
        if self.kind not in GRAMMAR_BYTES:
            raise ParameterError("grammar", self.kind, "one of " + ", ".join(GRAMMAR_BYTES))
        if not isinstance(self.source, str):
            raise ParameterError(self.kind, self.source, "text")
        try:
            size = len(self.source.encode())
        except UnicodeEncodeError:
            limit = "valid Unicode: it holds half of a surrogate pair"
            raise ParameterError(self.kind, self.source, limit) from None
        if size > (most := GRAMMAR_BYTES[self.kind]):
            raise ParameterError(self.kind, f"{size} bytes", f"at most {most} bytes")

    @classmethod
    def json_schema(cls, schema: Mapping[str, object] | bool | str) -> Grammar:
        """JSON that the schema (draft 2020-12) holds for; a string is a schema written as JSON."""
        return cls("json_schema", schema if isinstance(schema, str) else _dumped(schema))

    @classmethod
    def json_object(cls) -> Grammar:
        """Any JSON object."""
        return cls("json_object", "")

    @classmethod
    def regex(cls, pattern: str) -> Grammar:
        """Text that the whole pattern matches, in the syntax of Rust's `regex`, no look-around."""
        return cls("regex", pattern)

    @classmethod
    def lark(cls, text: str) -> Grammar:
        """Text of a context-free grammar; `lark.py` says how it is written."""
        return cls("lark", text)

    @classmethod
    def choice(cls, texts: Sequence[str]) -> Grammar:
        """One of the texts."""
        if isinstance(texts, str) or not isinstance(texts, Sequence):
            raise ParameterError("choice", texts, "a list of texts")
        if not 0 < len(texts) <= MAX_CHOICES:
            raise ParameterError("choice", f"{len(texts)} texts", f"1 to {MAX_CHOICES} texts")
        for text in texts:
            if not isinstance(text, str):
                raise ParameterError("choice", text, "texts")
        return cls("choice", json.dumps(list(texts), ensure_ascii=False))


def _dumped(schema: object) -> str:
    if not isinstance(schema, (Mapping, bool)):
        raise ParameterError("json_schema", schema, "an object, true or false")
    try:
        return json.dumps(schema, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ParameterError("json_schema", schema, f"JSON: {error}") from None
