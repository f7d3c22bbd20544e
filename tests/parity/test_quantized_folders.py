"""Every golden folder quantized at load: the CPU backend beside the reference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import routers
from rows import BACKENDS, prepare

from pyrite.conversion import convert, find_recipe, plan_conversion
from pyrite.export import as_gguf_file
from pyrite.formats.checkpoint import open_checkpoint
from pyrite.models.registry import MODEL_TYPES, build_plan, open_model
from steps import sequence_logits

TINY = Path(__file__).parents[1] / "golden" / "tiny"
FOLDERS = sorted(path.name for path in TINY.iterdir() if (path / "expected.npz").exists())
CLOSE = 2e-2  # deviations of the logits
MOST_OFF = 1e-2  # shares of experts; measured: 3e-3


@pytest.mark.parametrize("recipe", ["q8_0", "q4_0"])
@pytest.mark.parametrize("case", FOLDERS)
def test_quantized_at_load(tmp_path: Path, case: str, recipe: str, monkeypatch: pytest.MonkeyPatch):
    """Where a router's scores are nearly even, another rounding takes another expert: the reference
    takes those of the CPU backend, and the choices are compared by themselves."""
    folder = open_checkpoint(TINY / case)
    if folder.architecture not in MODEL_TYPES:
        pytest.skip(f"{folder.architecture} is not executed")
    file, _ = as_gguf_file(folder)
    convert(plan_conversion(file, find_recipe(recipe)), tmp_path / "model.gguf", 1)
    model, ids = open_model(tmp_path / "model.gguf"), np.load(TINY / case / "expected.npz")["ids_1"]
    plan = build_plan(model, context_length=len(ids))
    reference, cpu = BACKENDS
    made = routers.choices(cpu, model, ids)
    check_choices(routers.choices(reference, model, ids), made)
    found = sequence_logits(prepare(cpu, model, plan=plan), ids)
    routers.force(monkeypatch, made)
    expected = sequence_logits(prepare(reference, model, plan=plan), ids)
    assert np.abs(found - expected).max() < CLOSE * expected.std()


def check_choices(expected: list[routers.Choice], found: list[routers.Choice]) -> None:
    """They differ only where the margin is below what the scores differ by: of an expert that is
    left and one that is taken, and with groups of up to two of each. Tokens after a choice that
    differs, whose keys and values are other ones from there on, are left out."""
    before = np.zeros(len(expected[0].ranks) if expected else 0, bool)
    for own, other in zip(expected, found, strict=True):
        error = np.abs(own.ranks - other.ranks).max(axis=1)
        differs = (own.chosen != other.chosen).any(axis=1)
        near = own.margins() <= (2 if own.routing.groups == 1 else 4) * error
        assert (near | before)[differs].all()
        assert error[~before].max(initial=0) < MOST_OFF
        before |= np.logical_or.accumulate(differs)
