"""A folder's adapter as a GGUF file: the same adapter, with the keys that llama.cpp reads."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from peft_folders import ALPHA, MODULES, RANK, write_peft
from pyrite.adapter_export import plan_adapter
from pyrite.backends.reference import ReferenceBackend
from pyrite.cli.main import main
from pyrite.conversion import convert
from pyrite.errors import FormatError, ParameterError, UnsupportedError
from pyrite.formats.checkpoint import open_checkpoint
from pyrite.models.adapters import read_adapter, with_adapters
from pyrite.models.peft_names import PAIRED, RENAMED
from pyrite.models.registry import as_model, build_plan
from pyrite.quant.dequant import dequantize
from steps import Part, make_batch, num_pages

IDS = list(range(5, 25))


def logits(model, adapter):
    adapted = with_adapters(model, [adapter])
    runner = ReferenceBackend().prepare(
        build_plan(adapted), adapted.tensors, num_pages=num_pages(len(IDS)), max_tokens=len(IDS)
    )
    batch = make_batch([Part(IDS, range(num_pages(len(IDS))), 0, range(len(IDS)))])
    return runner.run(replace(batch, adapters=np.zeros(1, np.int32))).copy()


def written(folder: Path, base, out: Path, recipe: str | None = None):
    convert(plan_adapter(folder, base, recipe), out, 1)
    return open_checkpoint(out)


@pytest.mark.parametrize("case", ["llama", "gemma3_text", "phi3", "qwen3"])
def test_the_file_is_the_same_adapter(golden: Path, tmp_path: Path, case: str):
    base = open_checkpoint(golden / "tiny" / case)
    modules = MODULES if case != "phi3" else ("self_attn.qkv_proj", "mlp.gate_up_proj")
    write_peft(tmp_path / "a", base, modules, 1)
    file = written(tmp_path / "a", base, tmp_path / "a.gguf")
    assert file.metadata["adapter.lora.alpha"] == ALPHA
    model = as_model(base)
    np.testing.assert_array_equal(
        logits(model, read_adapter("a", file.path, base)),
        logits(model, read_adapter("a", tmp_path / "a", base)),
    )


@pytest.mark.parametrize("case", ["plain", "patterns"])
def test_scales_of_modules_own_are_in_their_matrices(golden: Path, tmp_path: Path, case: str):
    """A file has one alpha: that of most. By the root of the rank: 6 / 2 of rank 4 is 12 / 4."""
    base, folder = open_checkpoint(golden / "tiny" / "llama"), golden / "adapters" / case
    file = written(folder, base, tmp_path / "a.gguf")
    assert file.metadata["adapter.lora.alpha"] == {"plain": 6.0, "patterns": 12.0}[case]
    model = as_model(base)
    np.testing.assert_allclose(
        logits(model, read_adapter("a", file.path, base)),
        logits(model, read_adapter("a", folder, base)),
        atol=2e-6,
    )


def test_the_keys_and_names_are_llama_cpps(golden: Path, tmp_path: Path):
    base = open_checkpoint(golden / "tiny" / "llama")
    write_peft(tmp_path / "poet", base, ("self_attn.q_proj", "mlp.up_proj"), 1)
    file = written(tmp_path / "poet", base, tmp_path / "a.gguf", "f16")
    assert file.metadata == {
        "general.type": "adapter",
        "general.architecture": "llama",
        "general.name": "poet",
        "general.file_type": 1,
        "adapter.type": "lora",
        "adapter.lora.alpha": ALPHA,
    }
    assert {name: one.shape for name, one in file.tensors.items()} == {
        f"blk.{layer}.{name}.weight.lora_{side}": shape
        for layer in range(3)
        for name, rows in (("attn_q", 64), ("ffn_up", 160))
        for side, shape in (("a", (RANK, 64)), ("b", (rows, RANK)))
    }
    assert {one.type for one in file.tensors.values()} == {"F16"}


def test_what_changes_nothing_is_refused(golden: Path, tmp_path: Path):
    base = open_checkpoint(golden / "tiny" / "llama")
    write_peft(tmp_path / "a", base, MODULES, 1, lora_alpha=0)
    with pytest.raises(FormatError, match="lora_alpha = 0"):
        plan_adapter(tmp_path / "a", base)
    with pytest.raises(ParameterError, match="f32, f16, bf16 for an adapter"):
        plan_adapter(tmp_path / "a", base, "q4_k_m")


def refused(capsys, *arguments: object) -> str:
    assert main(["convert", *map(str, arguments)]) in (2, 3)
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1
    return shown


def test_the_verb(golden: Path, tmp_path: Path, capsys):
    base, folder = golden / "tiny" / "llama", golden / "adapters" / "plain"
    out = tmp_path / "a.gguf"
    assert "tiny/llama" in refused(capsys, folder, out)
    assert main(["convert", str(folder), str(out), "--base", str(base)]) == 0
    assert "9 matrices for llama, alpha 6" in capsys.readouterr().out
    values = open_checkpoint(out).tensors["blk.2.ffn_down.weight.lora_a"]
    assert dequantize(values.read(), values.type, values.shape).shape == (4, 160)
    assert "--force" in refused(capsys, folder, out, "--base", base)
    assert "must be left out" in refused(capsys, base, tmp_path / "b.gguf", "--base", base)
    told = refused(capsys, folder, tmp_path / "b.gguf", "--base", golden / "tiny" / "llama_tied")
    assert "made for another model" in told
    assert str(folder) in told
    assert [path.name for path in tmp_path.iterdir()] == ["a.gguf"]


# An architecture of each kind of file, and all with other names or orders of rows.
FILES = {
    "cohere": "command-r",
    "cohere2": "cohere2",
    "gemma": "gemma",
    "gemma2": "gemma2",
    "gemma3_text": "gemma3",
    "granite": "granite",
    "granitemoe": "granitemoe",
    "llama": "llama",
    "llama_tied": "llama",
    "mixtral": "llama",
    "olmo2": "olmo2",
    "olmoe": "olmoe",
    "phi3": "phi3",
    "qwen2": "qwen2",
    "qwen2_moe": "qwen2moe",
    "qwen3": "qwen3",
    "qwen3_moe": "qwen3moe",
    "smollm3": "smollm3",
    "stablelm": "stablelm",
}


def test_every_architecture_of_the_table_is_tested():
    assert set(FILES.values()) == PAIRED | RENAMED


@pytest.mark.parametrize("case", FILES)
def test_the_models_file_does_as_well_as_its_folder(golden: Path, tmp_path: Path, case: str):
    """Byte for byte; and a folder's adapter may be loaded beside the file."""
    folder, file = golden / "tiny" / case, tmp_path / "model.gguf"
    assert main(["convert", str(folder), str(file)]) == 0
    base, stored = open_checkpoint(folder), open_checkpoint(file)
    assert stored.architecture == FILES[case]
    projections = [f"self_attn.{part}_proj" for part in "qkvo"]
    modules = projections if case != "phi3" else ("self_attn.qkv_proj", "mlp.gate_up_proj")
    write_peft(tmp_path / "a", base, modules, 1)
    written(tmp_path / "a", base, tmp_path / "one.gguf")
    written(tmp_path / "a", stored, tmp_path / "two.gguf")
    assert (tmp_path / "one.gguf").read_bytes() == (tmp_path / "two.gguf").read_bytes()
    loaded = read_adapter("a", tmp_path / "a", stored)
    assert loaded.fingerprint == read_adapter("a", tmp_path / "a", base).fingerprint


def test_some_files_have_weights_in_other_shapes(golden: Path, tmp_path: Path):
    file = tmp_path / "model.gguf"
    assert main(["convert", str(golden / "tiny" / "gpt2"), str(file)]) == 0
    with pytest.raises(UnsupportedError, match="files of gpt2 have weights in other shapes"):
        read_adapter("a", golden / "adapters" / "plain", open_checkpoint(file))


def test_a_base_beside_it_is_found_by_the_adapters_own_word(golden: Path, tmp_path: Path, capsys):
    folder = tmp_path / "adapter"
    shutil.copytree(golden / "adapters" / "plain", folder)
    config = json.loads((folder / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = str(golden / "tiny" / "llama")
    (folder / "adapter_config.json").write_text(json.dumps(config))
    assert main(["convert", str(folder), str(tmp_path / "a.gguf")]) == 0
    assert "9 matrices" in capsys.readouterr().out
