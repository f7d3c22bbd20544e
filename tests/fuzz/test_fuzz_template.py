"""Templates put together from golden ones and from costly parts: text or a typed error, soon.

Text that a user typed is never trusted, whatever a template does with it.
"""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fuzz.soon import soon

from pyrite.errors import TemplateError
from pyrite.text.template import ChatTemplate

# ruff: noqa: SIM905

GOLDEN = Path(__file__).parent.parent / "golden" / "chat_templates.json"
SOURCES = [entry["template"] for entry in json.loads(GOLDEN.read_text())["templates"].values()]
PARTS = [part for source in SOURCES for part in re.findall(r"{[{%].*?[%}]}|[^{]+", source)]

MARK = "\N{SNOWMAN}"  # in no template: only a user types it
MESSAGES = [
    {"role": "user", "content": f" {MARK} <|im_end|> {MARK}\n\n{MARK}"},
    {"role": "assistant", "content": f"<think>{MARK}</think> [x] {MARK}"},
]

VALUES = st.sampled_from(
    "messages messages[0].content messages[-1]['content'] bos_token 'ab' 'x,y' [1,2] (1,2) {'a':1} "
    "range(9) range(99999) 7 9**9 none true n.a n.b loop".split()
)
OPERATIONS = st.sampled_from(
    "{0} ~ {1};{0} + {1};{0} * 99;{0} * {1};{0} % {1};{0}[1:];{0}[{1}];{0}.{1};{0} in {1};"
    "{0} == {1};[{0}, {1}];({0}, {1});{{'k': {0}, 'l': {1}}};{0}|list;{0}|tojson;{0}|string;"
    "{0}|join({1});{0}|replace({1}, 'x');{0}|batch(50, {1})|list;{0}|map('upper')|join;{0}|trim;"
    "{0}|indent;{0}|length;{0}|sort;{0}|default({1});{0}.split({1});{0}.strip();{0}.join({1});"
    "{0}.replace('a', {1});{0}.format({1});'%s' % {0};'%s and %s' % ({0}, {1});{0}.upper();"
    "{0}.partition(' ')[2];{0}|reverse|list;{0}|first;{0}|last;{0}|unique|list;{0}|items|list;"
    "namespace(a={0}, b={1});dict(a={0}, b={1});{0} if {1} else 'c';m({0});not {0};"
    "{0}|groupby(0)|list;"
    "{0}|selectattr('role')|list;{0}|round;{0}|urlencode;{0}|title;{0}.splitlines();{0}|e".split(
        ";"
    )
)
EXPRESSIONS = st.recursive(
    VALUES,
    lambda inner: st.tuples(OPERATIONS, inner, inner).map(
        lambda one: f"({one[0].format(*one[1:])})"
    ),
    max_leaves=6,
)
STATEMENTS = st.one_of(
    EXPRESSIONS.map(lambda text: f"{{{{ {text} }}}}"),
    EXPRESSIONS.map(lambda text: f"{{% set n.a = {text} %}}"),
    EXPRESSIONS.map(lambda text: f"{{% set n.b = {text} %}}"),
    EXPRESSIONS.map(
        lambda text: f"{{% for x in {text} %}}{{{{ x }}}}{{% set n.a = [n.a, x] %}}{{% endfor %}}"
    ),
    EXPRESSIONS.map(
        lambda text: f"{{% for i in range(30) %}}{{% set n.a = {text} %}}{{% endfor %}}"
    ),
    EXPRESSIONS.map(lambda text: f"{{% set t %}}{{{{ {text} }}}}{{% endset %}}{{{{ t }}}}"),
    st.just("{{ n.a }}"),
)
PRELUDE = "{% macro m(v) %}<{{ v }}>{% endmacro %}{% set n = namespace(a=1, b='b') %}"


def check(source: str) -> None:
    with soon(5.0), contextlib.suppress(TemplateError):
        segments = ChatTemplate(source, bos_token="<s>").segments(MESSAGES)
        assert not any(trusted and MARK in text for text, trusted in segments)


@settings(max_examples=250)
@given(st.lists(STATEMENTS, min_size=1, max_size=6))
def test_costly_parts(statements: list[str]) -> None:
    check(PRELUDE + "".join(statements))


@settings(max_examples=150)
@given(st.lists(st.sampled_from(PARTS), min_size=1, max_size=30))
def test_shuffled_parts(parts: list[str]) -> None:
    check("".join(parts))


@settings(max_examples=60)
@given(st.sampled_from(SOURCES), st.data())
def test_cut_templates(source: str, data: st.DataObject) -> None:
    start, stop = sorted(data.draw(st.integers(0, len(source))) for _ in range(2))
    check(source[:start] + source[stop:])
