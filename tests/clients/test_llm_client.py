"""The command `llm`, with a model told by its extra-openai-models.yaml: no plugin is wanted."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.clients.harness import KEY, Cancelled

llm = pytest.importorskip("llm", reason="llm is not installed here")

MODELS = """
- model_id: pyrite
  model_name: {name}
  api_base: "{url}/v1"
  api_key_name: pyrite
  supports_tools: true
  supports_schema: true
"""


class Tool:
    """`llm` with a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def aim(self, url: str, name: str, key: str = KEY) -> Tool:
        (self.folder / "extra-openai-models.yaml").write_text(MODELS.format(url=url, name=name))
        (self.folder / "keys.json").write_text(json.dumps({"pyrite": key}))
        return self

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(Path(sys.executable).parent / "llm"), *arguments]
        env = {**os.environ, "LLM_USER_PATH": str(self.folder)}
        return subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL
        )

    def says(self, *arguments: str) -> str:
        done = self.run("prompt", "-m", "pyrite", *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout.removesuffix("\n")


@pytest.fixture
def tool(tmp_path: Path) -> Tool:
    return Tool(tmp_path)


@pytest.mark.parametrize("options", [(), ("--no-stream",)])
def test_an_answer(told: str, tool: Tool, options: Any) -> None:
    tool.aim(told, "told")
    assert tool.says("text", *options) == "Hello 東京 🌧"
    assert tool.says("text", "-s", "Be brief.", "-o", "temperature", "0", *options)


def test_a_conversation_goes_on(told: str, tool: Tool) -> None:
    tool.aim(told, "told")
    assert tool.says("stop") == "one"
    assert tool.says("-c", "text") == "Hello 東京 🌧"


@pytest.mark.parametrize("options", [(), ("--no-stream",)])
def test_a_tool_is_called(told: str, tool: Tool, options: Any) -> None:
    source = (
        'def weather(city: str) -> str:\n    "The weather."\n    return f"text: rain in {city}"'
    )
    tool.aim(told, "told")
    assert "Hello 東京 🌧" in tool.says("call", "--functions", source, *options)


def test_a_schema(told: str, tool: Tool) -> None:
    tool.aim(told, "told")
    told_json = json.loads(tool.says("json", "--schema", "name, age int"))
    assert told_json == {"name": "Ada", "age": 36}


@pytest.mark.parametrize(
    ("word", "name", "key", "status"),
    [
        ("text", "told", "wrong", "401"),
        ("text", "other", KEY, "404"),
        ("long", "told", KEY, "400"),
    ],
)
def test_errors_are_told(
    told: str, tool: Tool, word: str, name: str, key: str, status: str
) -> None:
    done = tool.aim(told, name, key).run("prompt", "-m", "pyrite", word)
    assert done.returncode != 0
    assert f"Error code: {status}" in done.stderr


def test_a_real_model(smollm2: str, tool: Tool) -> None:
    tool.aim(smollm2, "smollm2")
    options = ("-o", "temperature", "0", "-o", "max_tokens", "40")
    assert "Paris" in tool.says("What is the capital of France?", *options)
    person = json.loads(tool.says("Who is Ada, of 36?", "--schema", "name, age int", *options))
    assert {"name", "age"} <= set(person)


def test_a_real_stream_that_is_left_is_cancelled(
    smollm2: str, tool: Tool, monkeypatch: pytest.MonkeyPatch, cancelled: Cancelled
) -> None:
    tool.aim(smollm2, "smollm2")
    monkeypatch.setenv("LLM_USER_PATH", str(tool.folder))
    response = llm.get_model("pyrite").prompt("Write a long story.", max_tokens=1900)
    next(iter(response))
    del response
    gc.collect()  # it has nothing to close it by
    cancelled()
