"""What routers of a mixture choose: how near a choice was, and what others would give with it.

Between backends scores differ in their last bits. Where two experts are as near as that, each
backend takes another one, and the logits part by far more than any rounding: with the choices of
the one, the other must come to the same logits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.typing import NDArray
from rows import Row, prepare

from pyrite.backends import mixture
from pyrite.backends.weights import Floats, LazyWeights
from pyrite.formats.checkpoint import Checkpoint
from pyrite.graph.build import GraphBuilder
from pyrite.graph.compile import compile_plan
from pyrite.graph.ops import Experts, Routing
from pyrite.graph.plan import Plan
from pyrite.models.registry import build_graph, read_config
from steps import sequence_logits


@dataclass
class Choice:
    """Of one layer, by one backend: shares with their bias, and who is chosen for each token."""

    routing: Routing
    ranks: Floats  # (tokens, experts)
    chosen: NDArray[np.int64]  # (tokens, num_used), ascending

    def margins(self) -> Floats:
        """How much the first that is left would need to be taken, be it a group or an expert."""
        ranks, routing = self.ranks, self.routing
        whole = mixture._within_groups(routing, ranks)
        nearest = _gap(whole, routing.num_used)
        if routing.groups == 1:
            return nearest
        grouped = np.sort(ranks.reshape(len(ranks), routing.groups, -1), axis=2)
        counted = 2 if routing.group_score == "top2" else 1
        marks = grouped[:, :, -counted:].sum(axis=2)
        return np.minimum(nearest, _gap(marks, routing.used_groups))


def _gap(ranks: Floats, num_used: int) -> Floats:
    ordered = -np.sort(-ranks, axis=1)
    return ordered[:, num_used - 1] - ordered[:, num_used]


def choices(row: Row, model: Checkpoint, ids: Sequence[int]) -> list[Choice]:
    """Of each layer that has experts, by a plan that ends with its router."""
    weights = LazyWeights(model.tensors)
    found = []
    for routing, plan in _routers(model, len(ids)):
        scores = sequence_logits(prepare(row, model, plan=plan), ids)
        shares = mixture._shares(routing, scores)
        ranks = shares if routing.bias is None else shares + weights.values(routing.bias)
        found.append(Choice(routing, ranks, mixture.route(routing, scores, weights)[0]))
    return found


def _routers(model: Checkpoint, num_tokens: int) -> Iterator[tuple[Routing, Plan]]:
    config = read_config(model, num_tokens)
    graph = build_graph(config, GraphBuilder())
    for index, op in enumerate(graph.ops):
        if isinstance(op, Experts):
            cut = replace(graph, ops=graph.ops[:index], result=op.scores.value)
            yield (
                op.routing,
                compile_plan(
                    cut,
                    architecture=config.architecture,
                    context_length=config.context_length,
                    vocabulary=config.vocabulary,
                ),
            )


def force(monkeypatch: pytest.MonkeyPatch, made: Sequence[Choice]) -> None:
    """The reference takes these experts from now on, layer by layer; their weights are its own."""
    following = iter(made)

    def route(
        routing: Routing, scores: Floats, weights: LazyWeights
    ) -> tuple[NDArray[np.int64], Floats]:
        chosen = next(following).chosen
        return chosen, mixture.weigh(routing, mixture._shares(routing, scores), chosen, weights)

    monkeypatch.setattr(mixture, "route", route)
