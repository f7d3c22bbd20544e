"""Which servers run here: each leaves a note in the cache while it lives.

A note whose process is gone is removed by whoever reads it. Holds no key. Knows no HTTP.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Running:
    """One server."""

    pid: int
    url: str
    model: str
    started: float  # seconds since the epoch


def folder(home: Path) -> Path:
    return home / "servers"


@contextlib.contextmanager
def noted(home: Path, url: str, model: str) -> Iterator[None]:
    """Leaves a note for as long as the block runs; a folder that cannot be written is no fault."""
    path = folder(home) / f"{os.getpid()}.json"
    note = Running(os.getpid(), url, model, time.time())
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(note)))
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def running(home: Path) -> list[Running]:
    """Servers whose processes live, oldest first."""
    found = []
    for path in folder(home).glob("*.json"):
        note = read(path)
        if note is not None and is_alive(note.pid):
            found.append(note)
        else:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
    return sorted(found, key=lambda one: one.started)


def read(path: Path) -> Running | None:
    try:
        return Running(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
