"""The importance of columns: how large the inputs of each matrix are over a text.

The executor adds up squares of what goes into each product. Plans run without their head, whose
inputs are the results. Files and tokens come as values; nothing is known of quantizing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pyrite.backends.cpu import CpuBackend, CpuRunner
from pyrite.errors import BackendError
from pyrite.formats.checkpoint import open_checkpoint
from pyrite.formats.imatrix import Importance, Sums
from pyrite.kv.pages import pages_for
from pyrite.loading import Loaded
from pyrite.models.registry import as_gguf, build_plan
from pyrite.passages import Ids, results

Progress = Callable[[int, int], None]  # tokens done, of tokens

# Tensors that are split when a model is loaded: a part whose inputs are theirs.
FUSED = {".attn_qkv.": ".attn_q.", ".ffn_gate_up_exps.": ".ffn_up_exps."}


def collect(
    loaded: Loaded, chunks: Ids, path: Path, dataset: str, progress: Progress | None = None
) -> Importance:
    """`chunks` is (chunks, tokens); the result is to be written to `path`.

    Raises BackendError, for the reference backend too: it counts nothing.
    """
    runner = observing(loaded, chunks.shape[1])
    squares = np.zeros(1)  # of the head's inputs
    for index, ids in enumerate(chunks):
        for _, hidden in results(runner, ids, 0, len(ids)):
            squares = squares + np.square(hidden, dtype=np.float64).sum(axis=0)
        if progress is not None:
            progress((index + 1) * len(ids), chunks.size)
    entries = {name: _sums(*found) for name, found in runner.squares().items()}
    stored = as_gguf(open_checkpoint(loaded.checkpoint.path)).tensors
    head = "output.weight" if "output.weight" in stored else "token_embd.weight"
    entries[head] = _sums(np.atleast_2d(squares), np.array([chunks.size]))
    return Importance(path, (dataset,), len(chunks), chunks.shape[1], as_stored(entries, stored))


def observing(loaded: Loaded, num_tokens: int) -> CpuRunner:
    """A runner of the plan without its head, which adds up squares."""
    if not isinstance(loaded.backend, CpuBackend):
        raise BackendError(
            f"the {loaded.backend.name} backend does not observe what goes into products",
            hint="load the model with the cpu backend",
        )
    plan = build_plan(loaded.checkpoint, result="hidden")
    return loaded.backend.prepare(
        plan,
        loaded.checkpoint.tensors,
        num_pages=pages_for(num_tokens),
        max_tokens=loaded.settings.max_batch_tokens,
        num_threads=loaded.threads.count,
        precision="default",
        observe=True,
    )


def as_stored(entries: Mapping[str, Sums], stored: Iterable[str]) -> dict[str, Sums]:
    """By the names and in the order of the file, which may hold several matrices in one tensor:
    they have the same inputs."""
    parts = {name: _part(name) for name in stored}
    return {name: entries[part] for name, part in parts.items() if part in entries}


def _part(name: str) -> str:
    """One of the matrices that a fused tensor is split into; the name itself of all others."""
    for fused, part in FUSED.items():
        name = name.replace(fused, part)
    return name


def _sums(squares: NDArray[np.float64], counts: NDArray[np.int64]) -> Sums:
    return Sums(squares.astype(np.float32), counts.astype(np.float32))
