"""Models of one operation that keeps a state, over odd widths, as rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from plans import Model, float_tensor, make_model
from pyrite.graph.values import Norm, View


def negative(name: str, model: Model) -> Model:
    """With a weight below zero, as `a` of a scan is: a state fades."""
    tensor = model.weights[name]
    values = -np.abs(tensor.data.view(np.float32).reshape(tensor.shape)) - np.float32(0.1)
    return Model(model.plan, {**model.weights, name: float_tensor(name, values)})


def shift(width: int) -> Model:
    return make_model(lambda b, x: b.shift_tokens(x), width)


def conv(width: int, kernel: int, activation, bias: str | None = "bias") -> Model:
    def build(b, x):
        return b.short_conv(x, "taps", kernel, bias=bias, activation=activation)

    return make_model(build, width)


def scan(heads: int, head_width: int, state_width: int, groups: int = 1, **options) -> Model:
    width = heads * head_width

    def build(b, x):
        step = b.linear(x, "step", heads)
        inputs, outputs = (b.linear(x, name, groups * state_width) for name in ("in", "out"))
        return b.scan(x, step, inputs, outputs, a="a", d="d", groups=groups, **options)

    return negative("a", make_model(build, width))


def wkv4(width: int) -> Model:
    def build(b, x):
        return b.wkv4(b.linear(x, "key", width), x, "decay", "first")

    return make_model(build, width)


def wkv7(heads: int, head_width: int) -> Model:
    """Removal has unit length by head and the rate is below one, or a state would grow."""
    width = heads * head_width

    def build(b, x):
        receptance, decay, key = (b.linear(x, name, width) for name in "rwk")
        removal = unit(b, b.linear(x, "removal", width), head_width)
        rate = b.activate(b.linear(x, "rate", width), "sigmoid")
        return b.wkv7(receptance, decay, b.scale(key, 0.3), x, removal, rate, head_width)

    return make_model(build, width)


def delta(heads: int, value_width: int, key_heads: int, key_width: int, tiled=False) -> Model:
    def build(b, x):
        query = b.linear(x, "query", key_heads * key_width)
        key = unit(b, b.linear(x, "key", key_heads * key_width), key_width)
        step, rate = (b.linear(x, name, heads) for name in ("step", "rate"))
        heads_of = {"key_heads": key_heads, "is_tiled": tiled}
        return b.delta_rule(query, key, x, step, rate, a="a", step_bias="bias", **heads_of)

    return negative("a", make_model(build, heads * value_width))


def unit(b, x: View, head_width: int) -> View:
    return b.norm(x, Norm(None, 1e-6, kind="l2"), group=head_width)


MODELS: Mapping[str, Callable[[], Model]] = {
    "shift": lambda: shift(24),
    "wide shift": lambda: shift(1100),
    "conv": lambda: conv(40, 4, "silu"),
    "wide conv": lambda: conv(300, 3, "identity"),
    "conv of two taps": lambda: conv(16, 2, "gelu", None),
    "conv of 16 taps": lambda: conv(16, 16, "tanh"),
    "scan by state": lambda: scan(80, 1, 16),
    "scan by state in odd groups": lambda: scan(72, 1, 5, groups=2, step_bias="bias"),
    "scan by head": lambda: scan(3, 32, 16, step_bias="bias"),
    "scan by head in groups": lambda: scan(4, 24, 7, groups=2),
    "scan of narrow heads": lambda: scan(8, 4, 16, step_bias="bias"),
    "scan of bounded steps": lambda: scan(2, 16, 8, step_limits=(0.3, 0.8)),
    "wkv4": lambda: wkv4(40),
    "wide wkv4": lambda: wkv4(150),
    "wkv7": lambda: wkv7(2, 64),
    "wkv7 of odd heads": lambda: wkv7(3, 40),
    "wkv7 of narrow heads": lambda: wkv7(4, 8),
    "delta": lambda: delta(2, 64, 2, 64),
    "delta of few key heads": lambda: delta(6, 16, 2, 32),
    "delta of tiled heads": lambda: delta(6, 16, 2, 32, tiled=True),
    "delta of odd heads": lambda: delta(3, 40, 1, 24),
}
