"""Adapters: a model with one is the model whose weights have its product added."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import pyrite
from adapted import IDS, logits, prepared
from peft_folders import MODULES, RANK, merged, write_peft
from pyrite.backends.cpu import CpuBackend
from pyrite.cli.main import main
from pyrite.errors import (
    BackendError,
    FormatError,
    ModelError,
    ParameterError,
    TensorError,
    UnsupportedError,
)
from pyrite.formats import derived
from pyrite.formats.checkpoint import open_checkpoint
from pyrite.formats.gguf_writer import TensorSpec, write_gguf
from pyrite.formats.safetensors import read_safetensors, tensors_of
from pyrite.models.adapters import named, read_adapter, read_adapters, with_adapters
from pyrite.models.registry import as_model, build_plan, open_model
from pyrite.quant.dequant import dequantize
from steps import Part, make_batch

# What is adapted, where it is not what most models have.
MODULES_OF = {
    "phi3": ("self_attn.qkv_proj", "mlp.gate_up_proj"),
    "glm4": ("self_attn.q_proj", "mlp.gate_up_proj"),
    "granitemoehybrid_dense": ("self_attn.q_proj", "mamba.in_proj", "mamba.out_proj"),
    "qwen3_next": (
        "self_attn.q_proj",
        "linear_attn.in_proj_qkvz",
        "linear_attn.in_proj_ba",
        "linear_attn.out_proj",
    ),
    "mixtral": ("w1", "w2", "w3", "gate", "self_attn.q_proj"),
    "qwen2_moe": ("gate_proj", "up_proj", "down_proj", "mlp.gate", "shared_expert_gate"),
    "qwen3_moe": ("experts.1.gate_proj", "experts.1.down_proj", "experts.3.up_proj"),
    "olmoe": ("gate_proj", "up_proj", "down_proj", "gate"),
    "deepseek_v2": ("gate_proj", "up_proj", "down_proj", "mlp.gate"),
    "glm4_moe_lite": ("gate_proj", "up_proj", "down_proj"),
    "jamba": ("gate_proj", "up_proj", "down_proj", "router"),
    "lfm2_moe": ("w1", "w2", "w3", "gate"),
    "qwen3_5_text": ("self_attn.q_proj", "linear_attn.in_proj_qkv", "linear_attn.in_proj_z"),
}


@pytest.mark.parametrize("case", ["llama", "qwen2", "gemma", *MODULES_OF])
def test_each_sequence_has_its_own(golden: Path, tmp_path: Path, case: str):
    """Two adapters and none in one batch, against the model with each merged."""
    path = golden / "tiny" / case
    base = open_checkpoint(path)
    modules = MODULES_OF.get(case, MODULES)
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
        assert np.abs(row - expected).max() < 1e-4 * expected.std()
    on_cpu = logits(with_adapters(open_model(path), adapters), [1, -1, 0], CpuBackend())
    assert np.abs(on_cpu - found).max() < 1e-2 * found.std()
    plain = logits(as_model(base), [-1])[0]
    assert np.abs(found[2] - plain).max() > 0.1 * plain.std()


@pytest.mark.parametrize("case", ["llama", "gemma", "phi3", "qwen3_next", "mixtral", "qwen2_moe"])
def test_company_changes_no_bit(golden: Path, tmp_path: Path, case: str):
    """Alone, beside others, by two threads; a sequence without is as without any loaded."""
    path = golden / "tiny" / case
    base = open_checkpoint(path)
    modules = MODULES_OF.get(case, MODULES)
    for name, seed in (("one", 1), ("two", 2)):
        write_peft(tmp_path / name, base, modules, seed)
    adapters = read_adapters((str(tmp_path / "one"), str(tmp_path / "two")), path)
    model = with_adapters(open_model(path), adapters)
    together = logits(model, [1, -1, 0, 1], CpuBackend(), threads=2)
    for index, adapter in enumerate([1, -1, 0, 1]):
        alone = logits(model, [adapter], CpuBackend())[0]
        np.testing.assert_array_equal(together[index], alone)
    np.testing.assert_array_equal(together[1], logits(as_model(base), [-1], CpuBackend())[0])


@pytest.mark.parametrize("rank", [RANK, 48])
def test_a_projection_whose_columns_are_moved(golden: Path, tmp_path: Path, rank: int):
    """The first matrix would have to follow; 48 is as many columns as the weight has."""
    path = golden / "tiny" / "qwen3_5_text"
    base = open_checkpoint(path)
    write_peft(tmp_path / "one", base, ("linear_attn.out_proj",), 1, rank=rank)
    with pytest.raises(UnsupportedError, match=r"ssm_out\.weight cannot be adapted: the columns"):
        read_adapters((str(tmp_path / "one"),), path)


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


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda table: np.concatenate([table, table[:2]]), "a vocabulary of another size"),
        (lambda table: table + np.eye(*table.shape, dtype=np.float32) * 9, "in row 0: a trained"),
        (lambda table: np.where(table == table[7, 7], np.nan, table), "not finite"),
    ],
)
@pytest.mark.parametrize("kind", ["folder", "file"])
def test_a_table_beside_the_matrices_must_be_the_models(
    golden: Path, tmp_path: Path, change, told: str, kind: str
):
    """PEFT saves it with the adapter of a table or a head; the model's file may be quantized."""
    base = golden / "tiny" / "llama"
    if kind == "file":
        assert main(["convert", str(base), str(tmp_path / "m.gguf"), "--type", "q8_0"]) == 0
        base = tmp_path / "m.gguf"
    folder = tmp_path / "a"
    shutil.copytree(golden / "adapters" / "embeddings", folder)
    read_adapter("a", folder, open_checkpoint(base))
    path = folder / "adapter_model.safetensors"
    found = {
        name: dequantize(one.read(), one.type, one.shape)
        for name, one in tensors_of([read_safetensors(path)]).items()
    }
    name = "base_model.model.lm_head.base_layer.weight"
    save_file({**found, name: np.ascontiguousarray(change(found[name]), np.float32)}, path)
    with pytest.raises(ModelError, match=told):
        read_adapter("a", folder, open_checkpoint(base))


