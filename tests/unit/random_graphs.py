"""Random small graphs with their weights, for properties that hold of every graph."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from pyrite.formats.checkpoint import Tensor
from pyrite.graph.build import GraphBuilder
from pyrite.graph.ops import Graph, Routing
from pyrite.graph.values import Activation, Norm, Rope, View

WIDTH = 8  # of most values, so that any can follow any
HEAD = 4
VOCABULARY = 16
POSITIONS = 32
FADING = ".a"  # ends the names of weights that have to be negative
PLACES = ".order"  # and of those that name columns
ROPES = (Rope(100.0, HEAD, "halves"), Rope(50.0, 2, "pairs"))
ROW_KINDS = (
    "norm",
    "head_norm",
    "linear",
    "capped",
    "sum",
    "normed_sum",
    "gated",
    "rotate",
    "gate",
    "add",
    "softcap",
    "layer_norm",
    "activate",
    "scale",
    "affine",
    "scale_rows",
    "lerp",
    "blend",
    "concat",
    "pick",
    "head_dot",
    "positions",
    "head_linear",
    "experts",
)
STATE_KINDS = ("shift", "conv", "scan", "scan_by_state", "wkv4", "wkv7", "delta")
KINDS = ("attention", *ROW_KINDS, *STATE_KINDS)
CURVES: tuple[Activation, ...] = ("silu", "gelu", "relu_squared", "sigmoid", "tanh")


@st.composite
def graphs(draw, kinds: tuple[str, ...] = KINDS) -> tuple[Graph, dict[str, Tensor]]:
    """Operations drawn one by one over views of what is there already, then selection and head."""
    builder = GraphBuilder()
    views = [builder.embed("table", VOCABULARY, WIDTH)]
    layers = 0
    for index in range(draw(st.integers(1, 12))):
        kind = draw(st.sampled_from(kinds))
        views += _append(draw, builder, kind, views, str(index), layers)
        layers += kind == "attention"
    head = _head(draw, builder, views, layers if "attention" in kinds else None)
    return builder.finish(head), _weights(builder)


def _append(draw, builder, kind, views, name, layer) -> list[View]:
    near = views[-3:] + views[:1]  # so that chains are common, and several readers too
    x, y, z = (draw(st.sampled_from(near)) for _ in range(3))
    bias = draw(st.sampled_from((None, name + ".bias")))
    if kind == "norm":
        return [builder.norm(x, Norm(name, 1e-5))]
    if kind == "head_norm":
        return [builder.norm(x, Norm(name, 1e-5), group=HEAD)]
    if kind == "linear":
        wide = builder.linear(x, name, 2 * WIDTH, bias)
        halves = (View(wide.value, start, WIDTH) for start in (0, WIDTH))
        return [builder.linear(x, name + "b", WIDTH), *halves]
    if kind == "capped":
        capped = builder.softcap(builder.linear(x, name, WIDTH, bias), 0.5)
        return [builder.add(builder.softcap(capped, 0.4), y)]
    if kind == "sum":
        return [builder.add(builder.add(builder.linear(x, name, WIDTH), y), z)]
    if kind == "normed_sum":
        total = builder.add(y, builder.norm(x, Norm(name + "norm", 1e-5)))
        normed = builder.norm(x, Norm(name + "again", 1e-5))
        return [builder.linear(total, name, WIDTH), builder.linear(normed, name + "b", WIDTH)]
    if kind == "gated":
        return [builder.gate(*_pair(builder, x, draw(st.sampled_from((x, y))), name), "silu")]
    if kind == "rotate":
        start = draw(st.sampled_from((0, 2)))
        return [builder.rotate(x, HEAD, draw(st.sampled_from(ROPES[start // 2 :])), start)]
    if kind == "attention":
        return [_attention(draw, builder, (x, y, z), name, layer)]
    if kind == "gate":
        return [builder.gate(x, y, "gelu_tanh")]
    if kind in ("add", "softcap"):
        return [builder.add(x, y) if kind == "add" else builder.softcap(x, 2.0)]
    if kind in STATE_KINDS:
        return [_with_state(draw, builder, kind, (x, y, z), name)]
    return _by_rows(draw, builder, kind, (x, y, z), name)


def _with_state(draw, builder, kind, inputs, name) -> View:
    x, y, z = inputs
    if kind == "shift":
        return builder.shift_tokens(x)
    if kind == "conv":
        return builder.short_conv(x, name, 3, activation=draw(st.sampled_from(CURVES)))
    if kind == "wkv4":
        return builder.wkv4(builder.activate(x, "tanh"), y, name, name + ".first")
    if kind == "wkv7":  # removal of unit length and a rate below one: the state does not grow
        removal = builder.norm(x, Norm(None, 1e-6, kind="l2"), group=HEAD)
        return builder.wkv7(x, y, y, z, removal, builder.activate(z, "sigmoid"), HEAD)
    if kind == "delta":
        key = builder.norm(x, Norm(None, 1e-6, kind="l2"), group=HEAD)
        step, rate = (builder.linear(y, name + part, WIDTH // HEAD) for part in ("", ".rate"))
        return builder.delta_rule(
            z,
            key,
            y,
            step,
            rate,
            a=name + FADING,
            step_bias=name + ".bias",
            key_heads=WIDTH // HEAD,
            is_tiled=draw(st.booleans()),
        )
    step = builder.linear(y, name, WIDTH if kind == "scan_by_state" else WIDTH // HEAD)
    both = builder.linear(z, name + ".both", 6)
    b, c = (View(both.value, start, 3) for start in (0, 3))
    return builder.scan(x, step, b, c, a=name + FADING, d=name + ".d", step_limits=(0.0, 2.0))


def _by_rows(draw, builder, kind, inputs, name) -> list[View]:
    x, y, z = inputs
    curve = draw(st.sampled_from(CURVES))
    if kind == "layer_norm":
        norm = Norm(name, 1e-5, kind="layer", bias=name + ".bias", is_wide=draw(st.booleans()))
        return [builder.norm(x, norm, group=HEAD if norm.is_wide else 0)]
    if kind == "activate":
        return [builder.activate(x, curve)]
    if kind == "scale":
        return [builder.scale(x, 0.7)]
    if kind == "affine":
        return [builder.affine(x, name, name + ".bias")]
    if kind == "scale_rows":
        return [builder.scale_rows(x, View(y.value, y.start + 1, 1), curve)]
    if kind == "lerp":
        return [builder.lerp(x, y, name)]
    if kind == "blend":
        return [builder.blend(x, y, builder.activate(z, curve))]
    if kind == "concat":
        both = builder.concat(x, y)
        return [View(both.value, start, WIDTH) for start in (0, HEAD)]
    if kind == "pick":
        return [builder.pick(x, name + PLACES), builder.linear(y, name, WIDTH)]
    if kind == "head_dot":
        return [builder.head_dot(x, y, z, name, HEAD)]
    if kind == "head_linear":
        return [builder.head_linear(x, name, heads=2, inputs=3, width=3, carried=1)]
    if kind == "experts":
        return [_experts(builder, x, View(y.value, y.start + 2, 3), name)]
    assert kind == "positions"
    return [builder.add(x, builder.embed_positions(name, POSITIONS, WIDTH))]


def _experts(builder, x, scores, name) -> View:
    """All are used: which of almost equal scores is larger would be a matter of rounding."""
    names = (name + "gate", name + "up", name + "down")
    return builder.experts(x, scores, Routing(3), names, feed_forward=5, activation="silu")


def _pair(builder, x, y, name) -> tuple[View, View]:
    return builder.linear(x, name + "gate", WIDTH), builder.linear(y, name + "up", WIDTH)


def _attention(draw, builder, inputs, name, layer) -> View:
    query, key, value = inputs
    ropes = [draw(st.sampled_from(ROPES)) for _ in range(2)]
    query = builder.rotate(builder.norm(query, Norm(name, 1e-5), group=HEAD), HEAD, ropes[0])
    key = builder.rotate(key, HEAD, ropes[1])
    window = draw(st.sampled_from((0, 3)))
    beside = draw(st.booleans())
    return builder.attention(
        query,
        key,
        value if beside else None,
        head_width=HEAD,
        scale=0.5,
        window=window,
        value_width=None if beside else HEAD,
    )


def _head(draw, builder, views, layers) -> View:
    """Rows may be selected before the head, after it, or not at all. `layers`: None where no
    attention may be."""
    x = draw(st.sampled_from(views[-3:]))
    selected = draw(st.sampled_from(("first", "last", "never")))
    if selected == "first":
        x = builder.select_rows(x)
    if draw(st.booleans()):
        x = builder.norm(x, Norm("last", 1e-5))
    logits = builder.linear(x, "head", VOCABULARY)
    if draw(st.booleans()):
        logits = builder.softcap(logits, 3.0)
    if selected == "last":
        return builder.select_rows(logits)
    if (
        selected == "never" and layers is not None and draw(st.booleans())
    ):  # the result has another reader, that stays
        again = builder.softcap(logits, 1.0)
        builder.attention(again, again, again, head_width=HEAD, scale=1.0)
    return logits


def _weights(builder: GraphBuilder) -> dict[str, Tensor]:
    random = np.random.default_rng(len(builder.weights))
    tensors = {}
    for name, shape in builder.weights.items():
        values = random.normal(0, 0.5, shape).astype(np.float32)
        values = -np.abs(values) if name.endswith(FADING) else values
        if name.endswith(PLACES):
            values = random.integers(0, shape[0], shape).astype(np.float32)
        tensors[name] = Tensor(name, "F32", shape, values.reshape(-1).view(np.uint8))
    return tensors
