"""Every golden folder quantized at load: the CPU backend beside the reference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from rows import BACKENDS, prepare

from pyrite.conversion import convert, find_recipe, plan_conversion
from pyrite.export import as_gguf_file
from pyrite.formats.checkpoint import open_checkpoint
from pyrite.models.registry import MODEL_TYPES, build_plan, open_model
from steps import sequence_logits

TINY = Path(__file__).parents[1] / "golden" / "tiny"
FOLDERS = sorted(path.name for path in TINY.iterdir() if (path / "expected.npz").exists())
# Deviations of the logits. Where a router's scores are nearly even, another rounding takes another
# expert: the median over positions is compared there.
CLOSE = 2e-2


@pytest.mark.parametrize("recipe", ["q8_0", "q4_0"])
@pytest.mark.parametrize("case", FOLDERS)
def test_quantized_at_load(tmp_path: Path, case: str, recipe: str):
    folder = open_checkpoint(TINY / case)
    if folder.architecture not in MODEL_TYPES:
        pytest.skip(f"{folder.architecture} is not executed")
    file, _ = as_gguf_file(folder)
    convert(plan_conversion(file, find_recipe(recipe)), tmp_path / "model.gguf", 1)
    model, ids = open_model(tmp_path / "model.gguf"), np.load(TINY / case / "expected.npz")["ids_1"]
    plan = build_plan(model, context_length=len(ids))
    expected, found = (sequence_logits(prepare(row, model, plan=plan), ids) for row in BACKENDS)
    worst = np.abs(found - expected).max(axis=1) / expected.std()
    has_experts = any("ffn_gate_inp" in name for name in model.tensors)
    assert (np.median(worst) if has_experts else worst.max()) < CLOSE