@pytest.mark.parametrize(
    ("module", "old", "new", "told"),
    [
        (
            "embed_tokens",
            "lora_{}.weight",
            "lora_{}.weight",
            "token_embd.weight are such as a proj",
        ),
        ("q_proj", "lora_{}.weight", "lora_embedding_{}", "attn_q.weight are such as an embedding"),
    ],
)
def test_tables_and_projections_are_adapted_in_ways_of_their_own(
    golden: Path, tmp_path: Path, module: str, old: str, new: str, told: str
):
    base = open_checkpoint(golden / "tiny" / "llama")
    write_peft(tmp_path / "a", base, [module], 1)
    path = tmp_path / "a" / "adapter_model.safetensors"
    renamed = load_file(path)
    for side in "AB":
        for name in [name for name in renamed if name.endswith(old.format(side))]:
            values = renamed.pop(name)
            renamed[name.replace(old.format(side), new.format(side))] = values
    save_file(renamed, path)
    with pytest.raises(UnsupportedError, match=told):
        read_adapter("a", tmp_path / "a", base)


def test_logits_that_an_adapter_breaks_are_seen(golden: Path, tmp_path: Path):
    path = golden / "tiny" / "llama"
    write_peft(tmp_path / "a", open_checkpoint(path), ["lm_head"], 1)
    weights = tmp_path / "a" / "adapter_model.safetensors"
    save_file({name: one * np.float32(1e25) for name, one in load_file(weights).items()}, weights)
    model = with_adapters(open_model(path), read_adapters((str(tmp_path / "a"),), path))
    runner = prepared(model, CpuBackend())
    parts = [Part(IDS, range(2 * n, 2 * n + 2), 0, [3, 9]) for n in range(2)]
    batch = replace(make_batch(parts), adapters=np.array([-1, 0], np.int32))
    runner.run(batch)
    assert runner.broken_outputs() == [2, 3]


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
    "another rank": ({"r": 8}, TensorError, r"have rank 4, and adapter_config.json says r = 8"),
    "a rank that is none": ({"r": -1}, FormatError, "r = -1"),
    "a rank of its own": ({"rank_pattern": {"q_proj": 2}}, TensorError, "rank_pattern = 2"),
    "a pattern": ({"alpha_pattern": {"layers.[01].*": 2}}, UnsupportedError, "regular expression"),
    "no alpha": ({"lora_alpha": None}, FormatError, "lora_alpha is missing"),
    "no LoRA": ({"peft_type": "IA3"}, UnsupportedError, "IA3"),
    "another kind": ({"use_dora": True}, UnsupportedError, "use_dora"),
    "whole modules": ({"modules_to_save": ["lm_head"]}, UnsupportedError, "modules_to_save"),
    "another model": ({"init_lora_weights": "pissa"}, UnsupportedError, "pissa"),
    "an unknown key": ({"rotation": 3}, UnsupportedError, "rotation"),
    "a number that is none": ({"lora_alpha": "much"}, FormatError, "lora_alpha"),
}


