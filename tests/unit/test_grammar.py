"""Grammars compiled and followed token by token, on vocabularies without a model."""

from __future__ import annotations

import contextlib
import itertools
import json
import random
from collections.abc import Callable
from typing import Any

import jsonschema
import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray
from tests.grammars import BYTES, EOS, MARKER, TOOL, WORDS, allowed, follow, vocabulary

from pyrite.errors import ParameterError
from pyrite.sampling.compiler import GrammarCompiler, Vocabulary
from pyrite.sampling.constraint import Constraint
from pyrite.sampling.grammar import Grammar
from pyrite.sampling.pattern import expanded_length


@pytest.fixture(scope="module")
def compiler() -> GrammarCompiler:
    return GrammarCompiler(vocabulary)


def accepts(compiler: GrammarCompiler, grammar: Grammar, text: str) -> bool:
    constraint = compiler.compile(grammar)
    data = list(text.encode())
    if constraint.validate(data) < len(data):
        return False
    for byte in data:
        constraint.accept(byte)
    return constraint.complete or EOS in allowed(constraint)


def schema(value: dict[str, Any] | bool) -> Grammar:
    return Grammar.json_schema(value)


# --- masks --------------------------------------------------------------------------------------

FOLLOWED = [
    Grammar.regex(r"(ab?c|abd)+x{0,2}"),
    Grammar.choice(["abc abc <marker>", "abc <marker>", "abc true"]),
    schema({"type": "object", "properties": {"ab": {"type": ["boolean", "null"]}, "c": True}}),
    Grammar.lark('start: (a | "b" <marker>)+ <tool_call>?\na: /[a-c]{1,3}/ ","'),
]


@pytest.mark.parametrize("grammar", FOLLOWED, ids=lambda grammar: grammar.kind)
def test_a_mask_is_what_the_tokens_say_one_by_one(
    compiler: GrammarCompiler, grammar: Grammar
) -> None:
    """Every token is tried by itself. Text that can only follow has one cut: the tokenizer's."""
    chance = random.Random(7)
    taken: list[int] = []
    for _ in range(12):
        constraint = compiler.compile(grammar)
        for token in taken:
            constraint.accept(token)
        if constraint.complete:
            break
        mask = allowed(constraint)
        forced = constraint.forced_tokens()[:1]
        fitting = [token for token in range(len(vocabulary().texts)) if fits(constraint, token)]
        assert mask == (forced or fitting)
        assert set(mask) <= set(fitting)
        going_on = [token for token in mask if token != EOS]
        if not going_on:
            break
        taken.append(chance.choice(going_on))
    assert len(taken) > 2


def fits(constraint: Constraint, token: int) -> bool:
    return constraint.validate([token]) == 1


def test_two_tokens_of_one_text_are_both_allowed() -> None:
    doubled = Vocabulary([*BYTES, b"a", b""], [], [257], list, lambda name: None)
    constraint = GrammarCompiler(lambda: doubled).compile(Grammar.regex("[ac]b"))
    assert allowed(constraint) == [ord("a"), ord("c"), 256]


def test_a_vocabulary_without_an_end_ends_where_the_grammar_does() -> None:
    endless = Vocabulary(BYTES, [], [], list, lambda name: None)
    constraint = GrammarCompiler(lambda: endless).compile(Grammar.regex("ab"))
    for byte in b"ab":
        assert byte in allowed(constraint)
        constraint.accept(byte)
    assert constraint.complete


def test_a_token_that_the_mask_forbids_is_not_accepted(compiler: GrammarCompiler) -> None:
    constraint = compiler.compile(Grammar.regex("ab"))
    with pytest.raises(ParameterError, match="regex"):
        constraint.accept(ord("x"))


def test_text_that_can_only_follow(compiler: GrammarCompiler) -> None:
    """The colon is left open: a blank may follow it, and there is a token of both."""
    constraint = compiler.compile(schema({"properties": {"city": {"type": "null"}}, **OBJECT}))
    assert len(allowed(constraint)) == 1
    forced = constraint.forced_tokens()
    assert bytes(forced) == b'{"city'
    for token in forced:
        assert allowed(constraint) == [token]
        constraint.accept(token)
    assert constraint.forced_tokens() == []
    assert allowed(constraint) == [ord('"'), *(256 + WORDS.index(one) for one in (b'":', b'": '))]


