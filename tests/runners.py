"""Models of `plans` prepared on a backend, and the CPU backend compared to the reference."""

from __future__ import annotations

import numpy as np

from plans import VOCABULARY, Model
from pyrite.backends.cpu import CpuBackend
from pyrite.backends.reference import ReferenceBackend
from steps import num_pages, sequence_logits

# Float32 sums of up to 300 terms near one, in another order: 300 * 2^-24 at most, far less in
# practice. Products take float32 activations for float32 weights.
CLOSE = {"rtol": 2e-5, "atol": 2e-5}

ROWS = (1, 2, 3, 65)  # prepared by each member; by one for all; more than a tile


def prepare(
    model: Model,
    *,
    tokens: int = 320,
    threads: int = 2,
    backend=None,
    precision: str = "default",
    kv_type: str = "f16",
    slots: int = 1,
):
    return (backend or CpuBackend()).prepare(
        model.plan,
        model.weights,
        num_pages=num_pages(tokens),
        max_tokens=tokens,
        num_threads=threads,
        precision=precision,
        kv_type=kv_type,
        num_slots=slots,
    )


def token_ids(count: int, seed: int = 1):
    return np.random.default_rng(seed).integers(0, VOCABULARY, count)


def assert_as_reference(model: Model, *, rows=ROWS, kv_type: str = "f16", **close) -> None:
    expected = prepare(model, backend=ReferenceBackend(), kv_type=kv_type)
    runner = prepare(model, kv_type=kv_type)
    for count in rows:
        ids = token_ids(count)
        np.testing.assert_allclose(
            sequence_logits(runner, ids), sequence_logits(expected, ids), **(close or CLOSE)
        )
