"""The system has no thread left: said as such, nothing left behind, and the next try goes well."""

from __future__ import annotations

import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from pyrite.backends.cpu import CpuBackend
from pyrite.backends.packing import packed_weights
from pyrite.errors import BackendError
from pyrite.models.registry import build_plan, open_model
from steps import sequence_logits

IDS = list(range(3, 40))
SPARE = 192 << 20  # bytes of address space: 64 MiB of the program, and 8 MiB for each thread


@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_nth_thread_that_packs(golden: Path, tmp_path: Path, monkeypatch, number: int):
    tensors = open_model(golden / "gguf_models" / "llama_q4_0.gguf").tensors.values()
    matrices = [tensor for tensor in tensors if len(tensor.shape) == 2]
    expected = packed_weights(matrices, None, 1)
    started, start = 0, threading.Thread.start

    def failing(thread: threading.Thread) -> None:
        nonlocal started
        started += 1
        if started == number:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", failing)
    with pytest.raises(BackendError, match=r"to pack weights .* can't start new thread"):
        packed_weights(matrices, tmp_path, 4)
    assert list((tmp_path / "packed").iterdir()) == [], "no half of a file"
    found = packed_weights(matrices, tmp_path, 4)
    for name, matrix in expected.items():
        np.testing.assert_array_equal(found[name].data, matrix.data)


@contextmanager
def little_address_space() -> Iterator[None]:
    limits = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + SPARE, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


def test_a_team_without_threads_fails_the_step_alone(golden: Path):
    checkpoint = open_model(golden / "gguf_models" / "llama_q4_0.gguf")

    def runner(num_threads: int):
        return CpuBackend().prepare(
            build_plan(checkpoint),
            checkpoint.tensors,
            num_pages=2,
            max_tokens=64,
            num_threads=num_threads,
            precision="default",
        )

    many = runner(64)
    before = num_tasks()
    with little_address_space(), pytest.raises(BackendError, match="thread of the team could not"):
        sequence_logits(many, IDS)
    assert num_tasks() <= before, "those that did start are gone again"
    np.testing.assert_array_equal(sequence_logits(many, IDS), sequence_logits(runner(1), IDS))


def num_tasks() -> int:
    """Threads of this process, of any language."""
    return len(list(Path("/proc/self/task").iterdir()))
