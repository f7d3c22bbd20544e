"""What each operation means, in NumPy and float32: the specification of every other backend.

Clear before fast. Functions take arrays and give new ones; pages and the arena are `reference`'s.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from pyrite.backends.weights import Floats, LazyWeights
from pyrite.graph.ops import Attention, HeadLinear, Linear
from pyrite.graph.rope import cos_sin
from pyrite.graph.values import SWIGLU_LIMIT, SWIGLU_SLOPE, Activation, Norm, Rope

KEY_GROUP = 32  # columns of 8-bit keys under one scale
SMALLEST_KEPT = np.float32(2.0**-100)  # by `eight_bits`

Positions = NDArray[np.int32]


def normalize(x: Floats, norm: Norm, weights: LazyWeights) -> Floats:
    """As `Norm` says, over the last axis. With a wide norm x is (rows, groups, columns)."""
    output: Floats
    if norm.kind == "l2":
        length = np.sqrt(np.sum(np.square(x), axis=-1, keepdims=True))
        output = (x / np.maximum(length, np.float32(norm.eps))).astype(np.float32)
    else:
        if norm.kind == "layer":
            x = x - np.mean(x, axis=-1, keepdims=True, dtype=np.float32)
        mean = np.mean(np.square(x), axis=-1, keepdims=True)
        output = (x / np.sqrt(mean + np.float32(norm.eps))).astype(np.float32)
    shape = x.shape[-2:] if norm.is_wide else x.shape[-1:]
    if norm.weight is not None:
        output = output * weights.values(norm.weight).reshape(shape)
    if norm.bias is not None:
        output = output + weights.values(norm.bias).reshape(shape)
    return output


def activate(x: Floats, activation: Activation) -> Floats:
    """silu: x / (1 + e^-x). gelu_tanh: x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))."""
    return ACTIVATIONS[activation](x)


def gated(x: Floats, up: Floats, activation: Activation) -> Floats:
    if activation != "clamped_swiglu":
        return activate(x, activation) * up
    x = np.minimum(x, np.float32(SWIGLU_LIMIT))
    up = np.clip(up, np.float32(-SWIGLU_LIMIT), np.float32(SWIGLU_LIMIT))
    output: Floats = x * sigmoid(np.float32(SWIGLU_SLOPE) * x) * (up + 1)
    return output


def sigmoid(x: Floats) -> Floats:
    output: Floats = np.float32(1) / (np.float32(1) + np.exp(-x))
    return output


def _silu(x: Floats) -> Floats:
    return x * sigmoid(x)


def _gelu(x: Floats) -> Floats:
    halves = [math.erf(value) for value in (x / np.float32(math.sqrt(2))).reshape(-1).tolist()]
    return np.float32(0.5) * x * (1 + np.array(halves, np.float32).reshape(x.shape))


def _gelu_tanh(x: Floats) -> Floats:
    inner = np.float32(np.sqrt(2 / np.pi)) * (x + np.float32(0.044715) * x * x * x)
    output: Floats = np.float32(0.5) * x * (1 + np.tanh(inner))
    return output


def _relu(x: Floats) -> Floats:
    return np.maximum(x, np.float32(0))


ACTIVATIONS: Mapping[Activation, Callable[[Floats], Floats]] = {
    "identity": lambda x: x,
    "silu": _silu,
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "relu": _relu,
    "relu_squared": lambda x: np.square(_relu(x)),
    "sigmoid": sigmoid,
    "tanh": np.tanh,
}


def softcap(x: Floats, cap: float) -> Floats:
    output: Floats = np.float32(cap) * np.tanh(x / np.float32(cap))
    return output


def linear(op: Linear, x: Floats, residual: Floats | None, weights: LazyWeights) -> Floats:
    """Norm, projections with biases, activation, residual, softcap, in this order."""
    if op.norm is not None:
        x = normalize(x, op.norm, weights)
    parts = [weights.project(name, x) for name in op.weights]
    for part, bias in zip(parts, op.biases, strict=True):
        if bias is not None:
            part += weights.values(bias)
    if op.activation is not None:
        parts = [gated(parts[0], parts[1], op.activation)]
    output = np.concatenate(parts, axis=1)
    if residual is not None:
        output += residual
    return softcap(output, op.softcap) if op.softcap else output


def head_linear(op: HeadLinear, x: Floats, weights: LazyWeights) -> Floats:
    matrices = weights.values(op.weight)  # (heads, outputs, inputs)
    inputs = matrices.shape[2]
    heads = x.reshape(len(x), op.heads, -1)
    products = (matrices @ heads[..., :inputs].transpose(1, 2, 0)).transpose(2, 0, 1)
    return np.concatenate([products, heads[..., inputs:]], axis=2).reshape(len(x), -1)


def rotate(x: Floats, rope: Rope, positions: Positions, start: int = 0) -> Floats:
    """Turns `rope.width` columns of each head from `start` on. (tokens, heads, head_width)"""
    if start:
        turned = rotate(x[..., start:], rope, positions)
        return np.concatenate([x[..., :start], turned], axis=-1)
    cos, sin = (table[:, None, :] for table in cos_sin(rope, positions))
    half = rope.width // 2
    if rope.layout == "halves":
        first, second = slice(0, half), slice(half, rope.width)
    else:
        first, second = slice(0, rope.width, 2), slice(1, rope.width, 2)
    turned = x.copy()
    turned[..., first] = x[..., first] * cos - x[..., second] * sin
    turned[..., second] = x[..., second] * cos + x[..., first] * sin
    return turned


def heads(x: Floats, count: int, norm: Norm | None, weights: LazyWeights) -> Floats:
    """(tokens, count * head_width) -> (tokens, count, head_width), each head normalised."""
    split = x.reshape(len(x), count, x.shape[1] // count)
    return split if norm is None else normalize(split, norm, weights)


def eight_bit_keys(keys: Floats) -> Floats:
    """As 8 bits hold them, KEY_GROUP columns of a head under one scale. (..., head_width)"""
    cuts = range(KEY_GROUP, keys.shape[-1], KEY_GROUP)
    return np.concatenate([eight_bits(part) for part in np.split(keys, cuts, axis=-1)], axis=-1)


def eight_bits(x: Floats) -> Floats:
    """Each row is whole multiples, up to 127, of one scale: the last axis. Below SMALLEST_KEPT all
    are zeros; one that is not finite makes all NaN."""
    largest = np.abs(x).max(axis=-1, keepdims=True, initial=0)
    largest[largest < SMALLEST_KEPT] = 0
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = largest / np.float32(127)
        steps = np.where(scale == 0, np.float32(0), np.rint(x / scale))
        kept: Floats = steps * scale
    return kept


def attend(
    op: Attention,
    query: Floats,
    keys: Floats,
    values: Floats,
    visible: NDArray[np.bool_],
    sinks: Floats | None = None,
) -> Floats:
    """Mixes values by the softmax of scaled, capped scores over the visible positions.

    query (tokens, heads, head_width); keys and values (positions, key_heads, head_width);
    visible (tokens, positions); sinks (heads,). Gives (tokens, heads * value_width).
    """
    group = op.heads // op.key_heads
    grouped = query.reshape(len(query), op.key_heads, group, -1).transpose(1, 2, 0, 3)
    scores = grouped @ keys.transpose(1, 2, 0)[:, None]  # (key_heads, group, tokens, positions)
    scores *= np.float32(op.scale)
    if op.softcap:
        scores = softcap(scores, op.softcap)
    scores = np.where(visible, scores, np.float32(-np.inf))
    largest = scores.max(axis=-1, keepdims=True)
    if sinks is not None:
        sink = sinks.reshape(op.key_heads, group, 1, 1)
        largest = np.maximum(largest, sink)
    shares = np.exp(scores - largest)
    total = shares.sum(axis=-1, keepdims=True)
    shares /= total if sinks is None else total + np.exp(sink - largest)
    mixed = shares @ values.transpose(1, 0, 2)[:, None]  # (key_heads, group, tokens, head_width)
    output: Floats = mixed.transpose(2, 0, 1, 3).reshape(len(query), -1)
    return output


def visible_positions(
    positions: Positions, first: int, stop: int, window: int
) -> NDArray[np.bool_]:
    """Which of the positions first : stop each token sees. (tokens, stop - first)"""
    others = np.arange(first, stop)
    seen = others <= positions[:, None]
    if window:
        seen &= others > positions[:, None] - window
    return seen
