"""Prints a plan: each operation with its shape and place, and what the passes saved.

Layers that are the same but for their number are printed once. Text only; nothing reads it back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from pyrite.graph.ops import (
    Activate,
    Adapt,
    AdaptEmbed,
    Add,
    Affine,
    Attention,
    Blend,
    Concat,
    Embed,
    EmbedPositions,
    Experts,
    Gate,
    HeadDot,
    HeadLinear,
    Lerp,
    Linear,
    Normalize,
    Op,
    Pick,
    Rotate,
    Scale,
    ScaleRows,
    SelectRows,
    Softcap,
)
from pyrite.graph.plan import Plan
from pyrite.graph.recurrence import DeltaRule, Scan, ShiftTokens, ShortConv, Wkv4, Wkv7
from pyrite.graph.rewrite import weights
from pyrite.graph.values import Norm, Pairs, Rope, View

LAYER = re.compile(r"\bblk\.(\d+)\.")


def show_plan(plan: Plan) -> str:
    lines = _header(plan)
    for run in _runs(plan):
        lines += ["", run.title] if run.title else [""]
        lines += [_line(plan, op) for op in run.ops]
    return "\n".join(lines) + "\n"


def _header(plan: Plan) -> list[str]:
    saved = plan.savings
    return [
        f"{plan.architecture}: {plan.num_layers} layers, context {plan.context_length} tokens,"
        f" vocabulary {plan.vocabulary}",
        f"operations: {saved.ops_before} as written, {saved.ops_after} after the passes",
        f"activations: {saved.activation_bytes_before} bytes a token as written,"
        f" {saved.activation_bytes_after} in the arena",
    ]


@dataclass(frozen=True, slots=True)
class _Run:
    title: str
    ops: tuple[Op, ...]


def _runs(plan: Plan) -> Iterator[_Run]:
    """Operations outside of layers by themselves; like layers that follow each other as one."""
    pieces = [(layer, tuple(op for _, op in ops)) for layer, ops in groupby(_layered(plan), _first)]
    for _, group in groupby(pieces, lambda piece: (piece[0] is None, _likeness(plan, piece[1]))):
        like = list(group)
        first, last = like[0][0], like[-1][0]
        title = "" if first is None else f"layer {first}:"
        if len(like) > 1:
            title = f"layers {first} to {last}, {len(like)} times:"
        yield _Run(title, like[0][1])


def _layered(plan: Plan) -> Iterator[tuple[int | None, Op]]:
    """Each op with its layer; one without weights belongs to the layer of the op before it."""
    layer: int | None = None
    for op in plan.ops:
        names = weights(op)
        if names:
            found = LAYER.match(names[0])
            layer = int(found[1]) if found else None
        yield layer, op


def _first(item: tuple[int | None, Op]) -> int | None:
    return item[0]


def _likeness(plan: Plan, ops: tuple[Op, ...]) -> tuple[str, ...]:
    """The lines of a layer with its number taken out, and values counted from its first one."""
    base = ops[0].output

    def relative(found: re.Match[str]) -> str:
        return f"%{int(found[1]) - base}"

    lines = (LAYER.sub("blk.N.", " ".join(_cells(plan, op))) for op in ops)
    return tuple(re.sub(r"%(\d+)", relative, line) for line in lines)


def _line(plan: Plan, op: Op) -> str:
    name, kind, shape, place, text = _cells(plan, op)
    return f"  {name:<6}{kind:<10}{shape:<17} {place:<8}{text}"


def _cells(plan: Plan, op: Op) -> tuple[str, str, str, str, str]:
    value, column = plan.values[op.output], plan.columns[op.output]
    place = "logits" if op.output == plan.result else f"@{column}"
    kind, detail = DETAILS[type(op)]
    text = detail(plan, op).replace(".weight", "")
    return f"%{value.id}", kind, f"({value.rows}, {value.width})", place, text


def _view(plan: Plan, view: View) -> str:
    whole = view.start == 0 and view.width == plan.values[view.value].width
    columns = "" if whole else f"[{view.start}:{view.start + view.width}]"
    return f"%{view.value}{columns}"


def _residual(plan: Plan, view: View | None) -> str:
    return "" if view is None else f" + {_view(plan, view)}"


def _normed(inner: str, norm: Norm | None) -> str:
    if norm is None:
        return inner
    kind = "norm" if norm.kind == "rms" else f"{norm.kind} norm"
    named = "".join(f", {name}" for name in (norm.weight, norm.bias) if name)
    return f"{kind}({inner}{named})"


def _embed(plan: Plan, op: Embed) -> str:
    return op.weight if op.scale == 1 else f"{op.weight} * {op.scale:.6g}"


def _normalize(plan: Plan, op: Normalize) -> str:
    group = f" by {op.group} columns" if op.group else ""
    return _normed(_view(plan, op.input), op.norm) + group + _residual(plan, op.residual)


def _linear(plan: Plan, op: Linear) -> str:
    x = _normed(_view(plan, op.input), op.norm)
    names = [name if bias is None else f"{name} + bias" for name, bias in _pairs(op)]
    product = f"{x} @ {names[0]}" if len(names) == 1 else f"{x} @ [{', '.join(names)}]"
    if op.activation is not None:
        product = f"{x} @ {op.activation}({names[0]}) * {names[1]}"
    cap = f", softcap {op.softcap:g}" if op.softcap else ""
    return product + _residual(plan, op.residual) + cap


def _pairs(op: Linear) -> Iterator[tuple[str, str | None]]:
    return zip(op.weights, op.biases, strict=True)


def _rotate(plan: Plan, op: Rotate) -> str:
    return f"{_view(plan, op.input)}, heads of {op.head_width}, {_rope(op.rope)}"


def _rope(rope: Rope) -> str:
    scaling = "" if rope.scaling is None else f" {rope.scaling.kind}"
    return f"rope {rope.theta:g} {rope.width} {rope.layout}{scaling}"


def _attention(plan: Plan, op: Attention) -> str:
    query = f"query {_normed(_view(plan, op.query), op.query_norm)}"
    parts = [
        f"{query} {_kept(plan, op)}",
        f"{op.heads} heads over {op.key_heads} of {op.head_width}",
    ]
    parts += [f"window {op.window}"] if op.window else []
    parts += [f"softcap {op.softcap:g}"] if op.softcap else []
    parts += [f"values of {op.value_width}"] if op.value_width != op.head_width else []
    parts += [f"sinks {op.sinks}"] if op.sinks else []
    parts += [_rope(op.rope)] if op.rope else []
    return ", ".join(parts)


def _kept(plan: Plan, op: Attention) -> str:
    if op.key is None:
        return f"key and value of layer {op.layer}"
    value = "in key" if op.value is None else _view(plan, op.value)
    return f"key {_normed(_view(plan, op.key), op.key_norm)} value {value}"


def _gate(plan: Plan, op: Gate) -> str:
    return f"{op.activation}({_view(plan, op.gate)}) * {_view(plan, op.up)}"


def _add(plan: Plan, op: Add) -> str:
    return f"{_view(plan, op.left)} + {_view(plan, op.right)}"


def _softcap(plan: Plan, op: Softcap) -> str:
    return f"{_view(plan, op.input)}, cap {op.cap:g}"


def _embed_positions(plan: Plan, op: EmbedPositions) -> str:
    return op.weight


def _adapt(plan: Plan, op: Adapt) -> str:
    return f"{_view(plan, op.base)} + {_view(plan, op.input)} by {_adapters(op.adapters)}"


def _adapt_embed(plan: Plan, op: AdaptEmbed) -> str:
    return f"{_view(plan, op.base)} + {_adapters(op.adapters)}"


def _adapters(pairs: Pairs) -> str:
    named = [name for name in pairs.down if name]
    return f"{len(named)} adapters ({named[0]})"


def _head_linear(plan: Plan, op: HeadLinear) -> str:
    carried = f", {op.carried} columns carried" if op.carried else ""
    return f"{_view(plan, op.input)} @ {op.weight} by {op.heads} heads{carried}"


def _experts(plan: Plan, op: Experts) -> str:
    routing = op.routing
    inner = f"{op.up})" if op.gate is None else f"{op.gate}) * {op.up}"
    return (
        f"{_view(plan, op.input)} @ {op.activation}({inner} @ {op.down},"
        f" {routing.num_used} of {op.scores.width} by {routing.shares} {_view(plan, op.scores)}"
        + "".join(
            f", {name} + {_adapters(pairs)}"
            for name, pairs in (
                ("gate", op.gate_adapters),
                ("up", op.up_adapters),
                ("down", op.down_adapters),
            )
            if pairs is not None
        )
    )


def _activate(plan: Plan, op: Activate) -> str:
    return f"{op.activation}({_view(plan, op.input)})"


def _scale(plan: Plan, op: Scale) -> str:
    return f"{_view(plan, op.input)} * {op.factor:.6g}"


def _affine(plan: Plan, op: Affine) -> str:
    weight = f" * {op.weight}" if op.weight else ""
    return f"{_view(plan, op.input)}{weight}" + (f" + {op.bias}" if op.bias else "")


def _scale_rows(plan: Plan, op: ScaleRows) -> str:
    return f"{_view(plan, op.input)} * {op.activation}({_view(plan, op.factor)})"


def _lerp(plan: Plan, op: Lerp) -> str:
    return f"{_view(plan, op.left)} to {_view(plan, op.right)} by {op.weight}"


def _blend(plan: Plan, op: Blend) -> str:
    return f"{_view(plan, op.left)} to {_view(plan, op.right)} by {_view(plan, op.share)}"


def _concat(plan: Plan, op: Concat) -> str:
    return f"{_view(plan, op.left)}, {_view(plan, op.right)}"


def _pick(plan: Plan, op: Pick) -> str:
    return f"{_view(plan, op.input)} in the order of {op.order}"


def _head_dot(plan: Plan, op: HeadDot) -> str:
    left, right = _view(plan, op.left), _view(plan, op.right)
    return f"({left} . {right} * {op.weight}) * {_view(plan, op.value)}, heads of {op.head_width}"


def _shift_tokens(plan: Plan, op: ShiftTokens) -> str:
    return f"{_view(plan, op.input)} of the token before"


def _short_conv(plan: Plan, op: ShortConv) -> str:
    return f"{op.activation}({_view(plan, op.input)} * {op.weight}), {op.kernel} taps"


def _scan(plan: Plan, op: Scan) -> str:
    views = " ".join(_view(plan, view) for view in (op.input, op.step, op.b, op.c))
    return f"{views}, {op.heads} heads of {op.head_width} by {op.state_width}, {op.groups} groups"


def _wkv4(plan: Plan, op: Wkv4) -> str:
    return f"key {_view(plan, op.key)} value {_view(plan, op.value)}"


def _wkv7(plan: Plan, op: Wkv7) -> str:
    views = (op.receptance, op.decay, op.key, op.value, op.removal, op.rate)
    return " ".join(_view(plan, view) for view in views) + f", heads of {op.head_width}"


def _delta_rule(plan: Plan, op: DeltaRule) -> str:
    views = (op.query, op.key, op.value, op.step, op.rate)
    heads = f"{op.heads} heads of {op.value_width} by {op.key_width}, {op.key_heads} of keys"
    return " ".join(_view(plan, view) for view in views) + f", {heads}"


def _select_rows(plan: Plan, op: SelectRows) -> str:
    return _view(plan, op.input)


DETAILS: Mapping[type, tuple[str, Callable[[Plan, Any], str]]] = {
    Embed: ("embed", _embed),
    EmbedPositions: ("embed", _embed_positions),
    Normalize: ("norm", _normalize),
    Linear: ("linear", _linear),
    Adapt: ("adapt", _adapt),
    AdaptEmbed: ("adapt", _adapt_embed),
    HeadLinear: ("linear", _head_linear),
    Experts: ("experts", _experts),
    Rotate: ("rotate", _rotate),
    Attention: ("attention", _attention),
    Gate: ("gate", _gate),
    Add: ("add", _add),
    Activate: ("activate", _activate),
    Scale: ("scale", _scale),
    Affine: ("affine", _affine),
    ScaleRows: ("scale", _scale_rows),
    Lerp: ("lerp", _lerp),
    Blend: ("blend", _blend),
    Concat: ("concat", _concat),
    Pick: ("pick", _pick),
    HeadDot: ("dot", _head_dot),
    ShiftTokens: ("shift", _shift_tokens),
    ShortConv: ("conv", _short_conv),
    Scan: ("scan", _scan),
    Wkv4: ("wkv", _wkv4),
    Wkv7: ("wkv", _wkv7),
    DeltaRule: ("delta", _delta_rule),
    Softcap: ("softcap", _softcap),
    SelectRows: ("select", _select_rows),
}
