"""`pyrite run` with an answer of a given form, on a tiny real model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyrite.cli.main import main

SCHEMA = {"type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"]}


@pytest.fixture
def tiny(golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("PYRITE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pyrite.cli.run.piped_text", lambda: "")
    return ["run", str(golden / "gguf_models" / "qwen2_q8_0.gguf"), "hello", "-s", "1", "--raw"]


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 0
    return capsys.readouterr().out.rstrip("\n")


def test_forms(tiny: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(capsys, *tiny, "--regex", "ab|cd") in ("ab", "cd")
    Path("form.lark").write_text('start: "x" /[0-9]/')
    assert answer(capsys, *tiny, "--grammar", "form.lark") in {f"x{digit}" for digit in range(10)}
    schema = {**SCHEMA, "additionalProperties": False}
    Path("form.json").write_text(json.dumps(schema))
    assert json.loads(answer(capsys, *tiny, "--json-schema", "form.json"))["n"] in (1, 2)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--regex", "["], "unclosed"),
        (["--json-schema", "missing.json"], "--json-schema = 'missing.json'"),
        (["--grammar", "."], "can be read"),
        (["--grammar", "bytes"], "UTF-8"),
        (["--json-schema", "/dev/zero"], "at most"),
        (["--json-schema", "bad.json"], "json_schema"),
    ],
)
def test_forms_that_cannot_be_had(
    tiny: list[str], capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    Path("bytes").write_bytes(b"\xff")
    Path("bad.json").write_text("{")
    assert main([*tiny, *arguments]) == 2
    assert words in capsys.readouterr().err


def test_one_form_at_a_time(tiny: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*tiny, "--regex", "a", "--grammar", "b"]) == 2
    assert "not allowed with" in capsys.readouterr().err
