"""What a server's processes hold and use: memory, descriptors, threads, time. From Linux' /proc."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Sample:
    """Of several processes together. `private_bytes` is anonymous memory, resident or swapped."""

    private_bytes: int
    descriptors: int
    threads: int
    processes: int
    processor_seconds: float


def sample(pids: Sequence[int]) -> Sample:
    """Raises OSError when one of them has ended."""
    found = [_status(pid) for pid in pids]
    return Sample(
        private_bytes=1024 * sum(one["RssAnon"] + one["VmSwap"] for one in found),
        descriptors=sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in pids),
        threads=sum(one["Threads"] for one in found),
        processes=len(pids),
        processor_seconds=sum(map(processor_seconds, pids)),
    )


def processor_seconds(pid: int) -> float:
    """Of all threads of a process, in user and system mode (10 ms steps)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _status(pid: int) -> dict[str, int]:
    text = Path(f"/proc/{pid}/status").read_text()
    return {
        name: int(re.findall(rf"^{name}:\s+(\d+)", text, re.MULTILINE)[0])
        for name in ("RssAnon", "VmSwap", "Threads")
    }