def test_forced_text_ends_where_the_grammar_does_and_goes_on_for_ever(
    compiler: GrammarCompiler,
) -> None:
    constraint = compiler.compile(Grammar.regex("xyz"))
    assert allowed(constraint) == [ord("x")]
    assert bytes(constraint.forced_tokens()) == b"xyz"
    endless = compiler.compile(Grammar.lark('start: "xy" start'))
    assert allowed(endless) == [ord("x")]
    assert len(endless.forced_tokens()) == 64
    for byte in b"xy" * 100:
        assert allowed(endless) == [byte]
        endless.accept(byte)


def test_drafts_are_checked_without_moving_on(compiler: GrammarCompiler) -> None:
    constraint = compiler.compile(schema({"properties": {"city": {"type": "null"}}, **OBJECT}))
    constraint.accept(ord("{"))
    assert constraint.validate(list(b'"city":x')) == 7
    assert constraint.validate(list(b'"city": null}')) == 13
    assert constraint.validate([]) == 0


OBJECT: dict[str, Any] = {"type": "object", "required": ["city"], "additionalProperties": False}


# --- schemas ------------------------------------------------------------------------------------

TREE = {
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "value": {"type": "integer", "minimum": 0, "maximum": 99},
                "children": {"type": "array", "items": {"$ref": "#/$defs/node"}, "maxItems": 2},
            },
            "required": ["value"],
            "additionalProperties": False,
        }
    },
    "$ref": "#/$defs/node",
}
COLORS = {"enum": ["red", "dark green", 3, None, True, 1.5]}
SCHEMAS: dict[str, dict[str, Any]] = {
    "tree": TREE,
    "keys": {
        "type": "object",
        "properties": {
            key: {"enum": [index, key]}
            for index, key in enumerate(["first name", 'a"b', "c\\d", "città", "", "日本", "\t"])
        },
        "required": ["first name", 'a"b', "c\\d", "città", "", "日本", "\t"],
        "additionalProperties": False,
    },
    "enum behind ref": {
        "type": "object",
        "properties": {"c": {"$ref": "#/$defs/color"}, "d": {"$ref": "#/$defs/color"}},
        "required": ["c", "d"],
        "additionalProperties": False,
        "$defs": {"color": COLORS},
    },
    "pointer into anyOf": {
        "type": "object",
        "properties": {
            "x": {"anyOf": [{"type": "integer", "maximum": 9, "minimum": 0}, {"type": "null"}]},
            "y": {"$ref": "#/properties/x/anyOf/0"},
        },
        "required": ["x", "y"],
        "additionalProperties": False,
    },
    "ref with siblings": {
        "$defs": {"word": {"type": "string", "maxLength": 5}},
        "type": "array",
        "items": {"$ref": "#/$defs/word", "minLength": 2},
        "minItems": 1,
        "maxItems": 3,
    },
    "tuple": {
        "type": "array",
        "prefixItems": [{"const": "x"}, {"type": "boolean"}],
        "items": False,
        "minItems": 2,
    },
    "optional": {
        "type": "object",
        "properties": {name: {"type": "boolean"} for name in ("a", "b", "c", "d")},
        "required": ["b", "d"],
        "additionalProperties": False,
    },
    "extra": {
        "type": "object",
        "properties": {"a": {"type": "null"}},
        "required": ["a", "z"],
        "additionalProperties": {"type": "boolean"},
        "maxProperties": 4,
    },
    "formats": {
        "type": "array",
        "prefixItems": [{"type": "string", "format": "date"}, {"type": "string", "format": "uuid"}],
        "items": False,
        "minItems": 2,
    },
    "pattern": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{1,3}$"},
    "numbers": {"type": "number", "exclusiveMinimum": -3, "maximum": 12.5},
    "mixed": COLORS,
}