@pytest.mark.parametrize("case", WRONG)
def test_other_mathematics_are_refused(golden: Path, tmp_path: Path, case: str):
    config, error, message = WRONG[case]
    base = open_checkpoint(golden / "tiny" / "llama")
    write_peft(tmp_path / "a", base, MODULES, 1, **config)
    with pytest.raises(error, match=message) as caught:
        read_adapter("a", tmp_path / "a", base)
    assert str(caught.value).startswith(f"adapter {tmp_path / 'a'}: ")


STRAY = {
    "lora_magnitude_vector": "DoRA",
    "lora_B.bias": "bias of a second matrix",
    "bias": "a bias",
    "weight": "a whole weight",
}


@pytest.mark.parametrize("kind", STRAY)
def test_tensors_beside_the_matrices_are_refused(golden: Path, tmp_path: Path, kind: str):
    base = open_checkpoint(golden / "tiny" / "llama")
    write_peft(tmp_path / "a", base, MODULES, 1, bias="all")
    read_adapter("a", tmp_path / "a", base)
    path = tmp_path / "a" / "adapter_model.safetensors"
    name = f"base_model.model.model.layers.0.mlp.up_proj.{kind}"
    save_file({**load_file(path), name: np.zeros((4, 4), np.float32)}, path)
    with pytest.raises(TensorError, match=f"{re.escape(name)} is .*{STRAY[kind]}"):
        read_adapter("a", tmp_path / "a", base)


@pytest.mark.parametrize(("value", "shown"), [(np.nan, "nan"), (-np.inf, "-inf")])
@pytest.mark.parametrize("kind", ["folder", "file"])
def test_values_that_are_not_finite_are_the_adapters_fault(
    golden: Path, tmp_path: Path, kind: str, value: float, shown: str
):
    path = golden / "tiny" / "llama"
    write_peft(tmp_path / "a", open_checkpoint(path), MODULES, 1)
    weights = tmp_path / "a" / "adapter_model.safetensors"
    tensors = load_file(weights)
    name = "base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight"
    tensors[name][2, 7:9] = value
    save_file(tensors, weights)
    place = tmp_path / "a"
    if kind == "file":
        name = "blk.0.attn_q.weight.lora_a"
        matrices = {
            "blk.0.attn_q.weight.lora_a": np.ones((4, 64), np.float32),
            "blk.0.attn_q.weight.lora_b": np.ones((64, 4), np.float32),
        }
        matrices[name][2, 7:9] = value
        place = write_gguf_adapter(tmp_path / "a.gguf", matrices)
    with pytest.raises(TensorError) as caught:
        pyrite.load(path, lora=[str(place)])
    said = str(caught.value)
    assert said.startswith(f"adapter {place}: tensor {name} holds 2 values that are not finite")
    assert f"the first is {shown}, in row 2, column 7" in said


