"""The CPU backend against the reference with the same rounding of keys and values.

What is left is the order of float32 sums (and with it, now and then, a key or value rounded the
other way), and for quantised weights the rounding of activations to 15 bits, or to 8 in "fast".
Measured, in standard deviations of the logits: 5e-4, 1.4e-3, 0.11; each limit is about twice that.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pyrite.backends.base import Backend
from pyrite.backends.cpu import CpuBackend
from pyrite.backends.reference import ReferenceBackend
from pyrite.formats.checkpoint import open_checkpoint
from pyrite.models.registry import build_plan
from steps import num_pages, sequence_logits

TINY = ("llama", "llama_tied", "llama_yarn", "qwen2_tied_swa", "gemma", "gemma2", "gemma3_text")
QUANTIZED = tuple(
    f"{family}_{kind}" for family in ("llama", "qwen2") for kind in ("q4_0", "q8_0", "q4_k_m")
)
LIMITS = {"float": 1e-3, "default": 3e-3, "fast": 0.2}


def logits_of(backend: Backend, path: Path, ids, precision: str):
    checkpoint = open_checkpoint(path)
    runner = backend.prepare(
        build_plan(checkpoint),
        checkpoint.tensors,
        num_pages=num_pages(len(ids)),
        max_tokens=len(ids),
        num_threads=2,
        precision=precision,
    )
    return sequence_logits(runner, ids)


def check(path: Path, ids, precision: str, limit: float) -> None:
    expected = logits_of(ReferenceBackend(), path, ids, "default")
    found = logits_of(CpuBackend(), path, ids, precision)
    worst = np.abs(found - expected).max() / expected.std()
    assert worst <= limit, f"{worst:.3g} standard deviations off, {limit:g} allowed"


@pytest.mark.parametrize("case", TINY)
def test_float_weights(golden: Path, half_pages, case: str):
    folder = golden / "tiny" / case
    check(folder, np.load(folder / "expected.npz")["ids_1"], "default", LIMITS["float"])


@pytest.mark.parametrize("case", QUANTIZED)
@pytest.mark.parametrize("precision", ["default", "fast"])
def test_quantized_weights(golden: Path, half_pages, case: str, precision: str):
    path = golden / "gguf_models" / f"{case}.gguf"
    ids = np.load(path.with_suffix("").with_suffix(".expected.npz"))["ids_1"]
    check(path, ids, precision, LIMITS[precision])
