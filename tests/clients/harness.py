"""Servers for real clients, and what their tests share. Clients live in environments of their own:
no import of Pyrite here.

`PYRITE_PYTHON` names the Python that has Pyrite; else the project's own, else the one that runs.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
KEY = "pyrite-test-key"  # that both servers ask for
Result = TypeVar("Result")
Cancelled = Callable[[], None]  # waits until a request of the test was cancelled
START_SECONDS = 60.0
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


def run(command: list[str]) -> Iterator[str]:
    """The first URL that the command tells; ends it after the tests."""
    with (
        tempfile.NamedTemporaryFile() as log,
        subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT
        ) as process,
    ):
        try:
            yield url_in(Path(log.name), process)
        finally:
            process.terminate()


def url_in(log: Path, process: subprocess.Popen[bytes]) -> str:
    for _ in range(int(START_SECONDS / 0.05)):
        if match := re.search(r"(http://\S+)\s", log.read_text()):
            return match[1].rstrip("/")
        if process.poll() is not None:
            break
        time.sleep(0.05)
    raise AssertionError("no server: " + log.read_text())


_loop = asyncio.new_event_loop()


def awaited(work: Coroutine[Any, Any, Result]) -> Result:
    """The result of work on the one event loop of these tests: clients keep their connections."""
    return _loop.run_until_complete(work)


_open: list[Any] = []


def opened(client: Any) -> Any:
    """The client, which is closed after the test."""
    _open.append(client)
    return client


def close_all() -> None:
    """Closes every client that is open."""
    while _open:
        _open.pop().close()


def num_cancelled(url: str) -> float:
    """Requests whose client went away before their end, as the metrics tell."""
    request = urllib.request.Request(f"{url}/metrics", headers={"authorization": f"Bearer {KEY}"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        lines = reply.read().decode().splitlines()
    name = "vllm:request_cancelled_total"
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))


def wait_cancelled(url: str, before: float) -> None:
    """Until one request more than `before` was cancelled."""
    for _ in range(200):
        if num_cancelled(url) > before:
            return
        time.sleep(0.05)
    raise AssertionError("no request was cancelled")


def post(url: str, body: dict[str, Any]) -> tuple[int, str]:
    """Status and text, without any client's help."""
    request = urllib.request.Request(
        url,
        json.dumps(body).encode(),
        {"content-type": "application/json", "authorization": f"Bearer {KEY}"},
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