def test_an_adapter_of_another_model(golden: Path, tmp_path: Path):
    write_peft(tmp_path / "a", open_checkpoint(golden / "tiny" / "llama_sharded"), MODULES, 1)
    with pytest.raises(TensorError, match=r"layers.3.mlp.down_proj.weight, which llama has not"):
        read_adapter("a", tmp_path / "a", open_checkpoint(golden / "tiny" / "llama"))
    write_peft(tmp_path / "c", open_checkpoint(golden / "tiny" / "llama_tied"), ["q_proj"], 1)
    with pytest.raises(TensorError, match=r"of \(96, \d+\), and llama has it as \(64, 64\)"):
        read_adapter("c", tmp_path / "c", open_checkpoint(golden / "tiny" / "llama"))
    write_peft(tmp_path / "b", open_checkpoint(golden / "tiny" / "phi3"), ["qkv_proj"], 1)
    with pytest.raises(TensorError, match=r"layers.0.self_attn.qkv_proj.weight, which llama has"):
        read_adapter("b", tmp_path / "b", open_checkpoint(golden / "tiny" / "llama"))


def test_a_model_is_no_adapter(golden: Path):
    path = golden / "gguf_models" / "llama_q8_0.gguf"
    with pytest.raises(FormatError, match="it is a model, and no adapter"):
        read_adapter("a", path, open_checkpoint(path))


def test_an_adapter_of_a_model_without_a_head(golden: Path, tmp_path: Path):
    """As models for vectors are saved: names without `model.`; adapters may have it or not, and
    may have been trained for a model that sees, whose text model lies within."""
    base = open_checkpoint(golden / "tiny" / "llama")
    write_peft(tmp_path / "with", base, MODULES, 1)
    shorter = {
        name.removeprefix("model."): replace(tensor, name=name.removeprefix("model."))
        for name, tensor in base.tensors.items()
    }
    bare = replace(base, tensors=shorter)
    write_peft(tmp_path / "without", bare, MODULES, 1)
    inner = {
        name.replace("model.", "model.language_model.", 1): replace(
            tensor, name=name.replace("model.", "model.language_model.", 1)
        )
        for name, tensor in base.tensors.items()
    }
    write_peft(tmp_path / "within", replace(base, tensors=inner), MODULES, 1)
    expected = read_adapter("a", tmp_path / "with", base).fingerprint
    for model in (base, bare):
        for name in ("with", "without", "within"):
            assert read_adapter("a", tmp_path / name, model).fingerprint == expected


def test_an_expert_that_the_model_has_not(golden: Path, tmp_path: Path):
    base = open_checkpoint(golden / "tiny" / "mixtral")
    write_peft(tmp_path / "a", base, ["experts.1.w1"], 1)
    read_adapter("a", tmp_path / "a", base)
    path = tmp_path / "a" / "adapter_model.safetensors"
    moved = {name.replace("experts.1.", "experts.9."): one for name, one in load_file(path).items()}
    save_file(moved, path)
    with pytest.raises(TensorError, match=r"expert 9 of blk.0.ffn_gate_exps.weight, and there are"):
        read_adapter("a", tmp_path / "a", base)
    with pytest.raises(TensorError, match=r"experts.9.w1.weight, which llama has not"):
        read_adapter("a", tmp_path / "a", open_checkpoint(golden / "tiny" / "llama"))


