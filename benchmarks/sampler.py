"""What drawing one token costs, by settings and size of the vocabulary.

    python benchmarks/sampler.py [MODEL.gguf ...]

Processor time of one call for one row, median of many, Python's part included. Without models the
logits are random (normal, deviation 3: far flatter than a model's, so the filters that look at the
whole row are near their worst); with them they are the model's own after a few words.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
from numpy.typing import NDArray

import pyrite
from pyrite.sampling.params import SamplingParams
from pyrite.sampling.sampler import BatchSampler, Sampler

SIZES = (49_152, 151_936, 262_144)
PROMPT = "The first thing that one sees on entering the old town is"
SETTINGS = {
    "greedy": SamplingParams(temperature=0),
    "temperature": SamplingParams(),
    "top_k 40, top_p 0.95, min_p 0.05": SamplingParams(top_k=40, top_p=0.95, min_p=0.05),
    "top_p 0.95": SamplingParams(top_p=0.95),
    "min_p 0.05": SamplingParams(min_p=0.05),
    "typical_p 0.95": SamplingParams(typical_p=0.95),
    "xtc, always": SamplingParams(xtc_probability=1.0),
    "greedy, repetition 1.1": SamplingParams(temperature=0, repetition_penalty=1.1),
    "greedy, logprobs 20": SamplingParams(temperature=0, logprobs=20),
}


def microseconds(logits: NDArray[np.float32], params: SamplingParams, rounds: int = 101) -> float:
    """Of one row; every round is another step, and so draws another number."""
    batch = BatchSampler()
    sampler = Sampler(params, range(1000), vocab_size=logits.shape[1])
    times = []
    for _ in range(rounds):
        start = time.process_time()
        token_id = batch.sample([sampler], logits)[0].token_id
        times.append(time.process_time() - start)
        sampler.accept(token_id)
    return statistics.median(times) * 1e6


def random_logits(size: int) -> NDArray[np.float32]:
    return np.random.default_rng(0).normal(0, 3, (1, size)).astype(np.float32)


def model_logits(name: str) -> NDArray[np.float32]:
    model = pyrite.load(name)
    return np.ascontiguousarray(model.logits(model.tokenize(PROMPT, bos=True))[-1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", help="default: random logits of several sizes")
    options = parser.parse_args()
    rows = [model_logits(name) for name in options.models] or [random_logits(n) for n in SIZES]
    print("| microseconds a token | " + " | ".join(str(row.shape[1]) for row in rows) + " |")
    print("|---|" + "---|" * len(rows))
    for name, params in SETTINGS.items():
        values = " | ".join(f"{microseconds(row, params):.0f}" for row in rows)
        print(f"| {name} | {values} |")


if __name__ == "__main__":
    main()
