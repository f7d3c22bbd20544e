"""What the operations with a state mean, in NumPy and float32: one sequence, token after token.

Each function takes the rows of one sequence and its state, which it changes in place. Slots of
states are the runner's.
"""

from __future__ import annotations

import numpy as np

from pyrite.backends import meaning
from pyrite.backends.weights import Floats, LazyWeights
from pyrite.graph.recurrence import DeltaRule, Scan, ShortConv, Wkv4, Wkv7

NOTHING_YET = np.float32(-1e38)  # the exponent of an empty Wkv4 state


def shift_tokens(x: Floats, state: Floats) -> Floats:
    """x (tokens, width), state (width,)."""
    before = np.concatenate([state[None], x[:-1]])
    state[:] = x[-1]
    return before


def short_conv(op: ShortConv, x: Floats, state: Floats, weights: LazyWeights) -> Floats:
    """x (tokens, width), state ((kernel - 1) * width,)."""
    rows = np.concatenate([state.reshape(op.kernel - 1, -1), x])
    state[:] = rows[len(x) :].reshape(-1)
    taps = weights.values(op.weight)  # (width, kernel)
    output = np.zeros_like(x)
    for tap in range(op.kernel):
        output += rows[tap : tap + len(x)] * taps[:, tap]
    if op.bias is not None:
        output += weights.values(op.bias)
    return meaning.activate(output, op.activation)


def scan(
    op: Scan, x: Floats, step: Floats, b: Floats, c: Floats, state: Floats, weights: LazyWeights
) -> Floats:
    """x (tokens, heads * head_width), step (tokens, heads), b and c (tokens, groups * state_width),
    state (heads * head_width * state_width,)."""
    held = state.reshape(op.heads, op.head_width, op.state_width)
    a = weights.values(op.a).reshape(op.heads, 1, -1)
    d = weights.values(op.d).reshape(op.heads, 1)
    if op.step_bias is not None:
        step = step + weights.values(op.step_bias)
    dt = np.clip(np.logaddexp(np.float32(0), step), op.step_low, op.step_high).astype(np.float32)
    per_group = op.heads // op.groups
    output = np.empty_like(x)
    for t in range(len(x)):
        columns = x[t].reshape(op.heads, op.head_width)
        bs = np.repeat(b[t].reshape(op.groups, 1, -1), per_group, axis=0)
        cs = np.repeat(c[t].reshape(op.groups, 1, -1), per_group, axis=0)
        steps = dt[t].reshape(op.heads, 1, 1)
        held *= np.exp(steps * a)
        held += steps * columns[:, :, None] * bs
        output[t] = ((held * cs).sum(axis=2) + d * columns).reshape(-1)
    return output


def wkv4(op: Wkv4, key: Floats, value: Floats, state: Floats, weights: LazyWeights) -> Floats:
    """key and value (tokens, width), state (3 * width,)."""
    above, below, exponent = state.reshape(3, -1)  # views: changed in place
    decay, first = -np.exp(weights.values(op.decay)), weights.values(op.first)
    output = np.empty_like(value)
    for t in range(len(key)):
        largest = np.maximum(exponent, first + key[t])
        old, new = np.exp(exponent - largest), np.exp(first + key[t] - largest)
        output[t] = (old * above + new * value[t]) / (old * below + new)
        largest = np.maximum(exponent + decay, key[t])
        old, new = np.exp(exponent + decay - largest), np.exp(key[t] - largest)
        above[:] = old * above + new * value[t]
        below[:] = old * below + new
        exponent[:] = largest
    return output


def wkv7(
    op: Wkv7,
    receptance: Floats,
    decay: Floats,
    key: Floats,
    value: Floats,
    removal: Floats,
    rate: Floats,
    state: Floats,
) -> Floats:
    """All (tokens, width), state (width * head_width,): by head, values by keys."""
    held = state.reshape(-1, op.head_width, op.head_width)
    kept = np.exp(np.float32(-np.exp(-0.5)) * meaning.sigmoid(decay))
    rows = (-1, 1, op.head_width)
    output = np.empty_like(value)
    for t in range(len(key)):
        taken = held @ removal[t].reshape(-1, op.head_width, 1)
        held *= kept[t].reshape(rows)
        held -= taken * (removal[t] * rate[t]).reshape(rows)
        held += value[t].reshape(-1, op.head_width, 1) * key[t].reshape(rows)
        output[t] = (held @ receptance[t].reshape(-1, op.head_width, 1)).reshape(-1)
    return output


def delta_rule(
    op: DeltaRule,
    weights: LazyWeights,
    value: Floats,
    query: Floats,
    key: Floats,
    step: Floats,
    rate: Floats,
    state: Floats,
) -> Floats:
    """value (tokens, heads * value_width), query and key (tokens, key_heads * key_width), step and
    rate (tokens, heads), state (heads * value_width * key_width,)."""
    held = state.reshape(op.heads, op.value_width, op.key_width)
    kept = np.exp(
        weights.values(op.a) * np.logaddexp(np.float32(0), step + weights.values(op.step_bias))
    )
    share = meaning.sigmoid(rate)
    heads = np.arange(op.heads)
    served = heads % op.key_heads if op.is_tiled else heads // (op.heads // op.key_heads)
    output = np.empty_like(value)
    for t in range(len(value)):
        keys = key[t].reshape(op.key_heads, 1, -1)[served]
        queries = query[t].reshape(op.key_heads, -1, 1)[served]
        values = value[t].reshape(op.heads, op.value_width, 1)
        held *= kept[t].reshape(-1, 1, 1)
        taken = held @ keys.transpose(0, 2, 1)
        held += share[t].reshape(-1, 1, 1) * (values - taken) * keys
        output[t] = (held @ queries).reshape(-1)
    return output
