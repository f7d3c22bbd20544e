"""What PEFT wrote gives what PEFT computed: tables, heads and experts too, beside each other."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from adapted import logits
from pyrite.adapter_export import plan_adapter
from pyrite.backends.cpu import CpuBackend
from pyrite.backends.reference import ReferenceBackend
from pyrite.cli.main import main
from pyrite.conversion import convert
from pyrite.formats.checkpoint import open_checkpoint
from pyrite.models.adapters import read_adapter, with_adapters
from pyrite.models.peft_names import PAIRED, RENAMED
from pyrite.models.registry import as_gguf, as_model, open_model

CASES = [
    "plain",
    "patterns",
    "embeddings",
    "tied",
    "scaled_table",
    "mixtral",
    "qwen2_moe",
    "some_experts",
    "deepseek_v3",
    "fused",
    "fused_mixtral",
    "fused_gpt_oss",
    "fused_qwen3_5",
    "turned",
]


def model_of(golden: Path, case: str) -> Path:
    config = json.loads((golden / "adapters" / case / "adapter_config.json").read_text())
    return golden / str(config["base_model_name_or_path"])


def adapted(golden: Path, case: str):
    """The model with the adapter, its tokens and what PEFT computed of them."""
    path, folder = model_of(golden, case), golden / "adapters" / case
    adapter = read_adapter(case, folder, open_checkpoint(path))
    expected = np.load(folder / "expected.npz")["logits_1"]
    ids = np.load(path / "expected.npz")["ids_1"].tolist()
    return with_adapters(open_model(path), [adapter]), ids, expected


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("backend", [ReferenceBackend, CpuBackend])
def test_logits_are_pefts(golden: Path, case: str, backend):
    model, ids, expected = adapted(golden, case)
    found = logits(model, [0], backend(), ids=ids)[0]
    tolerance = 3e-5 if backend is ReferenceBackend else 1e-2
    assert np.abs(found - expected).max() < tolerance * expected.std()


@pytest.mark.parametrize("case", CASES)
def test_company_and_cuts_change_no_bit(golden: Path, case: str):
    """Beside sequences with it and without, by two threads, and in pieces."""
    model, ids, _ = adapted(golden, case)
    alone = logits(model, [0], CpuBackend(), ids=ids)[0]
    together = logits(model, [-1, 0, -1, 0], CpuBackend(), threads=2, ids=ids)
    np.testing.assert_array_equal(together[1], alone)
    np.testing.assert_array_equal(together[3], alone)
    plain = logits(open_model(model_of(golden, case)), [-1], CpuBackend(), ids=ids)[0]
    np.testing.assert_array_equal(together[0], plain)
    np.testing.assert_array_equal(
        logits(model, [0, -1], CpuBackend(), ids=ids, cuts=(1, 2, 20))[0], alone
    )


@pytest.mark.parametrize("case", CASES)
def test_the_file_is_the_same_adapter(golden: Path, tmp_path: Path, case: str):
    """Made beside the folder of its model or beside its file, and loaded with either."""
    base, folder = open_checkpoint(model_of(golden, case)), golden / "adapters" / case
    _, ids, expected = adapted(golden, case)
    convert(plan_adapter(folder, base, "f32"), tmp_path / "a.gguf", 1)
    found = read_adapter("a", tmp_path / "a.gguf", base)
    actual = logits(with_adapters(as_model(base), [found]), [0], ids=ids)[0]
    assert np.abs(actual - expected).max() < 3e-5 * expected.std()
    if as_gguf(base).architecture not in PAIRED | RENAMED:
        return
    assert main(["convert", str(base.path), str(tmp_path / "model.gguf")]) == 0
    stored = open_checkpoint(tmp_path / "model.gguf")
    beside = read_adapter("a", folder, stored)
    assert beside.fingerprint == read_adapter("a", folder, base).fingerprint
    convert(plan_adapter(folder, stored, "f32"), tmp_path / "b.gguf", 1)
    assert (tmp_path / "a.gguf").read_bytes() == (tmp_path / "b.gguf").read_bytes()
