"""A folder written as a GGUF file is the same model: every logit, bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pyrite.backends.reference import ReferenceBackend
from pyrite.cli.main import main
from pyrite.conversion import convert, find_recipe, plan_conversion
from pyrite.export import NO_TOKENIZER, as_gguf_file, natural_recipe
from pyrite.formats.checkpoint import Checkpoint, open_checkpoint
from pyrite.models.registry import MODEL_TYPES, as_model, build_plan, open_model
from steps import num_pages, sequence_logits

FOLDERS = sorted(
    path.name for path in (Path(__file__).parents[1] / "golden" / "tiny").iterdir() if path.is_dir()
)


def logits(model: Checkpoint, ids):
    runner = ReferenceBackend().prepare(
        build_plan(model), model.tensors, num_pages=num_pages(len(ids)), max_tokens=len(ids)
    )
    return sequence_logits(runner, ids)


@pytest.mark.parametrize("case", FOLDERS)
def test_a_converted_folder_is_the_same_model(golden: Path, tmp_path: Path, case: str):
    folder = open_checkpoint(golden / "tiny" / case)
    if folder.architecture not in MODEL_TYPES:
        pytest.skip(f"{folder.architecture} is not executed")
    file, lost = as_gguf_file(folder)
    assert lost == (NO_TOKENIZER,)
    out = tmp_path / "model.gguf"
    convert(plan_conversion(file, find_recipe(natural_recipe(file)), keeps_quantized=True), out, 1)
    ids = np.load(golden / "tiny" / case / "expected.npz")["ids_1"]
    np.testing.assert_array_equal(logits(open_model(out), ids), logits(as_model(folder), ids))


def test_the_verb_writes_a_file_and_refuses_what_is_one(golden: Path, tmp_path: Path, capsys):
    folder, out = golden / "tiny" / "llama_tied", tmp_path / "model.gguf"
    assert main(["convert", str(folder), str(out), "--type", "q8_0"]) == 0
    assert "8.80 bits a weight" in capsys.readouterr().out
    opened = open_model(out)
    assert opened.tensors["blk.0.ffn_up.weight"].type == "Q8_0"
    assert opened.metadata["general.name"] == "llama_tied"
    assert main(["convert", str(out), str(tmp_path / "again.gguf")]) == 2
    assert "a folder with config.json" in capsys.readouterr().err
    assert main(["convert", str(folder), str(out)]) == 2
    assert "--force" in capsys.readouterr().err