def draws(seed: int) -> Callable[[list[int]], int]:
    """By chance, the end as soon as it may be: else a tree might grow for ever."""
    chance = random.Random(seed)

    def choose(tokens: list[int]) -> int:
        printable = [token for token in tokens if token >= 256 or 32 <= token < 127]
        closing = [token for token in printable if token in (*b'"}]', EOS)]
        if closing and chance.random() < 0.5:
            return chance.choice(closing)
        return chance.choice(printable or tokens)

    return choose


@pytest.mark.parametrize("name", SCHEMAS)
def test_whatever_is_said_is_valid(compiler: GrammarCompiler, name: str) -> None:
    """References, further properties, odd names."""
    value = SCHEMAS[name]
    ended = 0
    for seed in range(12):
        text = follow(compiler.compile(schema(value)), draws(seed))
        if text:
            ended += 1
            jsonschema.validate(json.loads(text), value)
    assert ended >= 6


def test_the_order_of_definitions_changes_nothing(compiler: GrammarCompiler) -> None:
    """References of every kind."""
    definitions = {"a": {"$ref": "#/$defs/b"}, "b": COLORS}
    turned = dict(reversed(definitions.items()))
    for seed in range(6):
        first, second = (
            follow(compiler.compile(schema({"$defs": one, "$ref": "#/$defs/a"})), draws(seed))
            for one in (definitions, turned)
        )
        assert first == second


def test_keys_come_in_the_order_of_the_schema(compiler: GrammarCompiler) -> None:
    """Optional ones may be left out, and no other key is taken."""
    grammar = schema(SCHEMAS["optional"])
    assert accepts(compiler, grammar, '{"b": true, "d": false}')
    assert accepts(compiler, grammar, '{"a":true,"b":true,"c":true,"d":false}')
    assert not accepts(compiler, grammar, '{"d": true, "b": false}')
    assert not accepts(compiler, grammar, '{"b": true, "d": false, "e": true}')
    free = {**SCHEMAS["optional"]}
    del free["additionalProperties"]
    assert accepts(compiler, schema(free), '{"b": true, "d": false, "e": [1]}')


def test_a_required_key_that_no_property_describes(compiler: GrammarCompiler) -> None:
    value = {"type": "object", "properties": {"a": True}, "required": ["z"]}
    assert accepts(compiler, schema(value), '{"z": 1}')
    assert not accepts(compiler, schema(value), '{"a": 1}')
    refuse(compiler, schema({**value, "additionalProperties": False}), "unsatisfiable")


def test_blanks_stand_after_commas_and_colons_alone(compiler: GrammarCompiler) -> None:
    """Blanks have a bound."""
    value = schema({"type": "object"})
    assert accepts(compiler, value, '{"a": [1, 2], "b":{}}')
    for text in ('{ "a": 1}', '{"a" : 1}', '{"a":  1}', '{"a":\n1}', '{"a": 1 }', ' {"a": 1}'):
        assert not accepts(compiler, value, text)


def test_strings_are_such_that_json_can_be_written_as_utf8(compiler: GrammarCompiler) -> None:
    value = schema({"type": "string"})
    assert accepts(compiler, value, '"\\n \\u0007 é"')
    assert not accepts(compiler, value, '"\\ud800"')
    assert not accepts(compiler, value, '"\n"')


def test_true_is_any_value_and_false_is_none(compiler: GrammarCompiler) -> None:
    assert accepts(compiler, schema(True), "[null]")
    assert accepts(compiler, Grammar.json_object(), '{"a": null}')
    assert not accepts(compiler, Grammar.json_object(), "[null]")
    refuse(compiler, schema(False), "some value meets")


# --- what is refused ----------------------------------------------------------------------------


