"""How much memory this process may still take: the machine's, or less by its control groups."""

from __future__ import annotations

import re
from pathlib import Path

from pyrite.cgroup import memory_left, read_text


def available_bytes(root: Path = Path("/")) -> int | None:
    """Bytes that can be allocated without swapping; None where nothing tells. `root`: for tests."""
    match = re.search(r"^MemAvailable:\s+(\d+) kB$", read_text(root / "proc/meminfo"), re.MULTILINE)
    machine = int(match[1]) * 1024 if match else None
    group = memory_left(root)
    known = [limit for limit in (machine, group) if limit is not None]
    return min(known, default=None)
