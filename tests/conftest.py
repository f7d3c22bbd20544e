"""Fixtures that many tests share: golden data and the two real models."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import numpy as np
import pytest

from pyrite.backends import addresses, packing, reference

GOLDEN = Path(__file__).parent / "golden"


def pytest_collection_finish() -> None:
    """Thousands of tests stay to the end: each full collection of garbage looked at all of them, a
    seventh of a second in whatever test it fell into."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def golden() -> Path:
    return GOLDEN


def real_model(variable: str, filename: str) -> Path:
    """The file named by `variable`, or the one that was fetched into Pyrite's cache."""
    named = os.environ.get(variable)
    home = os.environ.get("PYRITE_HOME")
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    root = Path(home) if home else cache / "pyrite"
    path = Path(named) if named else root / "models" / filename
    if not path.is_file():
        pytest.skip(f"{filename} is not here: fetch it with `pyrite pull`, or set {variable}")
    return path


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    return real_model("PYRITE_TEST_SMOLLM2", "SmolLM2-135M-Instruct.Q4_1.gguf")


@pytest.fixture(scope="session")
def gemma3_path() -> Path:
    return real_model("PYRITE_TEST_GEMMA3", "gemma-3-270m-q4_k_m.gguf")


@pytest.fixture
def any_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """The CPU backend takes weights that are not finite, so that what comes of them is seen."""
    for module in (addresses, packing):
        monkeypatch.setattr(module, "require_finite", lambda tensor: None)


@pytest.fixture
def half_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference keeps keys and values as the CPU backend does: rounded to float16."""
    write = reference.Pages.write

    def write_rounded(pages, numbers, slots, k, v):
        rounded = (part.astype(np.float16).astype(np.float32) for part in (k, v))
        write(pages, numbers, slots, *rounded)

    monkeypatch.setattr(reference.Pages, "write", write_rounded)
