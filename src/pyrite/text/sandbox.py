"""Runs a chat template that nobody vouches for: jinja2's immutable sandbox, traced and metered.

Every operation spends from a budget that follows from the size of what goes in, so a hostile
template ends in a LimitError after bounded work and memory, whatever the clock says. Strings from
the template are `Traced`, so the result tells which of its characters the template wrote. Knows
nothing of messages, tokens or models; jinja2 is imported here and nowhere else.
"""

# ruff: noqa: N802 - jinja2 names a visitor after its node

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame, operators
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedFormatter
from jinja2.utils import Cycler, Joiner, Namespace

from pyrite.text import traced
from pyrite.text.metering import (
    CHARACTERS_A_LOOK,
    MAX_WIDTH,
    LimitError,
    budget,
    charge_join,
    check_binop,
    check_count,
    check_padding,
    check_replace,
    check_text_call,
    glance,
    num_lines,
    weigh,
    weight,
)
from pyrite.text.traced import Traced

MAX_NODES = 20_000  # of the template's syntax tree; those that models ship have up to about 1,000
REPR_GROWTH = 4  # "\\x00": characters that one becomes in repr(), at most
JSON_GROWTH = 6  # "\\u0000"


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# What a template may call on a value it holds. Anything else (int.to_bytes, generator.throw,
# dict.fromkeys, str.translate) is refused: its cost or its reach cannot be told beforehand.
TEXT_METHODS = words(
    "capitalize casefold center count endswith expandtabs find format format_map index isalnum "
    "isalpha isascii isdecimal isdigit islower isnumeric isspace istitle isupper join ljust "
    "lower lstrip partition removeprefix removesuffix replace rfind rindex rjust rpartition "
    "rsplit rstrip split splitlines startswith strip swapcase title upper zfill"
)
CONTAINER_METHODS = words("copy count get index items keys values")

PADDING_FILTERS = words("batch center indent slice")
ITERATING_FILTERS = words(
    "batch groupby join list map max min reject rejectattr select selectattr slice sort unique"
)
OTHER_FILTERS = words(
    "abs attr capitalize count d default dictsort e escape first float format int items last "
    "length lower replace reverse round safe title trim truncate upper urlencode wordcount"
)
# These filters and tests look at the outermost level of what they are given, or at nothing.
SHALLOW = words(
    "attr batch boolean callable count d default defined false filter first float integer items "
    "iterable last length list map mapping none number reject rejectattr reverse select "
    "selectattr sequence slice string test true undefined"
)


class Refusal(Exception):  # noqa: N818 - it is the template's answer, not a fault
    """The template called raise_exception(message)."""


