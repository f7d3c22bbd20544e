"""How far each precision moves the real models from float32: log-probabilities and greedy text.

The divergence at a position is taken over the golden 50 likeliest tokens and one bucket for the
rest: sum p log(p / q), in nats. Measured: 6e-7 (SmolLM2) and 2e-7 (Gemma 3) at default precision,
2.0e-3 and 1.7e-3 in fast mode; benchmarks/quality.py puts a peer beside them.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pyrite.backends.cpu import CpuBackend
from pyrite.models.registry import build_plan, open_model
from steps import Part, make_batch, num_pages

MODELS = {"smollm2": "smollm2_135m_q4_1", "gemma3": "gemma3_270m_q4_k_m"}
# precision -> (mean divergence at most, greedy ids equal where the margin is above this)
BOUNDS = {"default": (1e-5, 0.05), "fast": (2.6e-3, 0.5)}
GREEDY_STEPS = 32


def divergence(reference: np.ndarray, found: np.ndarray) -> float:
    p, q = np.exp(reference), np.exp(found)
    rest_p, rest_q = max(1 - p.sum(), 1e-12), max(1 - q.sum(), 1e-12)
    return float(np.sum(p * (reference - found)) + rest_p * np.log(rest_p / rest_q))


def log_softmax(logits: np.ndarray) -> np.ndarray:
    row = logits.astype(np.float64)
    top = row.max(axis=1, keepdims=True)
    return row - top - np.log(np.exp(row - top).sum(axis=1, keepdims=True))


def page_lists(prompts: list[dict]) -> list[range]:
    """Pages of its own for each prompt and its golden continuation."""
    counts = [num_pages(len(prompt["ids"]) + GREEDY_STEPS) for prompt in prompts]
    ends = np.cumsum(counts).tolist()
    return [range(end - count, end) for count, end in zip(counts, ends, strict=True)]


def run_prompts(runner, prompts: list[dict], pages: list[range]) -> list[np.ndarray]:
    """Logits of each prompt at its golden positions."""
    return [
        runner.run(make_batch([Part(prompt["ids"], own, 0, prompt["positions"])])).copy()
        for prompt, own in zip(prompts, pages, strict=True)
    ]


def greedy_ids(runner, prompts: list[dict], pages: list[range], first: list[int]) -> np.ndarray:
    """The likeliest id of each prompt at each step along its golden text. (prompts, steps)

    All prompts decode in one batch, which changes no bit of it (test_invariance.py).
    """
    found = [first]
    for step in range(GREEDY_STEPS - 1):
        parts = [
            Part([prompt["greedy"][step]], own, len(prompt["ids"]) + step)
            for prompt, own in zip(prompts, pages, strict=True)
        ]
        found.append(runner.run(make_batch(parts)).argmax(axis=1).tolist())
    return np.array(found).T


@pytest.mark.parametrize("precision", BOUNDS)
@pytest.mark.parametrize("name", MODELS)
def test_divergence_and_greedy_text(golden: Path, request, name: str, precision: str):
    checkpoint = open_model(request.getfixturevalue(f"{name}_path"))
    prompts = json.loads((golden / "real" / f"{MODELS[name]}.json").read_text())["prompts"]
    pages = page_lists(prompts)
    runner = CpuBackend().prepare(
        build_plan(checkpoint),
        checkpoint.tensors,
        num_pages=pages[-1].stop,
        max_tokens=1024,
        num_threads=2,
        precision=precision,
    )
    most, sure = BOUNDS[precision]
    logits = run_prompts(runner, prompts, pages)
    divergences = []
    with np.load(golden / "real" / f"{MODELS[name]}.npz") as arrays:
        for prompt, found in zip(prompts, logits, strict=True):
            top = arrays[f"{prompt['name']}.top_ids"]
            reference = arrays[f"{prompt['name']}.top_logprobs"].astype(np.float64)
            rows = zip(reference, log_softmax(found), top, strict=True)
            divergences += [divergence(p, q[ids]) for p, q, ids in rows]
    assert np.mean(divergences) <= most

    first = [int(rows[-1].argmax()) for rows in logits]
    likeliest = greedy_ids(runner, prompts, pages, first)
    margins = np.array([prompt["margins"][:GREEDY_STEPS] for prompt in prompts])
    expected = np.array([prompt["greedy"][:GREEDY_STEPS] for prompt in prompts])
    wrong = (likeliest != expected) & (margins > sure)
    assert [prompts[row]["name"] for row in np.flatnonzero(wrong.any(axis=1))] == []