def refuse(compiler: GrammarCompiler, grammar: Grammar, reason: str) -> None:
    with pytest.raises(ParameterError, match=reason) as caught:
        compiler.compile(grammar)
    assert caught.value.name == grammar.kind
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"$ref": "http://example.com/x.json"}, "example.com"),
        ({"$ref": "file:///etc/passwd"}, "passwd"),
        ({"$ref": "#/$defs/none"}, "none"),
        ({"type": "string", "not": {"const": "x"}}, "not"),
        ({"if": {}, "then": {}}, "if"),
        ({"type": "array", "uniqueItems": True}, "uniqueItems"),
        ({"type": "array", "contains": {}}, "contains"),
        ({"dependentRequired": {"a": ["b"]}}, "dependentRequired"),
        ({"unevaluatedProperties": False}, "unevaluatedProperties"),
        ({"oneOf": [{"type": "number"}, {"type": "integer"}]}, "oneOf"),
        ({"properties": {"a": {"disallow": "string"}}}, "disallow"),
        ({"$defs": {"a": {"extends": {}}}}, "extends"),
        ({"x-guidance": {"lenient": True}}, "x-guidance"),
        ({"type": "strnig"}, "strnig"),
        ({"format": "nonsense"}, "nonsense"),
        ({"enum": [-(2**63)]}, "9007199254740992"),
        ({"const": {"a": [2**53 + 1]}}, "9007199254740992"),
        ({"const": -1e19}, "9007199254740992"),
        ({"enum": []}, "empty"),
        ({"minLength": 5, "maxLength": 3, "type": "string"}, "minLength"),
        ({"allOf": [{"type": "string"}, {"type": "null"}]}, "incompatible"),
        ({"type": "string", "minLength": 10**9}, "minLength"),
        ({"items": {"minItems": 10**9}}, "minItems"),
        ({"type": "string", "pattern": "(?=x)y"}, "look-around"),
        ({"type": "string", "pattern": "(a{1000}){1000}"}, "written out"),
        ({"patternProperties": {"a{99999}": {}}}, "written out"),
        ({"enum": list(range(10_001))}, "10000"),
        ({"properties": {str(index): {} for index in range(1001)}}, "1000"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_schemas_that_would_not_be_enforced_are_refused(
    compiler: GrammarCompiler, value: dict[str, Any], reason: str
) -> None:
    refuse(compiler, schema(value), reason)


@pytest.mark.parametrize(
    "source",
    [
        "{",
        "[]",
        "3",
        '{"enum": [NaN]}',
        '{"minimum": 1e400}',
        f'{{"enum": [{10**30}]}}',
        "\ufeff{}",
    ],
)
def test_what_is_no_schema_is_refused(compiler: GrammarCompiler, source: str) -> None:
    refuse(compiler, Grammar("json_schema", source), "json_schema")


@pytest.mark.parametrize(
    ("grammar", "reason"),
    [
        (Grammar.regex("["), "unclosed"),
        (Grammar.regex("*a"), "repetition"),
        (Grammar.regex("(?<=x)y"), "look-around"),
        (Grammar.regex(r"(a)\1"), "backreferences"),
        (Grammar.regex(r"\bfoo"), "lookaround"),
        (Grammar.regex("(" * 5000 + "a" + ")" * 5000), "regex"),
        (Grammar.regex("(abc){100000}"), "written out"),
        (Grammar.regex(r"[^\s\S]"), "regex"),
        (Grammar.lark("start: ("), "lark"),
        (Grammar.lark(""), "lark"),
        (Grammar.lark("start: foo"), "unknown name"),
        (Grammar.lark("start: start"), "lark"),
        (Grammar.lark('{"grammars": [{"json_schema": {}}]}'), "lark"),
        (Grammar.lark("start: <nothing>"), "special token"),
        (Grammar.lark("start: <[99999]>"), "ids below"),
        (Grammar.lark("start: <[*]>"), "ids of tokens"),
        (Grammar.lark("start: <[^3]>"), "ids of tokens"),
        (Grammar.lark('start: %json {"not": {}}'), "not"),
        (Grammar.lark("start: %json {"), "JSON"),
        (Grammar.lark('start: %json {"x-guidance": {"lenient": true}}'), "x-guidance"),
        (Grammar.lark("start: x\nx[temperature=0.7]: /a/"), "honoured"),
        (Grammar.lark('start: x\nx[stop=""]: /a/'), "honoured"),
        (Grammar.lark('%llguidance {}\nstart: "a"'), "honoured"),
        (Grammar.lark('start: "a"{99999}'), "repetitions"),
        (Grammar.lark("start: /(a{1000}){1000}/"), "written out"),
        (Grammar.lark("start: r0\n" + "\n".join(f"r{i}: r{i + 1}" for i in range(2000))), "1000"),
        (Grammar.lark("start: " + "(" * 50_000), "lark"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_grammars_that_cannot_be_followed_are_refused(
    compiler: GrammarCompiler, grammar: Grammar, reason: str
) -> None:
    refuse(compiler, grammar, reason)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: Grammar("xml", ""), "grammar"),
        (lambda: Grammar("regex", 3), "regex"),  # type: ignore[arg-type]
        (lambda: Grammar.regex("\ud800"), "regex"),
        (lambda: Grammar.regex("a" * 2**15), "regex"),
        (lambda: Grammar.json_schema({"a": {1, 2}}), "json_schema"),
        (lambda: Grammar.json_schema({"a": float("nan")}), "json_schema"),
        (lambda: Grammar.json_schema({"enum": ["x" * 2**20]}), "json_schema"),
        (lambda: Grammar.json_schema([]), "json_schema"),  # type: ignore[arg-type]
        (lambda: Grammar.choice([]), "choice"),
        (lambda: Grammar.choice("abc"), "choice"),
        (lambda: Grammar.choice(["a", 3]), "choice"),  # type: ignore[list-item]
    ],
)
def test_a_grammar_that_is_out_of_bounds_is_not_made(
    make: Callable[[], Grammar], name: str
) -> None:
    with pytest.raises(ParameterError) as caught:
        make()
    assert caught.value.name == name


# --- what is costly -----------------------------------------------------------------------------


def nested(depth: int, opening: str, closing: str) -> str:
    return opening * depth + '{"type": "string"}' + closing * depth


COSTLY: dict[str, Callable[[], Grammar]] = {
    "nested quantifiers": lambda: Grammar.regex("(a+)+$"),
    "huge maximum": lambda: Grammar.regex("a{1,99999999}"),
    "nul": lambda: Grammar.regex("[\0]a\0"),
    "50k parentheses": lambda: Grammar("lark", "start: /" + "(" * 50_000 + ")" * 50_000 + "/"),
    "many alternatives": lambda: Grammar.regex("|".join(f"a{i}" for i in range(1500))),
    "exponential automaton": lambda: Grammar.regex("(a|b)*a(a|b){500}"),
    "long text": lambda: Grammar.regex("a{10000}"),
    "unicode": lambda: Grammar.regex(r"(\w[^a]\d){3000}"),
    "5k deep": lambda: Grammar("json_schema", nested(5000, '{"properties": {"a": ', "}}")),
    "5k arrays": lambda: Grammar("json_schema", nested(5000, '{"items": ', "}")),
    "49 deep": lambda: Grammar("json_schema", nested(49, '{"properties": {"a": ', "}}")),
    "10k enum": lambda: schema({"enum": [f"value {index}" for index in range(10_000)]}),
    "1000 optional": lambda: schema(
        {"type": "object", "properties": {f"key{i:04}": {} for i in range(1000)}}
    ),
    "length": lambda: schema({"type": "string", "maxLength": 10**9}),
    "items": lambda: schema({"type": "array", "maxItems": 10**9, "minItems": 10**4}),
    "allOf doubled": lambda: schema(
        {
            "$defs": {
                f"a{i}": {"allOf": [{"$ref": f"#/$defs/a{i + 1}"}] * 2} if i < 25 else {}
                for i in range(26)
            },
            "$ref": "#/$defs/a0",
        }
    ),
    "anyOf times anyOf": lambda: schema(
        {
            "allOf": [
                {"anyOf": [{"properties": {f"k{i}{j}": {}}} for j in range(4)]} for i in range(12)
            ]
        }
    ),
    "chain of refs": lambda: schema(
        {
            "$defs": {f"a{i}": {"$ref": f"#/$defs/a{min(i + 1, 4000)}"} for i in range(4001)},
            "$ref": "#/$defs/a0",
        }
    ),
    "ref to itself": lambda: schema({"$ref": "#"}),
    "chain of terminals": lambda: Grammar.lark(
        "start: T0\n" + "\n".join(f'T{i}: T{i + 1} "a"' for i in range(990)) + '\nT990: "z"'
    ),
    "chain of rules": lambda: Grammar.lark(
        "start: r0\n" + "\n".join(f'r{i}: r{i + 1} | "x{i}"' for i in range(990)) + '\nr990: "z"'
    ),
    "doubling terminals": lambda: Grammar.lark(
        "start: T0\n" + "\n".join(f"T{i}: T{i + 1} T{i + 1}" for i in range(40)) + '\nT40: "z"'
    ),
    "doubling rules": lambda: Grammar.lark(
        "start: r0\n" + "\n".join(f"r{i}: r{i + 1} r{i + 1}" for i in range(40)) + '\nr40: "z"'
    ),
    "endless text": lambda: Grammar.lark("start: /a{999}a{999}/ start"),
    "endless text after a letter": lambda: Grammar.lark("start: /[ab]/ a\na: /a{9000}/ a"),
    "endless object": lambda: schema(
        {
            "type": "object",
            "properties": {"a" * 900: {"$ref": "#"}},
            "required": ["a" * 900],
            "additionalProperties": False,
        }
    ),
    "ambiguity": lambda: Grammar.lark('start: start start | "a" | ""'),
    "choices": lambda: Grammar.choice([f"choice {index}" for index in range(10_000)]),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", COSTLY)
def test_costly_grammars_work_or_say_why_not_soon(compiler: GrammarCompiler, name: str) -> None:
    """Compiled where the engine does it, then followed for a while."""
    with contextlib.suppress(ParameterError):
        constraint = compiler.submit(COSTLY[name]()).result()
        follow(constraint, lambda tokens: tokens[len(tokens) // 2], limit=30)


# --- Lark ---------------------------------------------------------------------------------------


def test_schemas_in_lark_are_written_as_elsewhere(compiler: GrammarCompiler) -> None:
    """The reader finds them behind strings, regexes and comments that look like one."""
    grammar = Grammar.lark(
        "// %json {\n"
        'start: "%json {" | "<" /[%]json<a>\\/ \\{/ | call  # %json {\n'
        'call: <tool_call> %json {"type": "object", "properties": {"a": {"const": "}"}}} "!"'
    )
    assert accepts(compiler, grammar, "%json {")
    assert accepts(compiler, grammar, "<%json<a>/ {")
    constraint = compiler.compile(grammar)
    constraint.accept(TOOL)
    assert constraint.validate(list(b'{"a": "}", "b":1}!')) == 18
    assert constraint.validate(list(b'{"a":  "}"}!')) == 6


def test_a_user_defined_token_is_text_and_a_control_token_is_not(
    compiler: GrammarCompiler,
) -> None:
    quoted = compiler.compile(Grammar.lark('start: "<tool_call>" | "<marker>"'))
    assert TOOL in allowed(quoted)
    assert MARKER not in allowed(quoted)
    named = compiler.compile(Grammar.lark("start: <tool_call> | <marker>"))
    assert allowed(named) == [MARKER, TOOL]
    ranged = compiler.compile(Grammar.lark(f"start: <[{MARKER}-{TOOL},65]>"))
    assert allowed(ranged) == [65, MARKER, TOOL]


@pytest.mark.parametrize(
    ("pattern", "length"),
    [
        ("", 0),
        ("abc", 3),
        ("a{3}b{2,}", 5),
        ("(a{10}){10}", 100),
        ("(ab|c){4}", 12),
        (r"[a-z{5}]{6}\{\p{L}{7}", 14),
        ("(?:a(?i:b)){5}", 10),
        ("a*b+c?^$", 3),
        ("((", 0),
        ("a)b)", 2),
        ("{5}", 0),
    ],
)
def test_lengths_of_patterns(pattern: str, length: int) -> None:
    assert expanded_length(pattern) == length


# --- the compiler -------------------------------------------------------------------------------


def test_a_grammar_is_compiled_once_and_each_request_has_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiler = GrammarCompiler(vocabulary)
    compiled: list[Grammar] = []
    inner = GrammarCompiler._compiled
    monkeypatch.setattr(
        GrammarCompiler, "_compiled", lambda self, one: (compiled.append(one), inner(self, one))[1]
    )
    first = compiler.submit(Grammar.regex("ab")).result()
    again = compiler.submit(Grammar.regex("ab"))
    assert again.done()
    first.accept(ord("a"))
    assert allowed(first) == [ord("b")]
    assert ord("a") in allowed(again.result())
    assert len(compiled) == 1


def test_the_least_lately_used_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyrite.sampling.compiler.KEPT", 2)
    compiler = GrammarCompiler(vocabulary)
    for pattern in ("a", "b", "a", "c"):
        compiler.compile(Grammar.regex(pattern))
    assert compiler.submit(Grammar.regex("c")).done()
    assert [one.source for one in compiler._kept] == ["a", "c"]


def test_a_vocabulary_without_texts_is_refused() -> None:
    nameless = Vocabulary([b"", b""], [], [1], list, lambda name: None)
    with pytest.raises(ParameterError, match="no text"):
        GrammarCompiler(lambda: nameless).compile(Grammar.regex("a"))


def test_a_request_with_a_grammar_goes_through_msgpack() -> None:
    for grammar in (Grammar.choice(["a", "é"]), Grammar.json_object()):
        body = msgspec.msgpack.encode(grammar)
        assert msgspec.msgpack.decode(body, type=Grammar | None) == grammar
    with pytest.raises(ParameterError):
        msgspec.msgpack.decode(msgspec.msgpack.encode({"kind": "xml", "source": ""}), type=Grammar)


def ticking(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Each call takes so long; the clock is of one thread alone."""
    clock = itertools.count()
    module = "pyrite.sampling.constraint.time.thread_time"
    monkeypatch.setattr(module, lambda: next(clock) * seconds)


@pytest.mark.parametrize("call", ["mask", "validate", "accept"])
def test_the_cost_of_all_calls_is_counted(
    compiler: GrammarCompiler, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    constraint = compiler.compile(Grammar.regex("a*"))
    words: NDArray[np.uint32] = np.zeros(constraint.num_words, np.uint32)
    calls: dict[str, Callable[[], object]] = {
        "mask": lambda: constraint.mask(words),
        "validate": lambda: constraint.validate([ord("a")]),
        "accept": lambda: constraint.accept(ord("a")),
    }
    ticking(monkeypatch, 0.125)
    for _ in range(4):
        calls[call]()
    with pytest.raises(ParameterError, match="processor time"):
        constraint.mask(words)


def test_each_token_adds_to_the_allowance(
    compiler: GrammarCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    constraint = compiler.compile(Grammar.regex("a*"))
    words: NDArray[np.uint32] = np.zeros(constraint.num_words, np.uint32)
    ticking(monkeypatch, 0.002)
    for _ in range(1000):
        constraint.mask(words)
        constraint.accept(ord("a"))


def test_guesses_are_checked_as_far_as_that_is_cheap(
    compiler: GrammarCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    constraint = compiler.compile(Grammar.regex("a*"))
    guesses = list(b"aaaaaab")
    assert constraint.num_fitting(guesses) == 6
    ticking(monkeypatch, 0.002)
    constraint.accept(ord("a"))
    assert constraint.num_fitting(guesses) == 2
    ticking(monkeypatch, 0.15)
    constraint.accept(ord("a"))
    assert constraint.num_fitting(guesses) == 0
    ticking(monkeypatch, 0.00001)
    constraint.accept(ord("a"))
    assert constraint.num_fitting(guesses) == 6
    ticking(monkeypatch, 0.15)
    constraint.accept(ord("a"))
    ticking(monkeypatch, 0.00001)
    constraint.accept(ord("a"))
    assert constraint.num_fitting(guesses) == 0, "more than half of the allowance is spent"
