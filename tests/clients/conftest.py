"""Servers for real clients, which live in environments of their own: no import of Pyrite here.

`PYRITE_PYTHON` names the Python that has Pyrite; else the project's own, else the one that runs.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"


def python() -> str:
    own = ROOT / ".venv" / "bin" / "python"
    return os.environ.get("PYRITE_PYTHON") or (str(own) if own.exists() else sys.executable)


def model_path() -> Path:
    named = os.environ.get("PYRITE_TEST_SMOLLM2")
    home = os.environ.get("PYRITE_HOME")
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    root = Path(home) if home else cache / "pyrite"
    path = Path(named) if named else root / "models" / MODEL
    if not path.is_file():
        pytest.skip(f"{MODEL} is not here: fetch it with `pyrite pull`, or set PYRITE_TEST_SMOLLM2")
    return path


def run(command: list[str], stream: str, found: str) -> Iterator[str]:
    """The URL that the command tells on one of its streams; ends it after the test."""
    pipes = {"stdin": subprocess.PIPE, stream: subprocess.PIPE}
    process = subprocess.Popen(command, cwd=ROOT, text=True, **pipes)  # type: ignore[call-overload]
    lines = []
    try:
        for line in getattr(process, stream):
            lines.append(line)
            if match := re.search(found, line):
                yield match[1].rstrip("/")
                return
        raise AssertionError("no server: " + "".join(lines))
    finally:
        process.terminate()
        process.communicate(timeout=20)


@pytest.fixture(scope="session")
def told() -> Iterator[str]:
    """The URL of a server that answers what tests/clients/told_server.py tells."""
    yield from run([python(), "-m", "tests.clients.told_server"], "stdout", r"(http://\S+)")


@pytest.fixture(scope="session")
def smollm2() -> Iterator[str]:
    """The URL of `pyrite serve` with a real model."""
    command = [python(), "-m", "pyrite", "serve", str(model_path()), "--port", "0"]
    options = ["--name", "smollm2", "--context", "2048"]
    yield from run([*command, *options], "stderr", r"is ready at (http://\S+)")


_opened: list[Any] = []


def opened(client: Any) -> Any:
    """The client, which is closed after the test."""
    _opened.append(client)
    return client


@pytest.fixture(autouse=True)
def close_clients() -> Iterator[None]:
    yield
    while _opened:
        _opened.pop().close()


def post(url: str, body: dict[str, Any]) -> tuple[int, str]:
    """Status and text, without any client's help."""
    request = urllib.request.Request(
        url, json.dumps(body).encode(), {"content-type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def datas(text: str) -> list[str]:
    """The data of each server-sent event."""
    return [line.removeprefix("data: ") for line in text.split("\n") if line.startswith("data: ")]


def unknown_fields(value: Any, path: str = "") -> list[str]:
    """Fields of a pydantic model, at any depth, that the model does not declare."""
    if isinstance(value, list):
        return [name for one in value for name in unknown_fields(one, f"{path}[]")]
    if not hasattr(value, "model_fields_set"):
        return []
    found = [f"{path}.{name}" for name in value.model_extra or ()]
    for name in type(value).model_fields:
        found += unknown_fields(getattr(value, name), f"{path}.{name}")
    return found
