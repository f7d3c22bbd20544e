"""What a mixture of experts means, in NumPy and float32: who is chosen, and their sum."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyrite.backends import meaning
from pyrite.backends.weights import Floats, LazyWeights
from pyrite.graph.ops import Experts, Routing
from pyrite.graph.values import Pairs


def route(
    routing: Routing, scores: Floats, weights: LazyWeights
) -> tuple[NDArray[np.int64], Floats]:
    """Experts of each row, ascending, and their weights. 2 x (rows, num_used)

    All weights of a row are NaN where a score or a rank of it is not finite.
    """
    shares = _shares(routing, scores)
    ranked = shares if routing.bias is None else shares + weights.values(routing.bias)
    finite = (np.isfinite(scores) & np.isfinite(ranked)).all(axis=1, keepdims=True)
    ranked = _within_groups(routing, ranked)
    chosen = np.argsort(-ranked, axis=1, kind="stable")[:, : routing.num_used]
    chosen = np.sort(chosen, axis=1)
    weighed = weigh(routing, shares, chosen, weights)
    return chosen, np.where(finite, weighed, np.float32(np.nan))


def weigh(
    routing: Routing, shares: Floats, chosen: NDArray[np.int64], weights: LazyWeights
) -> Floats:
    """The weights of the experts that were chosen. (rows, num_used)"""
    weighed = np.take_along_axis(shares, chosen, axis=1)
    if routing.is_normalized:
        weighed = weighed / (weighed.sum(axis=1, keepdims=True) + np.float32(routing.eps))
    weighed = weighed * np.float32(routing.scale)
    if routing.expert_scale is not None:
        weighed = weighed * weights.values(routing.expert_scale)[chosen]
    return weighed


def mix(
    op: Experts, x: Floats, scores: Floats, weights: LazyWeights, adapters: NDArray[np.int32]
) -> Floats:
    """Each expert works on the rows that chose it, one expert after the other. `adapters`: of each
    row, -1 for none."""
    chosen, weighed = route(op.routing, scores, weights)
    output = np.zeros_like(x)
    for expert in np.unique(chosen):
        rows, places = np.nonzero(chosen == expert)
        given = _expert(op, int(expert), x[rows], weights, adapters[rows])
        output[rows] += given * weighed[rows, places, None]
    return output


def _shares(routing: Routing, scores: Floats) -> Floats:
    if routing.shares == "sigmoid":
        return meaning.sigmoid(scores)
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares: Floats = powers / powers.sum(axis=1, keepdims=True)
    return shares


def _within_groups(routing: Routing, ranked: Floats) -> Floats:
    """-inf for the experts of groups that are not among the best."""
    if routing.groups == 1:
        return ranked
    grouped = ranked.reshape(len(ranked), routing.groups, -1)
    counted = 2 if routing.group_score == "top2" else 1
    marks = np.sort(grouped, axis=2)[:, :, -counted:].sum(axis=2)
    best = np.argsort(-marks, axis=1, kind="stable")[:, : routing.used_groups]
    kept = np.full_like(grouped, -np.inf)
    rows = np.arange(len(ranked))[:, None]
    kept[rows, best] = grouped[rows, best]
    return kept.reshape(ranked.shape)


def _expert(
    op: Experts, expert: int, x: Floats, weights: LazyWeights, adapters: NDArray[np.int32]
) -> Floats:
    def product(name: str, bias: str | None, pairs: Pairs | None, rows: Floats) -> Floats:
        result: Floats = rows @ weights.part(name, expert).T
        if bias is not None:
            result = result + weights.part(bias, expert)
        for adapter in np.unique(adapters) if pairs is not None else ():
            if pairs is not None and (pair := pairs.of(adapter)) is not None:
                down, up = (weights.part(matrix, expert) for matrix in pair)
                its = adapters == adapter
                result[its] += rows[its] @ down.T @ up.T
        return result

    up = product(op.up, op.up_bias, op.up_adapters, x)
    if op.gate is None:
        inner = meaning.activate(up, op.activation)
    else:
        inner = meaning.gated(
            product(op.gate, op.gate_bias, op.gate_adapters, x), up, op.activation
        )
    return product(op.down, op.down_bias, op.down_adapters, inner)
