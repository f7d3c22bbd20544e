"""Schemas, patterns and Lark grammars put together from what compilers choke on.

Each compiles and can be followed for a while, or is refused with a reason: soon, and without the
process being any the worse.
"""

from __future__ import annotations

import contextlib
import json
import random

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fuzz.soon import soon
from tests.grammars import follow, vocabulary

from pyrite.errors import ParameterError
from pyrite.sampling.compiler import GrammarCompiler
from pyrite.sampling.grammar import Grammar

# ruff: noqa: SIM905

COMPILER = GrammarCompiler(vocabulary)

NUMBERS = st.sampled_from([-1, 0, 1, 2, 7, 0.5, 1e300, 2**53, -(2**63), -1e19, 10**20, 9999, 10**9])
TEXTS = st.text(max_size=8) | st.sampled_from(["", "a b", '"', "\\", "\0", "é", "#", "#/$defs/a"])
PATTERNS = st.recursive(
    st.sampled_from(
        r"a b . \d \w \s \p{L} [a-z] [^a] [[:alpha:]&&[^x]] \x41 \u{1F600} ^ $ \b (?i)k [ ] é \\ / "
        r"(?=a) \1 {2} a{999} \0".split()
    ),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map("|".join),
        inner.map(lambda one: f"({one})"),
        inner.map(lambda one: f"(?:{one})"),
        st.tuples(
            inner, st.sampled_from("* + ? *? {3} {0,9} {2,} {0,99999999} {50} ** {,3}".split())
        ).map(lambda pair: f"({pair[0]}){pair[1]}"),
    ),
    max_leaves=12,
)
VALUES = st.none() | st.booleans() | NUMBERS | TEXTS | st.lists(NUMBERS | TEXTS, max_size=3)
SCHEMAS = st.recursive(
    st.one_of(
        st.booleans(),
        st.sampled_from("string integer number boolean null object array any".split()).map(
            lambda name: {"type": name}
        ),
        st.lists(VALUES, max_size=4).map(lambda values: {"enum": values}),
        st.sampled_from(["#", "#/$defs/a", "#/$defs/b", "#/items", "x:y", ""]).map(
            lambda ref: {"$ref": ref}
        ),
        PATTERNS.map(lambda pattern: {"type": "string", "pattern": pattern}),
        st.sampled_from("date time email uuid ipv4 ipv6 uri duration hostname x".split()).map(
            lambda name: {"format": name}
        ),
        VALUES,
    ),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["object", "array", ["object", "null"], "string"]),
            "properties": st.dictionaries(TEXTS, inner, max_size=4),
            "required": st.lists(TEXTS, max_size=3),
            "additionalProperties": inner,
            "patternProperties": st.dictionaries(PATTERNS, inner, max_size=2),
            "items": inner,
            "prefixItems": st.lists(inner, max_size=3),
            "anyOf": st.lists(inner, max_size=3),
            "allOf": st.lists(inner, max_size=3),
            "oneOf": st.lists(inner, max_size=3),
            "$defs": st.fixed_dictionaries({"a": inner}, optional={"b": inner}),
            "minLength": NUMBERS,
            "maxLength": NUMBERS,
            "minItems": NUMBERS,
            "maxItems": NUMBERS,
            "minProperties": NUMBERS,
            "minimum": NUMBERS,
            "exclusiveMaximum": NUMBERS,
            "multipleOf": NUMBERS,
            "const": VALUES,
            "not": inner,
            "x-guidance": inner,
        },
    ),
    max_leaves=8,
)
LARK = st.lists(
    st.one_of(
        st.sampled_from(
            'start a b TEXT : | ( ) [ ] * + ? {3} {2,9} ~ & , "x" "\\"" "%json" /a+/ /[/]/ // # '
            "<marker> <tool_call> <[65-67]> <[99]> <x> %json %regex %ignore %import common.INT "
            '@a [lazy] [suffix="."] :: _ 1 \\ '.split(" ")
        ),
        PATTERNS.map(lambda pattern: f"/{pattern}/"),
        SCHEMAS.map(lambda schema: "%json " + json.dumps(schema)),
        st.just("\n"),
        st.just("\na: "),
        st.just("\nTEXT: "),
    ),
    max_size=30,
)


def check(kind: str, source: str, seed: int = 0) -> None:
    chance = random.Random(seed)
    try:
        with soon(5.0), contextlib.suppress(ParameterError):
            constraint = COMPILER.submit(Grammar(kind, source)).result()
            text = follow(constraint, chance.choice, limit=30)
            if text and kind == "json_schema":
                json.loads(text)
    except UnicodeDecodeError:
        assert kind == "lark", source  # a grammar may name single bytes


@settings(max_examples=400)
@given(SCHEMAS, st.integers(0, 9))
def test_schemas(schema: object, seed: int) -> None:
    check("json_schema", json.dumps(schema), seed)


@settings(max_examples=400)
@given(PATTERNS, st.integers(0, 9))
def test_patterns(pattern: str, seed: int) -> None:
    check("regex", pattern, seed)


@settings(max_examples=300)
@given(LARK, st.integers(0, 9))
def test_lark(parts: list[str], seed: int) -> None:
    check("lark", "start: " + " ".join(parts), seed)


@settings(max_examples=150)
@given(st.sampled_from(["json_schema", "regex", "lark", "choice"]), st.text(max_size=40))
def test_any_text(kind: str, source: str) -> None:
    if kind == "choice":
        source = json.dumps([source, source + "x"])
    check(kind, source)