def test_an_adapter_of_a_quantized_folder(golden: Path, tmp_path: Path):
    """Rows of 8 bits and their scales in place of weights: it adapts what they mean."""
    folder, plain = tmp_path / "model", open_checkpoint(golden / "tiny" / "llama")
    shutil.copytree(plain.path, folder)
    random = np.random.default_rng(3)
    stored, meant = {}, dict(plain.tensors)
    for name, tensor in plain.tensors.items():
        values = dequantize(tensor.read(), tensor.type, tensor.shape)
        if not name.endswith("proj.weight"):
            stored[name] = values
            continue
        codes = random.integers(-127, 128, tensor.shape).astype(np.int8)
        scales = random.uniform(1e-3, 3e-3, (tensor.shape[0], 1)).astype(np.float16)
        stored |= {name: codes, name.replace("weight", "weight_scale"): scales}
        meant[name] = derived.held(name, codes * scales.astype(np.float32))
    save_file(stored, folder / "model.safetensors")
    scheme = {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": True}
    settings = {
        "quant_method": "compressed-tensors",
        "format": "int-quantized",
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": scheme}},
    }
    config = json.loads((folder / "config.json").read_text()) | {"quantization_config": settings}
    (folder / "config.json").write_text(json.dumps(config))
    added = write_peft(tmp_path / "a", plain, MODULES, 1)
    adapter = read_adapter("a", tmp_path / "a", open_checkpoint(folder))
    found = logits(with_adapters(open_model(folder), [adapter]), [0])[0]
    expected = logits(merged(replace(plain, tensors=meant), added), [-1])[0]
    assert np.abs(found - expected).max() < 1e-4 * expected.std()


def write_gguf_adapter(path: Path, matrices, **keys) -> Path:
    specs = [TensorSpec(name, "F32", values.shape) for name, values in matrices.items()]
    metadata = {
        "general.type": "adapter",
        "general.architecture": "llama",
        "adapter.type": "lora",
        "adapter.lora.alpha": float(RANK),
        **keys,
    }
    write_gguf(path, metadata, specs, lambda spec: matrices[spec.name].reshape(-1).view(np.uint8))
    return path


def test_a_gguf_adapter_of_another_model(golden: Path, tmp_path: Path):
    """Of a folder whose architecture has another name in GGUF files, too."""
    matrices = {
        "blk.9.attn_q.weight.lora_a": np.ones((4, 64), np.float32),
        "blk.9.attn_q.weight.lora_b": np.ones((64, 4), np.float32),
    }
    keys = {"general.architecture": "qwen2moe"}
    path = write_gguf_adapter(tmp_path / "a.gguf", matrices, **keys)
    with pytest.raises(TensorError, match=r"blk.9.attn_q.weight, which qwen2_moe has not"):
        read_adapter("a", path, open_checkpoint(golden / "tiny" / "qwen2_moe"))
    with pytest.raises(UnsupportedError, match="architecture qwen2moe, and the model of llama"):
        read_adapter("a", path, open_checkpoint(golden / "tiny" / "llama"))


def test_an_alpha_of_none_scales_nothing(golden: Path, tmp_path: Path):
    """As llama.cpp takes it; and a key that is not known may change the mathematics."""
    base = open_checkpoint(golden / "tiny" / "llama")
    matrices = {
        "blk.0.attn_q.weight.lora_a": np.ones((4, 64), np.float32),
        "blk.0.attn_q.weight.lora_b": np.ones((64, 4), np.float32),
    }
    found = []
    for alpha in (0.0, 4.0, 8.0):
        path = tmp_path / f"{alpha}.gguf"
        write_gguf_adapter(path, matrices, **{"adapter.lora.alpha": alpha})
        found.append(read_adapter("a", path, base).fingerprint)
    assert found[0] == found[1] != found[2]
    path = write_gguf_adapter(
        tmp_path / "x.gguf", matrices, **{"adapter.alora.invocation_tokens": [1, 2]}
    )
    with pytest.raises(UnsupportedError, match=r"alora\.invocation_tokens"):
        read_adapter("a", path, base)


def test_a_gguf_adapter_of_a_folders_model(golden: Path, tmp_path: Path):
    base = open_checkpoint(golden / "tiny" / "llama")
    write_peft(tmp_path / "peft", base, MODULES, 1)
    theirs = read_adapter("a", tmp_path / "peft", base)
    matrices = {
        f"{weight}.lora_{side}": dequantize(tensor.read(), tensor.type, tensor.shape)
        for weight, pair in theirs.pairs.items()
        for side, tensor in zip("ab", pair, strict=True)
    }
    path = write_gguf_adapter(tmp_path / "adapter.gguf", matrices)
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


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [("lora_A", "lora_A.default", "are both for"), ("model.model.", "model.", "several names")],
)
def test_matrices_under_two_names(golden: Path, tmp_path: Path, old: str, new: str, text: str):
    """The last would win, and the first be ignored."""
    base = open_checkpoint(golden / "tiny" / "llama")
    write_peft(tmp_path / "a", base, MODULES[:1], 1)
    path = tmp_path / "a" / "adapter_model.safetensors"
    tensors = load_file(path)
    again = {name.replace(old, new): one for name, one in tensors.items() if ".layers.0." in name}
    save_file({**again, **tensors}, path)
    assert main(["convert", str(base.path), str(tmp_path / "model.gguf")]) == 0
    for model in (base, open_checkpoint(tmp_path / "model.gguf")):
        with pytest.raises(ModelError, match=text):
            read_adapter("a", tmp_path / "a", model)


