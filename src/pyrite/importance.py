"""The importance of columns: how large the inputs of each matrix are over a text.

The executor adds up squares of what goes into each product. Plans run without their head, whose
inputs are the results. Files and tokens come as values; nothing is known of quantizing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pyrite.backends.cpu import CpuBackend, CpuRunner
from pyrite.errors import BackendError
from pyrite.formats.imatrix import Importance, Sums
from pyrite.kv.pages import pages_for
from pyrite.loading import Loaded
from pyrite.models.registry import build_plan
from pyrite.passages import Ids, results

Progress = Callable[[int, int], None]  # tokens done, of tokens


def collect(
    loaded: Loaded, chunks: Ids, path: Path, dataset: str, progress: Progress | None = None
) -> Importance:
    """`chunks` is (chunks, tokens); the result is to be written to `path`.

    Raises BackendError, for the reference backend too: it counts nothing.
    """
    runner = observing(loaded, chunks.shape[1])
    squares: NDArray[np.float64] | float = 0.0  # of the head's inputs
    for index, ids in enumerate(chunks):
        for _, hidden in results(runner, ids, 0, len(ids)):
            squares = squares + np.square(hidden, dtype=np.float64).sum(axis=0)
        if progress is not None:
            progress((index + 1) * len(ids), chunks.size)
    entries = {name: _sums(*found) for name, found in runner.squares().items()}
    tied = "output.weight" not in loaded.checkpoint.tensors
    entries["token_embd.weight" if tied else "output.weight"] = _sums(squares, chunks.size)
    return Importance(path, (dataset,), len(chunks), chunks.shape[1], in_order(entries, loaded))


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


def in_order(entries: Mapping[str, Sums], loaded: Loaded) -> dict[str, Sums]:
    """As the model has its tensors."""
    return {name: entries[name] for name in loaded.checkpoint.tensors if name in entries}


def _sums(squares: NDArray[np.float64] | float, num_rows: int) -> Sums:
    found = np.atleast_2d(np.asarray(squares, np.float32))
    return Sums(found, np.array([num_rows], np.float32))
