"""Sizes of the processors' caches, as the system tells them.

Source: the kernel's Documentation/ABI/testing/sysfs-devices-system-cpu. `root` is "/" but in tests.
"""

from __future__ import annotations

import os
import re
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path

from pyrite.cgroup import read_text
from pyrite.cores import parse_list

UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True, slots=True)
class Cache:
    """One level's caches of data that these processors reach; `num_bytes` of each of them."""

    level: int
    num_bytes: int
    count: int


def caches(
    *, affinity: AbstractSet[int] | None = None, root: Path = Path("/")
) -> tuple[Cache, ...]:
    """By level, the nearest first; empty where the system tells nothing."""
    cpus = os.sched_getaffinity(0) if affinity is None else affinity
    found: dict[tuple[int, int], set[frozenset[int]]] = {}  # (level, bytes): who shares one
    for cpu in sorted(cpus):
        folder = root / f"sys/devices/system/cpu/cpu{cpu}/cache"
        for index in folder.glob("index*"):
            told = {name: read_text(index / name).strip() for name in ("level", "type", "size")}
            num_bytes = size_of(told["size"])
            if told["type"] in ("Data", "Unified") and told["level"].isdecimal() and num_bytes:
                sharing = parse_list(read_text(index / "shared_cpu_list")) or {cpu}
                found.setdefault((int(told["level"]), num_bytes), set()).add(frozenset(sharing))
    return tuple(Cache(level, size, len(groups)) for (level, size), groups in sorted(found.items()))


def size_of(text: str) -> int:
    """Bytes of "48K"; 0 for text of another form."""
    match = re.fullmatch(r"(\d+)([KMG]?)", text)
    return int(match[1]) * UNITS.get(match[2], 1) if match else 0