def fused(golden: Path, tmp_path: Path, **config: object) -> Path:
    """Of experts that are one parameter, with another configuration."""
    folder = tmp_path / "a"
    shutil.copytree(golden / "adapters" / "fused_mixtral", folder)
    path = folder / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **config}))
    return folder


PARAMETERS = {
    "no module": ({"target_parameters": ["mlp.experts.w9"]}, UnsupportedError, "names .*w9"),
    "no list": ({"target_parameters": "down_proj"}, FormatError, "must be a list"),
    "one of two": ({"target_parameters": ["gate_up_proj", "gate.weight"]}, TensorError, "names 1"),
    "none of two": ({"target_parameters": None}, TensorError, "it has 2 pairs of matrices for"),
    "ranks": ({"rank_pattern": {"gate_up_proj": 5}}, TensorError, "24 ranks: no multiple of 5"),
    "fewer experts": ({"rank_pattern": {"gate_up_proj": 12}}, TensorError, r"of \(2, 192, 64\)"),
    "a rank that is none": ({"rank_pattern": {"gate_up_proj": 0.5}}, FormatError, "a rank is 1 to"),
}


@pytest.mark.parametrize("case", PARAMETERS)
def test_parameters_that_the_matrices_are_not_for(golden: Path, tmp_path: Path, case: str):
    config, error, message = PARAMETERS[case]
    folder = fused(golden, tmp_path, **config)
    with pytest.raises(error, match=message):
        read_adapter("a", folder, open_checkpoint(golden / "tiny" / "mixtral"))


def test_experts_of_another_model(golden: Path, tmp_path: Path):
    folder = fused(golden, tmp_path)
    for other in ("llama", "qwen3_moe"):
        with pytest.raises(ModelError, match=r"which .* has not|and qwen3_moe has it as"):
            read_adapter("a", folder, open_checkpoint(golden / "tiny" / other))


@pytest.mark.parametrize("version", ["0.18.1", "0.19.0", None])
def test_square_experts_go_by_pefts_version(golden: Path, tmp_path: Path, version: str | None):
    """The down matrices of this model are square, and alone they do not tell which way they go."""
    folder, target = tmp_path / "a", ["output_linear.weight"]
    shutil.copytree(golden / "adapters" / "turned", folder)
    path = folder / "adapter_model.safetensors"
    kept = {
        name: dequantize(one.read(), one.type, one.shape)
        for name, one in tensors_of([read_safetensors(path)]).items()
        if "input_linear" not in name
    }
    save_file(kept, path)
    config = json.loads((folder / "adapter_config.json").read_text())
    config |= {"target_parameters": target, "peft_version": version}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    base = open_checkpoint(golden / "tiny" / "granitemoe")
    if version == "0.19.0":
        assert "blk.0.ffn_down_exps.weight" in read_adapter("a", folder, base).pairs
        return
    with pytest.raises(UnsupportedError, match="is square, and peft_version = "):
        read_adapter("a", folder, base)
