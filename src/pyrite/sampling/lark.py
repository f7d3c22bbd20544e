r"""Lark grammars before they are compiled: bounded, with schemas and special tokens put in place.

How one is written (the language of `llguidance`, a variant of Lark's):

    start: <tool_call> "\n" call "\n" </tool_call>     rules are lower case, begin with `start`
    call: %json {"type": "object", ...}                a JSON schema, written as by `Grammar`
    THOUGHT: /[^<]{1,200}/                             terminals are upper case: one regex
    text: "if" | /[0-9]+/                              strings in double quotes, regexes in slashes

A special token is written `<name>` where its name is so spelled, as in `<|im_end|>`, and `<[id]>`
or `<[first-last]>` by number. It stands in rules, never within a terminal. Text in quotes or
slashes never reaches a control token, whatever it spells; a user-defined token of the vocabulary
(GGUF type 4) is reached both ways, for it is text. A rule `name[lazy]: ...` ends as early as it
can. Tokens that end an answer may follow where the whole grammar may end.

Not taken, because nothing here would honour them: `temperature`, `stop`, `max_tokens`,
`%llguidance`, other grammars by `@name`, and sets of "any token but" (`<[*]>`, `<[^...]>`), which
would reach the ends.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from pyrite.errors import ParameterError
from pyrite.sampling.limits import MAX_MATCH_LENGTH, MAX_RULES
from pyrite.sampling.pattern import check_pattern
from pyrite.sampling.schema import DECODER, check_schema, written

NAME = "lark"
PART = re.compile(
    r"""(?P<blank>\s+|//[^\n]*|\#[^\n]*)
      | (?P<string>"(?:\\.|[^"\\\n])*"i?)
      | (?P<regex>/(?:\\.|[^/\\\n])+/[a-z]*)
      | (?P<json>%json\b) | (?P<structured>%regex\b)
      | (?P<special><[^<>\s]+>)
      | (?:\{\s*|~\s*)(?P<least>\d+)
      | (?P<option>(?:temperature|stop|max_tokens)\s*=|%llguidance\b|@[A-Za-z_]\w*)
      | (?P<colon>:(?!:))
      | \w+ | .""",
    re.VERBOSE | re.DOTALL,
)
IDS = re.compile(r"<\[(\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*)\]>")

Find = Callable[[str], int | None]  # the id of the special token of a name


def prepare_lark(source: str, find: Find, vocab_size: int) -> str:
    """The grammar as the compiler takes it. Raises ParameterError."""
    reader = _Reader(source, find, vocab_size)
    return reader.read()


class _Reader:
    def __init__(self, source: str, find: Find, vocab_size: int) -> None:
        self.source = source
        self.find = find
        self.vocab_size = vocab_size
        self.num_rules = 0

    def read(self) -> str:
        out: list[str] = []
        position = 0
        while position < len(self.source):
            part = PART.match(self.source, position)
            assert part is not None, position
            text, position = self._part(part)
            out.append(text)
        return "".join(out)

    def _part(self, part: re.Match[str]) -> tuple[str, int]:
        """What stands for the part, and where the next one begins."""
        kind, text = part.lastgroup, part[0]
        if kind in ("json", "structured"):
            return self._json(text, part.end(), is_schema=kind == "json")
        if kind == "special":
            text = self._special(text)
        elif kind == "regex":
            check_pattern(NAME, text[1 : text.rindex("/")])
        elif kind == "option":
            raise ParameterError(NAME, text, "without what is not honoured here")
        elif kind == "least" and int(part["least"][:12]) > MAX_MATCH_LENGTH:
            raise ParameterError(NAME, text, f"repetitions of at least {MAX_MATCH_LENGTH} or fewer")
        elif kind == "colon":
            self._count_rule()
        return text, part.end()

    def _count_rule(self) -> None:
        self.num_rules += 1
        if self.num_rules > MAX_RULES:
            raise ParameterError(NAME, self.source, f"at most {MAX_RULES} rules and terminals")

    def _json(self, word: str, end: int, *, is_schema: bool) -> tuple[str, int]:
        start = len(self.source) - len(self.source[end:].lstrip())
        try:
            value, end = DECODER.raw_decode(self.source, start)
        except (ValueError, RecursionError) as error:
            raise ParameterError(NAME, word, f"followed by JSON: {error}") from None
        if is_schema:
            value = self._schema(word, value)
        return f"{word} {json.dumps(value, ensure_ascii=False)}", end

    def _schema(self, word: str, schema: Any) -> Any:
        try:
            check_schema(schema)
            return written(schema)
        except ParameterError as error:
            raise ParameterError(NAME, word, f"followed by a schema: {error.message}") from None

    def _special(self, text: str) -> str:
        if text.startswith("<["):
            self._check_ids(text)
            return text
        token_id = self.find(text)
        if token_id is None:
            hint = "text that is no token of its own stands in quotes"
            raise ParameterError(NAME, text, "the name of a special token of the model", hint=hint)
        return f"<[{token_id}]>"

    def _check_ids(self, text: str) -> None:
        ids = IDS.fullmatch(text)
        if ids is None:
            raise ParameterError(NAME, text, "ids of tokens, as in <[1]> or <[3-5,9]>")
        for number in re.findall(r"\d+", ids[1]):
            if int(number[:12]) >= self.vocab_size:
                raise ParameterError(NAME, text, f"ids below {self.vocab_size}")
