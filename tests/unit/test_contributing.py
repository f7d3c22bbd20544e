"""CONTRIBUTING's worked example, followed: the architecture that it adds runs, and is right."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from pyrite.backends.cpu import CpuBackend
from pyrite.backends.reference import ReferenceBackend
from pyrite.errors import UnsupportedError
from pyrite.models import hub, registry
from steps import num_pages, sequence_logits

TEXT = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()
MOST_LINES = 60


def example() -> str:
    """The Python of step 2, as it would be in a file."""
    section = TEXT.split("## Adding an architecture: ")[1].split("\n## ")[0]
    (code,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    return "\n".join(line.removeprefix("   ") for line in code.splitlines()) + "\n"


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps 2 and 3."""
    module = ModuleType("pyrite.models.starcoder2")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(example(), "starcoder2.py", "exec"), module.__dict__)
    monkeypatch.setitem(registry.ARCHITECTURES, "starcoder2", "starcoder2")
    monkeypatch.setitem(registry.MODEL_TYPES, "starcoder2", "starcoder2")


def test_it_is_short():
    assert len(example().splitlines()) <= MOST_LINES


def test_keys_that_nobody_read_are_named(golden: Path, added: None):
    with pytest.raises(UnsupportedError, match=r"embedding_dropout = 0\.0, residual"):
        registry.open_model(golden / "tiny" / "starcoder2")


@pytest.mark.parametrize("backend", [ReferenceBackend(), CpuBackend()], ids=["reference", "cpu"])
def test_it_is_right(golden: Path, added: None, monkeypatch: pytest.MonkeyPatch, backend):
    more = hub.HARMLESS | {"embedding_dropout", "residual_dropout"}
    monkeypatch.setattr(hub, "HARMLESS", more)
    folder = golden / "tiny" / "starcoder2"
    model, expected = registry.open_model(folder), np.load(folder / "expected.npz")
    runner = backend.prepare(
        registry.build_plan(model),
        model.tensors,
        num_pages=num_pages(64),
        max_tokens=64,
        num_threads=1,
        precision="default",
    )
    close = 3e-5 if backend.name == "reference" else 6e-3
    for name in ("0", "1"):
        found = sequence_logits(runner, expected[f"ids_{name}"])
        assert np.abs(found - expected[f"logits_{name}"]).max() < close
