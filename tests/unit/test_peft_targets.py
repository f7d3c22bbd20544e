"""What an adapter's configuration says of its matrices is held to them, as PEFT reads it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from safetensors.numpy import load_file, save_file

from peft_folders import MODULES, write_peft
from pyrite.cli.main import main
from pyrite.errors import FormatError, TensorError, UnsupportedError
from pyrite.formats.checkpoint import open_checkpoint
from pyrite.models.adapters import read_adapter
from pyrite.models.peft_targets import Targets

NAMES = [module.rpartition(".")[2] for module in MODULES]
WHOLE = [f"model.layers.{layer}.{module}" for layer in range(3) for module in MODULES]

FITS = {
    "ends": {"target_modules": NAMES},
    "whole names": {"target_modules": WHOLE},
    "names that the model has not": {"target_modules": [*NAMES, "query_key_value"]},
    "an expression": {"target_modules": r".*\.(q|v|down|gate)_proj"},
    "an expression of a model that sees": {
        "target_modules": r"(?:.*?(?:language|text).*?(?:self_attn|mlp).*?(?:q_proj|down_proj).*?)"
        r"|(?:\bmodel\.layers\.[\d]{1,}\.(?:self_attn|mlp)\.(?:(?:q|v|down|gate)_proj))"
    },
    "what an expression excludes": {
        "target_modules": r".*_proj",
        "exclude_modules": r".*\.(k|o|up)_proj",
    },
    "all": {"target_modules": "all-linear"},
    "layers": {"target_modules": NAMES, "layers_to_transform": [0, 1, 2]},
    "no layers": {"target_modules": NAMES, "layers_to_transform": []},
    "a stack": {
        "target_modules": NAMES,
        "layers_to_transform": [0, 1, 2],
        "layers_pattern": ["h", "layers"],
    },
    "layers of ends alone": {"target_modules": WHOLE, "layers_to_transform": 1},
    "others are excluded": {
        "target_modules": [*NAMES, "k_proj"],
        "exclude_modules": ["self_attn.k_proj"],
    },
    "biases of a model without": {"target_modules": NAMES, "bias": "all"},
}


@pytest.mark.parametrize("case", FITS)
def test_what_fits(golden: Path, tmp_path: Path, case: str):
    base = open_checkpoint(golden / "tiny" / "llama")
    write_peft(tmp_path / "a", base, MODULES, 1, **FITS[case])
    read_adapter("a", tmp_path / "a", base)


UNNAMED = r"matrices for model\.layers\.{}\.{}, which its configuration does not name \({}"
MISSING = r"names model\.layers\.{}\.{}, and it has no matrices for that{} \(target_modules"
WRONG = {
    "a module that is not named": (
        {"target_modules": NAMES[1:]},
        TensorError,
        UNNAMED.format(0, "self_attn.q_proj", "target_modules = "),
    ),
    "no module is named": ({"target_modules": []}, TensorError, "does not name"),
    "a module that is excluded": (
        {"target_modules": NAMES, "exclude_modules": ["layers.1.mlp.gate_proj"]},
        TensorError,
        UNNAMED.format(1, "mlp.gate_proj", ".*exclude_modules = "),
    ),
    "another layer": (
        {"target_modules": NAMES, "layers_to_transform": [0, 2]},
        TensorError,
        UNNAMED.format(1, "mlp.down_proj", r".*layers_to_transform = \[0, 2\]"),
    ),
    "another stack": (
        {"target_modules": NAMES, "layers_to_transform": [0, 1, 2], "layers_pattern": "h"},
        TensorError,
        "does not name",
    ),
    "a module without matrices": (
        {"target_modules": [*NAMES, "k_proj"]},
        TensorError,
        MISSING.format(0, "self_attn.k_proj", " nor for 2 more"),
    ),
    "an expression of less": (
        {"target_modules": r"model\.layers\.[01]\..*_proj"},
        TensorError,
        UNNAMED.format(2, "mlp.down_proj", "target_modules = .*layers"),
    ),
    "an expression of more": (
        {"target_modules": r".*\.(q|v|o|down|gate)_proj"},
        TensorError,
        MISSING.format(0, "self_attn.o_proj", " nor for 2 more"),
    ),
    "an expression that excludes more": (
        {"target_modules": NAMES, "exclude_modules": r".*\.1\..*q_proj"},
        TensorError,
        UNNAMED.format(1, "self_attn.q_proj", ".*exclude_modules = "),
    ),
    "an expression that looks back": (
        {"target_modules": r".*(?<!k)_proj"},
        UnsupportedError,
        "target_modules has a regular expression that is not read",
    ),
    "the head": ({"target_modules": [*NAMES, "lm_head"]}, TensorError, "names lm_head, and"),
    "a stack of no layers": (
        {"target_modules": NAMES, "layers_pattern": "layers"},
        FormatError,
        "layers_pattern = 'layers' without layers_to_transform",
    ),
    "layers of an expression": (
        {"target_modules": ".*_proj", "layers_to_transform": [1]},
        FormatError,
        r"layers_to_transform = \[1\] beside target_modules",
    ),
    "an expression of stacks": (
        {"target_modules": NAMES, "layers_to_transform": [0], "layers_pattern": "(h|x)"},
        UnsupportedError,
        "regular expression",
    ),
    "no name": ({"target_modules": [3]}, FormatError, r"target_modules = \[3\]: must be a list"),
    "no layer": (
        {"target_modules": NAMES, "layers_to_transform": ["0"]},
        FormatError,
        "must be numbers of layers",
    ),
    "other biases": ({"bias": "some"}, FormatError, "bias = 'some': must be one of none, all"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_fit(golden: Path, tmp_path: Path, case: str):
    config, error, message = WRONG[case]
    base = open_checkpoint(golden / "tiny" / "llama")
    write_peft(tmp_path / "a", base, sorted(MODULES), 1, **config)
    with pytest.raises(error, match=message) as caught:
        read_adapter("a", tmp_path / "a", base)
    assert str(caught.value).startswith(f"adapter {tmp_path / 'a'}: ")


@pytest.mark.parametrize("prefix", ["model.", "", "model.language_model."])
def test_matrices_of_a_layer_are_lost(golden: Path, tmp_path: Path, prefix: str):
    """Beside the folder and the GGUF file of its model, whatever the adapter's model lay in."""
    base = open_checkpoint(golden / "tiny" / "llama")
    names = [f"{prefix}{name.removeprefix('model.')}" for name in WHOLE]
    write_peft(tmp_path / "a", base, MODULES, 1, target_modules=names)
    path = tmp_path / "a" / "adapter_model.safetensors"
    kept = {
        name.replace("base_model.model.model.", f"base_model.model.{prefix}"): tensor
        for name, tensor in load_file(path).items()
    }
    save_file(kept, path)
    file = tmp_path / "model.gguf"
    assert main(["convert", str(base.path), str(file)]) == 0
    models = (base, open_checkpoint(file))
    for model in models:
        read_adapter("a", tmp_path / "a", model)
    part = "layers.1.self_attn.v_proj"
    save_file({name: one for name, one in kept.items() if part not in name}, path)
    for model in models:
        with pytest.raises(TensorError, match=f"names {prefix}{part}, and it has no matrices for"):
            read_adapter("a", tmp_path / "a", model)


@pytest.mark.parametrize("bias", ["all", "lora_only"])
def test_biases_that_are_lost(golden: Path, tmp_path: Path, bias: str):
    base = open_checkpoint(golden / "tiny" / "qwen2")
    write_peft(tmp_path / "a", base, MODULES, 1, bias=bias)
    with pytest.raises(TensorError, match=rf"bias = '{bias}': .* model.layers.0.self_attn.\w_proj"):
        read_adapter("a", tmp_path / "a", base)
    shutil.rmtree(tmp_path / "a")
    write_peft(tmp_path / "a", base, ["mlp.up_proj"], 1, bias="lora_only")
    read_adapter("a", tmp_path / "a", base)


def test_a_layer_is_the_first_number_below_two_names():
    """As PEFT finds it where no list of layers is named."""
    targets = Targets(names=("x",), layers=frozenset({3}))
    assert targets.has("model.layers.3.part.7.x")
    assert not targets.has("model.layers.7.part.3.x")
    assert not targets.has("layers.3.x")
    assert Targets(names=("x",), layers=frozenset({3}), stacks=("layers",)).has("layers.3.x")
