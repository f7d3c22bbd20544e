"""Servers that run for the length of a `with` block.

Each is told to listen on a free port of the loopback interface, in a session of its own, and that
session alone is ended. Knows no requests.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

START_SECONDS = 300
END_SECONDS = 15


class Failure(SystemExit):
    """Why a server is not there, with the end of its log."""


@dataclass(frozen=True)
class Command:
    """`words` hold "{port}" where the port goes; `environment` is added to ours."""

    name: str
    words: list[str]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Running:
    url: str  # up to and with /v1
    pid: int
    log: Path

    @property
    def pids(self) -> list[int]:
        """The process and all that it has started, parents first."""
        found = [self.pid]
        for pid in found:
            for task in Path(f"/proc/{pid}/task").glob("*/children"):
                found += [int(child) for child in task.read_text().split()]
        return found


def ours(model: Path, *, threads: int, context: int, more: list[str] | None = None) -> Command:
    words = [sys.executable, "-m", "pyrite", "serve", str(model), "--port", "{port}"]
    words += ["--threads", str(threads), "--context", str(context), *(more or [])]
    return Command("pyrite", words)


@contextmanager
def running(command: Command) -> Iterator[Running]:
    """Raises Failure, with the end of its log, when the server ends or is not ready in time.

    From now on SIGTERM ends this process by SystemExit, so that the server ends as well.
    """
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    port = free_port()
    words = [word.replace("{port}", str(port)) for word in command.words]
    with tempfile.NamedTemporaryFile("w", prefix=f"{command.name}-", suffix=".log") as log:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **command.environment},
            start_new_session=True,
        )
        try:
            wait_until_ready(process, port, Path(log.name))
            yield Running(f"http://127.0.0.1:{port}/v1", process.pid, Path(log.name))
        finally:
            end(process)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until_ready(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        if is_healthy(port):
            return
        time.sleep(0.1)
    tail = log.read_text(errors="replace")[-2000:]
    raise Failure(f"{process.args} is not ready (exit status {process.poll()}):\n{tail}")


def is_healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False


def end(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM, and SIGKILL to what is left of its session after a while."""
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(END_SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
