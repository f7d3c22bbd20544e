"""How well a model foretells a text: perplexity, and its distance from a reference model.

As llama-perplexity defines it: of each chunk the second half counts, so that every token is
foretold from at least half a chunk. The distance is the Kullback-Leibler divergence of the model's
distribution from the reference's, token by token. Files and text are unknown here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyrite.backends.base import Runner
from pyrite.passages import Ids, results
from pyrite.records import dataclass

Floats = NDArray[np.float32]
Progress = Callable[[int, int], None]  # tokens done, of tokens

ROWS = 16  # of logits whose probabilities are computed together: they stay in the cache


@dataclass(frozen=True, slots=True)
class Scores:
    """What was found token by token. (tokens,) each"""

    losses: list[Floats] = field(default_factory=list)  # -log of the token's probability
    reference_losses: list[Floats] = field(default_factory=list)
    divergences: list[Floats] = field(default_factory=list)
    agreements: list[NDArray[np.bool_]] = field(default_factory=list)  # on the likeliest token


def score(
    runner: Runner, chunks: Ids, reference: Runner | None = None, progress: Progress | None = None
) -> Scores:
    """Raises BackendError."""
    scores = Scores()
    for index, ids in enumerate(chunks):
        _score_chunk(scores, ids, runner, reference)
        if progress is not None:
            progress((index + 1) * len(ids), chunks.size)
    return scores


def _score_chunk(scores: Scores, ids: Ids, runner: Runner, reference: Runner | None) -> None:
    first, last = len(ids) // 2, len(ids) - 2
    own = results(runner, ids, first, last)
    if reference is None:
        for positions, logits in own:
            scores.losses.append(_losses(logits, ids[positions + 1]))
        return
    for (positions, logits), (_, others) in zip(
        own, results(reference, ids, first, last), strict=True
    ):
        _compare(scores, logits, others, ids[positions + 1])


def _losses(logits: Floats, targets: Ids) -> Floats:
    found = np.empty(len(targets), np.float32)
    for start in range(0, len(targets), ROWS):
        rows = slice(start, start + ROWS)
        found[rows] = -_chosen(_log_probabilities(logits[rows]), targets[rows])
    return found


def _compare(scores: Scores, logits: Floats, others: Floats, targets: Ids) -> None:
    for start in range(0, len(targets), ROWS):
        rows = slice(start, start + ROWS)
        own, reference = _log_probabilities(logits[rows]), _log_probabilities(others[rows])
        scores.losses.append(-_chosen(own, targets[rows]))
        scores.reference_losses.append(-_chosen(reference, targets[rows]))
        scores.agreements.append(own.argmax(axis=1) == reference.argmax(axis=1))
        scores.divergences.append(divergence(reference, own))


def divergence(reference: Floats, own: Floats) -> Floats:
    """Of log-probabilities, row by row. (rows,)"""
    difference = np.exp(reference) * (reference - own)
    found: Floats = difference.sum(axis=1, dtype=np.float64).astype(np.float32)
    return np.maximum(found, np.float32(0))  # rounding may pass below


def _log_probabilities(logits: Floats) -> Floats:
    shifted = logits - logits.max(axis=1, keepdims=True)
    totals = np.exp(shifted).sum(axis=1, keepdims=True, dtype=np.float64)
    found: Floats = shifted - np.log(totals).astype(np.float32)
    return found


def _chosen(rows: Floats, targets: Ids) -> Floats:
    found: Floats = rows[np.arange(len(targets)), targets]
    return found


def summary(scores: Scores) -> dict[str, Any]:
    """Plain numbers. The standard error of a perplexity is that of the mean loss, times it."""
    losses = np.concatenate(scores.losses).astype(np.float64)
    found: dict[str, Any] = {"tokens": len(losses), **_perplexity(losses)}
    if not scores.divergences:
        return found
    reference = np.concatenate(scores.reference_losses).astype(np.float64)
    found["reference"] = _perplexity(reference)
    found["log_ratio"] = float(losses.mean() - reference.mean())
    found["log_ratio_error"] = _error(losses - reference)
    distances = np.concatenate(scores.divergences).astype(np.float64)
    found["divergence"] = {
        "mean": float(distances.mean()),
        "error": _error(distances),
        "median": float(np.median(distances)),
        "p99": float(np.quantile(distances, 0.99)),
        "max": float(distances.max()),
    }
    agreements = np.concatenate(scores.agreements).astype(np.float64)
    found["same_top"] = float(agreements.mean())
    found["same_top_error"] = _error(agreements)
    return found


def _perplexity(losses: NDArray[np.float64]) -> dict[str, float]:
    perplexity = math.exp(losses.mean())
    return {"perplexity": perplexity, "error": perplexity * _error(losses)}


def _error(values: NDArray[np.float64]) -> float:
    """The standard error of the mean; 0 of a single value."""
    return float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else 0.0