class TracedCodeGenerator(CodeGenerator):
    """Emits template text as `Traced` literals and sends costly operations through the environment.

    Nothing is folded at compile time: `{{ 'a' * 10**9 }}` must meet the budget, not the compiler.
    """

    def visit_Const(self, node: nodes.Const, frame: Frame) -> None:
        if isinstance(node.value, str):
            self.write(f"environment.literal({node.value!r})")
        else:
            super().visit_Const(node, frame)

    def visit_TemplateData(self, node: nodes.TemplateData, frame: Frame) -> None:
        self.write(f"environment.literal({node.data!r})")

    def _output_child_to_const(self, node: nodes.Expr, frame: Frame, finalize: Any) -> str:
        if not isinstance(node, nodes.TemplateData):
            raise nodes.Impossible
        return node.data

    def _output_const_repr(self, group: Iterable[Any]) -> str:
        return f"environment.literal({''.join(group)!r})"

    def _output_child_pre(self, node: nodes.Expr, frame: Frame, finalize: Any) -> None:
        self.write("environment.text(")

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:
        self._wrapped("environment.concat((", node.nodes, "))", frame)

    def visit_Compare(self, node: nodes.Compare, frame: Frame) -> None:
        self.write("(")
        self._wrapped("environment.looked_at(", [node.expr], ")", frame)
        for operand in node.ops:
            self.visit(operand, frame)
        self.write(")")

    def visit_Operand(self, node: nodes.Operand, frame: Frame) -> None:
        self._wrapped(f" {operators[node.op]} environment.looked_at(", [node.expr], ")", frame)

    def visit_List(self, node: nodes.List, frame: Frame) -> None:
        self._wrapped("environment.made([", node.items, "])", frame)

    def visit_Tuple(self, node: nodes.Tuple, frame: Frame) -> None:
        if node.ctx == "load":
            self._wrapped("environment.made((", node.items, "))", frame)
        else:
            super().visit_Tuple(node, frame)

    def visit_Dict(self, node: nodes.Dict, frame: Frame) -> None:
        self.write("environment.made(")
        super().visit_Dict(node, frame)
        self.write(")")

    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:
        sliced = isinstance(node.arg, nodes.Slice)
        self.write("environment.sliced(" if sliced else "(")
        super().visit_Getitem(node, frame)
        self.write(")")

    def _wrapped(self, before: str, items: list[Any], after: str, frame: Frame) -> None:
        self.write(before)
        for item in items:
            self.visit(item, frame)
            self.write("," if len(items) > 1 or before.endswith("((") else "")
        self.write(after)


class GenerationTag(Extension):
    """{% generation %} marks what a trainer learns from; the text inside is rendered as it is."""

    tags = {"generation"}  # noqa: RUF012 - jinja2 declares it so

    def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class QuietNamespace(Namespace):
    """A namespace may hold itself, so it does not print what it holds."""

    def __repr__(self) -> str:
        return "<Namespace>"


class CheckedFormatter(SandboxedFormatter):
    def format_field(self, value: Any, format_spec: str) -> Any:
        if re.search(r"[0-9]{4,}", format_spec):
            raise LimitError("it pads text too far")
        budget.get().spend(characters=weight(value))
        return super().format_field(value, format_spec)


