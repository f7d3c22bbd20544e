"""Random small graphs with their weights, for properties that hold of every graph."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from pyrite.formats.checkpoint import Tensor
from pyrite.graph.build import GraphBuilder
from pyrite.graph.ops import Graph
from pyrite.graph.values import Norm, Rope, View

WIDTH = 8  # of most values, so that any can follow any
HEAD = 4
VOCABULARY = 16
ROPES = (Rope(100.0, HEAD, "halves"), Rope(50.0, 2, "pairs"))
KINDS = (
    "norm",
    "head_norm",
    "linear",
    "capped",
    "sum",
    "normed_sum",
    "gated",
    "rotate",
    "attention",
    "gate",
    "add",
    "softcap",
)


@st.composite
def graphs(draw) -> tuple[Graph, dict[str, Tensor]]:
    """Operations drawn one by one over views of what is there already, then selection and head."""
    builder = GraphBuilder()
    views = [builder.embed("table", VOCABULARY, WIDTH)]
    layers = 0
    for index in range(draw(st.integers(1, 12))):
        kind = draw(st.sampled_from(KINDS))
        views += _append(draw, builder, kind, views, str(index), layers)
        layers += kind == "attention"
    return builder.finish(_head(draw, builder, views, layers)), _weights(builder)


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
        return [builder.rotate(x, HEAD, draw(st.sampled_from(ROPES)))]
    if kind == "attention":
        return [_attention(draw, builder, (x, y, z), name, layer)]
    if kind == "gate":
        return [builder.gate(x, y, "gelu_tanh")]
    return [builder.add(x, y) if kind == "add" else builder.softcap(x, 2.0)]


def _pair(builder, x, y, name) -> tuple[View, View]:
    return builder.linear(x, name + "gate", WIDTH), builder.linear(y, name + "up", WIDTH)


def _attention(draw, builder, inputs, name, layer) -> View:
    query, key, value = inputs
    ropes = [draw(st.sampled_from(ROPES)) for _ in range(2)]
    query = builder.rotate(builder.norm(query, Norm(name, 1e-5), group=HEAD), HEAD, ropes[0])
    key = builder.rotate(key, HEAD, ropes[1])
    window = draw(st.sampled_from((0, 3)))
    return builder.attention(query, key, value, head_width=HEAD, scale=0.5, window=window)


def _head(draw, builder, views, layers) -> View:
    """Rows may be selected before the head, after it, or not at all."""
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
    if selected == "never" and draw(st.booleans()):  # the result has another reader, that stays
        again = builder.softcap(logits, 1.0)
        builder.attention(again, again, again, head_width=HEAD, scale=1.0)
    return logits


def _weights(builder: GraphBuilder) -> dict[str, Tensor]:
    random = np.random.default_rng(len(builder.weights))
    tensors = {}
    for name, shape in builder.weights.items():
        values = random.normal(0, 0.5, shape).astype(np.float32)
        tensors[name] = Tensor(name, "F32", shape, values.reshape(-1).view(np.uint8))
    return tensors
