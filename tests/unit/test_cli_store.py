"""`ls`, `rm` and `pull` on a cache of one tiny model, without a network."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from pyrite.cli.main import main


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
