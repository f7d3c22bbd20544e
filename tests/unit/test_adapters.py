"""Adapters: a model with one is the model whose weights have its product added."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import pyrite
from peft_folders import MODULES, RANK, merged, write_peft
from pyrite.backends.cpu import CpuBackend
from pyrite.backends.reference import ReferenceBackend
from pyrite.errors import (
    BackendError,
    FormatError,
    ModelError,
    ParameterError,
    TensorError,
    UnsupportedError,
)
from pyrite.formats.checkpoint import Checkpoint, open_checkpoint
from pyrite.formats.gguf_writer import TensorSpec, write_gguf
from pyrite.models.adapters import named, read_adapter, read_adapters, with_adapters
from pyrite.models.registry import as_model, build_plan, open_model
from pyrite.quant.dequant import dequantize
from steps import Part, make_batch, num_pages

IDS = list(range(5, 25))


def logits(model: Checkpoint, adapters, backend=None, threads: int = 1):
    """Of the same tokens as sequences with each of these adapters, in one batch."""
    runner = (backend or ReferenceBackend()).prepare(
        build_plan(model),
        model.tensors,
        num_pages=8,
        max_tokens=128,
        num_threads=threads,
        precision="default",
    )
    pages = num_pages(len(IDS))
    parts = [
        Part(IDS, range(pages * index, pages * (index + 1)), 0, range(len(IDS)))
        for index in range(len(adapters))
    ]
    batch = replace(make_batch(parts), adapters=np.array(adapters, np.int32))
    return runner.run(batch).reshape(len(adapters), len(IDS), -1).copy()


@pytest.mark.parametrize("case", ["llama", "qwen2", "gemma", "phi3"])
def test_each_sequence_has_its_own(golden: Path, tmp_path: Path, case: str):
    """Two adapters and none in one batch, against the model with each merged."""
    path = golden / "tiny" / case
    base = open_checkpoint(path)
    modules = MODULES if case != "phi3" else ("self_attn.qkv_proj", "mlp.gate_up_proj")
    added = [
        write_peft(tmp_path / "one", base, modules, 1),
        write_peft(tmp_path / "two", base, modules[:1], 2, lora_dropout=0.1),
    ]
    settings = (f"first={tmp_path / 'one'}", str(tmp_path / "two"))
    adapters = read_adapters(settings, path)
    assert [adapter.name for adapter in adapters] == ["first", "two"]
    found = logits(with_adapters(open_model(path), adapters), [1, -1, 0])
    for row, model in zip(
        found, (merged(base, added[1]), as_model(base), merged(base, added[0])), strict=True
    ):
        expected = logits(model, [-1])[0]
        assert np.abs(row - expected).max() < 3e-5 * expected.std()
    on_cpu = logits(with_adapters(open_model(path), adapters), [1, -1, 0], CpuBackend())
    assert np.abs(on_cpu - found).max() < 1e-2 * found.std()
    plain = logits(as_model(base), [-1])[0]
    assert np.abs(found[2] - plain).max() > 0.1 * plain.std()


@pytest.mark.parametrize("case", ["llama", "gemma", "phi3"])
def test_company_changes_no_bit(golden: Path, tmp_path: Path, case: str):
    """Alone, beside others, by two threads; a sequence without is as without any loaded."""
    path = golden / "tiny" / case
    base = open_checkpoint(path)
    modules = MODULES if case != "phi3" else ("self_attn.qkv_proj", "mlp.gate_up_proj")
    for name, seed in (("one", 1), ("two", 2)):
        write_peft(tmp_path / name, base, modules, seed)
    adapters = read_adapters((str(tmp_path / "one"), str(tmp_path / "two")), path)
    model = with_adapters(open_model(path), adapters)
    together = logits(model, [1, -1, 0, 1], CpuBackend(), threads=2)
    for index, adapter in enumerate([1, -1, 0, 1]):
        alone = logits(model, [adapter], CpuBackend())[0]
        np.testing.assert_array_equal(together[index], alone)
    np.testing.assert_array_equal(together[1], logits(as_model(base), [-1], CpuBackend())[0])


@pytest.mark.parametrize("numbers", [[2], [-2], [0, 0]])
def test_an_adapter_that_is_not_there(golden: Path, tmp_path: Path, numbers):
    path = golden / "tiny" / "llama"
    write_peft(tmp_path / "a", open_checkpoint(path), MODULES, 1)
    model = with_adapters(open_model(path), read_adapters((str(tmp_path / "a"),), path))
    runner = CpuBackend().prepare(
        build_plan(model),
        model.tensors,
        num_pages=8,
        max_tokens=128,
        num_threads=1,
        precision="default",
    )
    batch = make_batch([Part(IDS, range(8), 0, [0])])
    with pytest.raises(BackendError, match="adapter"):
        runner.run(replace(batch, adapters=np.array(numbers, np.int32)))


def test_what_an_adapter_holds_tells_it_apart(golden: Path, tmp_path: Path):
    base = open_checkpoint(golden / "tiny" / "llama")
    for name, seed in (("a", 1), ("b", 2), ("c", 1)):
        write_peft(tmp_path / name, base, MODULES, seed)
    one, two, same = (read_adapter(name, tmp_path / name, base) for name in "abc")
    assert one.fingerprint == same.fingerprint != two.fingerprint


def test_logits_are_the_adapters(golden: Path, tmp_path: Path):
    path = golden / "tiny" / "llama"
    added = write_peft(tmp_path / "a", open_checkpoint(path), MODULES, 1)
    expected = logits(merged(open_checkpoint(path), added), [-1])[0]
    with pyrite.load(path, lora=[str(tmp_path / "a")], threads=1) as model:
        plain = model.logits(IDS)
        model.adapter = "a"
        found = model.logits(IDS)
    assert np.abs(found - expected).max() < 1e-2 * expected.std()
    assert np.abs(plain - expected).max() > 0.1 * expected.std()


WRONG = {
    "another rank": ({"r": 8}, TensorError, "rank 8, and its tensors have 4"),
    "a rank that is none": ({"r": -1}, FormatError, "r = -1"),
    "a rank of its own": ({"rank_pattern": {"q_proj": 2}}, TensorError, "rank 2"),
    "no LoRA": ({"peft_type": "IA3"}, UnsupportedError, "IA3"),
    "another kind": ({"use_dora": True}, UnsupportedError, "use_dora"),
    "biases": ({"bias": "all"}, UnsupportedError, "bias = 'all'"),
    "whole modules": ({"modules_to_save": ["lm_head"]}, UnsupportedError, "modules_to_save"),
    "an unknown key": ({"megatron_core": 3}, UnsupportedError, "megatron_core"),
    "a number that is none": ({"lora_alpha": "much"}, FormatError, "lora_alpha"),
}


@pytest.mark.parametrize("case", WRONG)
def test_other_mathematics_are_refused(golden: Path, tmp_path: Path, case: str):
    config, error, message = WRONG[case]
    base = open_checkpoint(golden / "tiny" / "llama")
    write_peft(tmp_path / "a", base, MODULES, 1, **config)
    with pytest.raises(error, match=message):
        read_adapter("a", tmp_path / "a", base)


def test_an_adapter_of_another_model(golden: Path, tmp_path: Path):
    write_peft(tmp_path / "a", open_checkpoint(golden / "tiny" / "llama_sharded"), MODULES, 1)
    with pytest.raises(TensorError, match="layers"):
        read_adapter("a", tmp_path / "a", open_checkpoint(golden / "tiny" / "llama"))


def test_a_gguf_adapter_of_a_folders_model(golden: Path, tmp_path: Path):
    base = open_checkpoint(golden / "tiny" / "llama")
    write_peft(tmp_path / "peft", base, MODULES, 1)
    theirs = read_adapter("a", tmp_path / "peft", base)
    matrices = {
        f"{weight}.lora_{side}": dequantize(tensor.read(), tensor.type, tensor.shape)
        for weight, pair in theirs.pairs.items()
        for side, tensor in zip("ab", pair, strict=True)
    }
    specs = [TensorSpec(name, "F32", values.shape) for name, values in matrices.items()]
    metadata = {
        "general.type": "adapter",
        "general.architecture": "llama",
        "adapter.type": "lora",
        "adapter.lora.alpha": float(RANK),
    }
    path = tmp_path / "adapter.gguf"
    write_gguf(path, metadata, specs, lambda spec: matrices[spec.name].reshape(-1).view(np.uint8))
    model = as_model(base)
    expected = logits(with_adapters(model, [theirs]), [0])
    actual = logits(with_adapters(model, [read_adapter("a", path, base)]), [0])
    np.testing.assert_array_equal(actual, expected)


def test_a_folder_that_is_none(golden: Path):
    folder = golden / "tiny" / "llama"
    with pytest.raises(ModelError, match="adapter_config"):
        read_adapter("a", folder, open_checkpoint(folder))


def test_names():
    assert named("poet=/models/a=b") == ("poet", Path("/models/a=b"))
    assert named("/models/poet.gguf") == ("poet", Path("/models/poet.gguf"))
    with pytest.raises(ParameterError, match="NAME=PATH"):
        named("a b=/x")
