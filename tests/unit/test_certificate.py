"""`doctor` on a model: its layers, what quantization cost, and the verdict that is kept."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from pyrite.backends.reference import ReferenceBackend
from pyrite.cli import probe
from pyrite.cli.main import main
from pyrite.config import Settings
from pyrite.formats import derived
from pyrite.models.registry import open_model
from pyrite.quant.dequant import dequantize


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYRITE_HOME", str(tmp_path / "home"))


class SickBackend(ReferenceBackend):
    """One matrix of layer 1 is a little larger than it should be."""

    def __init__(self, *args) -> None:
        pass

    def prepare(self, plan, weights, **options):
        name = "blk.1.ffn_down.weight"
        tensor = weights[name]
        values = dequantize(tensor.read(), tensor.type, tensor.shape) * np.float32(1.3)
        return super().prepare(plan, {**weights, name: derived.held(name, values)}, **options)


CASES = ("llama", "gemma3_text", "qwen3_moe", "gpt2")


@pytest.mark.parametrize("case", CASES)
def test_layers_of_a_sound_model(golden: Path, case: str):
    model = open_model(golden / "tiny" / case)
    errors = probe.layer_errors(model, range(12), Settings())
    assert [one.layer for one in errors][-1] == len(probe.read_config(model).layers) - 1
    assert all(0 <= one.error < 0.01 for one in errors)


def test_the_first_sick_layer_is_found(golden: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(probe, "CpuBackend", SickBackend)
    errors = probe.layer_errors(open_model(golden / "tiny" / "llama"), range(12), Settings())
    assert [one.error > 0.001 for one in errors] == [False, True, True]


def findings(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, dict]:
    main(["doctor", *arguments, "--json"])
    return {one["name"]: one for one in json.loads(capsys.readouterr().out)}


def test_what_quantization_cost(golden: Path, capsys: pytest.CaptureFixture[str]):
    models = golden / "gguf_models"
    small, large = str(models / "llama_q4_0.gguf"), str(models / "llama_q8_0.gguf")
    found = findings(capsys, small, "--original", large)["quantization"]
    assert found["state"] == "ok"
    assert "nats from the original" in found["detail"]
    other = findings(capsys, small, "--original", str(models / "qwen2_q8_0.gguf"))
    assert other["quantization"]["state"] == "fault"


def test_a_verdict_is_kept_until_the_file_changes(
    golden: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    model = tmp_path / "model.gguf"
    shutil.copy(golden / "gguf_models" / "llama_q8_0.gguf", model)

    def shown() -> str:
        assert main(["show", str(model)]) == 0
        return next(one for one in capsys.readouterr().out.splitlines() if "doctor" in one)

    assert "not looked at yet" in shown()
    main(["doctor", str(model)])
    capsys.readouterr()
    assert "checks found no fault" in shown()
    model.write_bytes(model.read_bytes())  # as it was, but written since
    assert "not looked at yet" in shown()


def test_a_verdict_of_a_sick_model(
    golden: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    model = str(golden / "gguf_models" / "llama_q8_0.gguf")
    sick = [probe.LayerError(0, 0.0), probe.LayerError(1, 0.5)]
    monkeypatch.setattr("pyrite.cli.model_checkup.layer_errors", lambda *_: sick)
    assert main(["doctor", model]) == 1
    assert "after layer 1 the stream is off by 0.5" in capsys.readouterr().out
    main(["show", model])
    assert "1 of 10 checks found a fault (layers)" in capsys.readouterr().out


def test_tokens_are_compared_where_there_is_something_to_compare(
    golden: Path, capsys: pytest.CaptureFixture[str]
):
    found = findings(capsys, str(golden / "tiny" / "llama"))["tokenizer.json"]
    assert (found["state"], found["detail"]) == ("skipped", "there is none beside the model")
