"""A server whose disk is full, whose home cannot be written, whose log goes nowhere: it serves."""

from __future__ import annotations

import contextlib
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.patience import PATIENCE, until
from tests.server.harness import file_server

TINY = Path(__file__).parent.parent / "golden" / "gguf_models" / "llama_q8_0.gguf"
STORE = ("--kv-store-bytes", "100000000")
PROMPT = "lead and tin and zinc, " * 5


def answers(url: str) -> list[str]:
    """To one prompt of some pages, asked twice."""
    body = {"prompt": PROMPT, "max_tokens": 4, "temperature": 0}
    replies = [httpx.post(f"{url}/v1/completions", json=body, timeout=PATIENCE) for _ in range(2)]
    assert [reply.status_code for reply in replies] == [200, 200]
    return [reply.json()["choices"][0]["text"] for reply in replies]


@pytest.fixture(scope="module")
def expected() -> list[str]:
    with file_server(TINY) as served:
        return answers(served.url)


@pytest.mark.parametrize("home", ["/proc/self/nowhere", "/dev/null/nowhere"])
def test_a_home_that_cannot_be_written(expected: list[str], home: str) -> None:
    with file_server(TINY, *STORE, env={"PYRITE_HOME": home}) as served:
        assert answers(served.url) == expected


def no_files() -> None:
    """As on a full disk: no file may hold a byte."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))


def test_a_disk_that_is_full(expected: list[str], tmp_path: Path) -> None:
    home = {"PYRITE_HOME": str(tmp_path)}
    with file_server(TINY, *STORE, env=home, preexec_fn=no_files) as served:
        assert answers(served.url) == expected
    kept = [file for file in tmp_path.rglob("*") if file.is_file() and file.stat().st_size]
    assert kept == []


@contextlib.contextmanager
def speechless_server() -> Iterator[str]:
    """Every write of its log fails."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "pyrite", "serve", str(TINY), "--port", str(port)]
    with Path("/dev/full").open("wb") as full:
        process = subprocess.Popen(
            [*command, "--kv-store-bytes", "0"], stdout=full, stderr=full, stdin=subprocess.DEVNULL
        )
    try:
        yield f"http://127.0.0.1:{port}"
        assert process.poll() is None, "it ended"
    finally:
        process.terminate()
        process.wait(PATIENCE)


def is_ready(url: str) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(f"{url}/readyz").status_code == 200
    return False


def test_a_log_that_cannot_be_written(expected: list[str]) -> None:
    with speechless_server() as url:
        until(lambda: is_ready(url))
        assert answers(url) == expected
        assert httpx.post(f"{url}/v1/completions", content=b"{").status_code == 400