class TemplateEnvironment(ImmutableSandboxedEnvironment):
    code_generator_class = TracedCodeGenerator
    intercepted_binops = words("+ - * / // % **")

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=["jinja2.ext.loopcontrols", GenerationTag],
            optimized=False,
            cache_size=0,
        )
        self._literals: dict[str, Traced] = {}
        kept = ("range", "dict", "cycler", "joiner")
        self.globals = {name: self.globals[name] for name in kept}
        self.globals["namespace"] = QuietNamespace
        known = PADDING_FILTERS | ITERATING_FILTERS | OTHER_FILTERS
        filters: Mapping[str, Any] = self.filters
        self.filters = {name: metered(name, filters[name]) for name in sorted(known)}
        self.filters["format"] = self._format_filter
        self.filters |= {"string": self.text, "tojson": tojson}
        tests: Mapping[str, Any] = self.tests
        self.tests = {name: metered(name, test) for name, test in tests.items()}

    # -- called by the generated code

    def literal(self, text: str) -> Traced:
        found = self._literals.get(text)
        if found is None:
            found = self._literals[text] = traced.literal(text)
        return found

    def text(self, value: Any) -> str:
        """What `{{ value }}` prints."""
        if isinstance(value, str):
            return value
        weigh(value, REPR_GROWTH * CHARACTERS_A_LOOK)
        return str(value)

    def concat(self, items: Iterable[Any]) -> str:
        spend = budget.get().spend
        pieces = []
        for item in items:
            piece = self.text(item)
            spend(characters=len(piece))
            pieces.append(piece)
        return traced.joined("", pieces)

    def looked_at(self, value: Any) -> Any:
        weigh(value)
        return value

    def made(self, value: Any) -> Any:
        if isinstance(value, (str, bytes)):
            budget.get().spend(characters=len(value))
        else:
            weigh(value)
        return value

    def sliced(self, value: Any) -> Any:
        glance(value)
        budget.get().spend(characters=weight(value))
        return value

    def step(self) -> None:
        budget.get().spend()

    # -- the sandbox's hooks

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        """Every turn of a loop spends a step, before its body."""
        tree = super()._parse(source, name, filename)
        if sum(1 for _ in tree.find_all(nodes.Node)) > MAX_NODES:
            raise LimitError(f"it has more than {MAX_NODES} syntax nodes")
        for loop in list(tree.find_all(nodes.For)):
            call = nodes.Call(nodes.EnvironmentAttribute("step"), [], [], None, None)
            loop.body.insert(0, nodes.ExprStmt(call))
        return tree

    def getattr(self, obj: Any, attribute: str) -> Any:
        budget.get().spend()
        return super().getattr(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        budget.get().spend()
        return super().getitem(obj, argument)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        args = check_call(__obj, args, kwargs)
        return __self.made(super().call(__context, __obj, *args, **kwargs))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        check_binop(operator, left, right)
        return self.made(super().call_binop(context, operator, left, right))

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """str.format, whose result counts as untrusted."""
        if getattr(value, "__name__", "") not in ("format", "format_map"):
            return None
        if not isinstance(getattr(value, "__self__", None), str):
            return None
        template = value.__self__
        mapped = value.__name__ == "format_map"

        def wrapped(*args: Any, **kwargs: Any) -> str:
            named = dict(args[0]) if mapped else kwargs
            return CheckedFormatter(self).vformat(template, () if mapped else args, named)

        return wrapped

    def _format_filter(self, template: Any, *args: Any, **kwargs: Any) -> Any:
        values = kwargs or args
        check_binop("%", self.text(template), values)
        return self.made(self.text(template) % values)


def tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as Transformers' templates expect it: no HTML escapes, non-ASCII kept."""
    check_padding([indent])
    weigh(value, JSON_GROWTH * CHARACTERS_A_LOOK)
    text = json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )
    budget.get().spend(characters=len(text))
    return text


def metered(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The filter or test, paying for what it looks at and for what it makes."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        values = [*args, *kwargs.values()]
        for value in values:
            if name in SHALLOW:
                glance(value)
            else:
                weigh(value)
            if name in ITERATING_FILTERS and isinstance(value, str):
                check_count(len(value))
        if name in PADDING_FILTERS:
            check_padding(values)
        if name == "indent":
            budget.get().spend(characters=MAX_WIDTH * sum(map(num_lines, values)))
        if name == "join":  # (evaluation context, items, separator)
            items = list(args[1])
            separators = [value for value in values[2:] if isinstance(value, str)]
            charge_join(max(map(len, separators), default=0), items)
            args = (args[0], items, *args[2:])
        if name == "replace":
            check_replace(*[str(value) for value in values if isinstance(value, str)])
        result = function(*args, **kwargs)
        if isinstance(result, str):
            budget.get().spend(characters=len(result))
        else:
            weigh(result)
        return result

    return run


def check_call(called: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
    """Refuses methods of unknown cost; returns the arguments, generators spelled out."""
    budget.get().spend()
    owner = getattr(called, "__self__", None)
    name = getattr(called, "__name__", "")
    if isinstance(owner, str) and name in TEXT_METHODS:
        budget.get().spend(characters=len(owner) // CHARACTERS_A_LOOK)
        return check_text_call(owner, name, args, kwargs)
    if owner is None or is_harmless(owner, name):
        return args
    raise SecurityError(f"{type(owner).__name__}.{name} is not callable here")


def is_harmless(owner: Any, name: str) -> bool:
    if isinstance(owner, (dict, list, tuple)):
        return name in CONTAINER_METHODS
    of_jinja = type(owner).__module__ == "jinja2.runtime"  # the methods of `loop`
    return of_jinja or isinstance(owner, (Cycler, Joiner, TemplateEnvironment))
