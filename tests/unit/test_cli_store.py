"""`ls`, `rm` and `pull` on a cache of one tiny model, without a network."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from pyrite.cli.main import main
from pyrite.formats import hub
from pyrite.formats.packages import Packaged
from pyrite.llm import load


@pytest.fixture
def kept(golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYRITE_HOME", str(tmp_path))
    path = tmp_path / "models" / "tiny.gguf"
    path.parent.mkdir()
    shutil.copy(golden / "gguf_models" / "qwen2_q8_0.gguf", path)
    return path


def test_list_and_remove(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ls", "--json"]) == 0
    (model,) = json.loads(capsys.readouterr().out)
    assert model == {"name": "tiny.gguf", "path": str(kept), "bytes": kept.stat().st_size}
    assert main(["ls"]) == 0
    text = capsys.readouterr().out
    assert "tiny.gguf" in text
    assert "can be pulled: " in text
    assert main(["ls", "--names"]) == 0
    assert {"tiny.gguf", "smollm2"} <= set(capsys.readouterr().out.split())
    assert main(["rm", "tiny.gguf"]) == 0
    assert not kept.exists()
    assert main(["rm", "tiny.gguf"]) == 4


def test_packed_weights_go_with_their_model(
    kept: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(kept, kept.with_name("other.gguf"))
    for name in ("tiny.gguf", "other.gguf"):
        load(name).close()
    assert len(list((tmp_path / "packed").glob("*.bin"))) == 2
    assert main(["rm", "tiny.gguf"]) == 0
    (left,) = (tmp_path / "packed").glob("*.bin")
    kept.with_name("other.gguf").write_bytes(b"no model any more")
    assert main(["rm", "other.gguf"]) == 0
    assert left.exists(), "whose it was cannot be told"


def test_doctor_knows_what_was_fetched(
    kept: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = hashlib.sha256(kept.read_bytes()).hexdigest()
    model = Packaged("tiny.gguf", kept.stat().st_size, digest, ())
    monkeypatch.setattr(hub, "PACKAGED", {"tiny": model})
    assert main(["doctor", str(kept)]) == 0
    assert re.search(r"ok +checksum +SHA-256 of 1 file: as it was", capsys.readouterr().out)
    monkeypatch.setattr(hub, "PACKAGED", {"tiny": replace(model, sha256="0" * 64)})
    assert main(["doctor", str(kept)]) == 1
    assert re.search(r"fault +checksum +tiny.gguf: not what was fetched", capsys.readouterr().out)


@pytest.mark.parametrize("arguments", [["pull", "smollm2"], ["run", "smollm2", "hi"]])
def test_a_folder_that_cannot_be_written_to(
    arguments: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("PYRITE_HOME", str(tmp_path / "file" / "home"))
    monkeypatch.setattr("pyrite.cli.run.whole_prompt", lambda given, terminal: given)
    assert main(arguments) == 1
    shown = capsys.readouterr().err
    assert re.search(r"error: SmolLM2.*could not be written to .*/file/home/models: Not a", shown)
    assert shown.count("\n") == 1
    assert "PYRITE_HOME" in shown


def test_what_a_model_takes(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "--memory", str(kept), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["key_value_bytes"] == {"f16": 1024.0, "q8": 560.0}
    assert found["least_columns"] <= found["activation_columns"] < found["separate_columns"]
    assert found["packed"] < 1.1 * found["weights"]
    assert found["pages"] == 1024 * found["page_tokens"]
    assert main(["show", "--memory", str(kept)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line[:14].strip() for line in lines] == [
        "weights",
        "keys, values",
        "pages",
        "context",
        "activations",
        "logits",
    ]


def test_a_kept_model_is_found_by_its_name(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "tiny.gguf", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["path"] == str(kept)


@pytest.mark.parametrize("verb", ["pull", "show", "run", "bench", "doctor", "tokenize", "rm"])
def test_names_that_nothing_has(
    verb: str, kept: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = [verb, "smolm2"]
    if verb in ("run", "tokenize"):
        arguments.append("hi")
        monkeypatch.setattr("pyrite.cli.run.whole_prompt", lambda given, terminal: given)
    assert main(arguments) == 4
    shown = capsys.readouterr().err
    assert "smolm2" in shown
    assert shown.count("\n") == 1
    assert verb == "rm" or "did you mean smollm2" in shown
