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
from pyrite.formats.checkpoint import open_checkpoint
from pyrite.models.registry import build_plan
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


def prompt_and_greedy(runner, prompt: dict) -> tuple[np.ndarray, list[int]]:
    """Log-probabilities at the golden positions, and the likeliest id along the golden text."""
    ids, greedy = prompt["ids"], prompt["greedy"][:GREEDY_STEPS]
    pages = range(num_pages(len(ids) + len(greedy)))
    logits = runner.run(make_batch([Part(ids, pages, 0, prompt["positions"])]))
    logprobs = log_softmax(logits)
    likeliest = [int(logits[-1].argmax())]
    for step, token in enumerate(greedy[:-1]):
        likeliest.append(
            int(runner.run(make_batch([Part([token], pages, len(ids) + step, [0])])).argmax())
        )
    return logprobs, likeliest


@pytest.mark.parametrize("precision", BOUNDS)
@pytest.mark.parametrize("name", MODELS)
def test_divergence_and_greedy_text(golden: Path, request, name: str, precision: str):
    checkpoint = open_checkpoint(request.getfixturevalue(f"{name}_path"))
    runner = CpuBackend().prepare(
        build_plan(checkpoint),
        checkpoint.tensors,
        num_pages=num_pages(1024),
        max_tokens=1024,
        num_threads=2,
        precision=precision,
    )
    most, sure = BOUNDS[precision]
    prompts = json.loads((golden / "real" / f"{MODELS[name]}.json").read_text())["prompts"]
    divergences = []
    with np.load(golden / "real" / f"{MODELS[name]}.npz") as arrays:
        for prompt in prompts:
            logprobs, likeliest = prompt_and_greedy(runner, prompt)
            top = arrays[f"{prompt['name']}.top_ids"]
            reference = arrays[f"{prompt['name']}.top_logprobs"].astype(np.float64)
            divergences += [
                divergence(p, q[ids]) for p, q, ids in zip(reference, logprobs, top, strict=True)
            ]
            for golden_id, found, margin in zip(
                prompt["greedy"], likeliest, prompt["margins"], strict=True
            ):
                assert margin <= sure or found == golden_id, prompt["name"]
    assert np.mean(divergences) <= most
