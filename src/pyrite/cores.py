"""How many threads to compute with: one for each physical performance core that may be used.

The least of three: cores of the affinity mask (SMT siblings count once, efficiency cores not at
all where there are faster ones) and the quota of the control groups, rounded; at least 1. An
explicit number wins. `root` is "/" but in tests.

A quota is time: two threads with 1.5 processors run three quarters of the time. With 1.25 they were
still a sixth faster than one thread, in prompts and in single tokens, so a quarter is rounded up.
"""

from __future__ import annotations

import math
import os
from collections.abc import Set as AbstractSet
from pathlib import Path

from pyrite.cgroup import cpu_quota, read_text
from pyrite.records import dataclass

SLOW_SHARE = 0.66  # a core of less than this share of the largest capacity is an efficiency core
ROUNDED_UP = 0.25  # of a processor, or more of it


@dataclass(frozen=True, slots=True)
class Threads:
    """`reason` is one line for logs and `pyrite doctor`."""

    count: int
    reason: str


def choose_threads(
    asked: int | None = None,
    *,
    affinity: AbstractSet[int] | None = None,
    root: Path = Path("/"),
) -> Threads:
    """`affinity` is the set of logical processors this process may run on, by default its mask."""
    if asked is not None:
        return Threads(asked, f"{asked}: as asked")
    allowed = set(os.sched_getaffinity(0)) if affinity is None else set(affinity)
    online = {cpu for cpu in allowed if read_text(_cpu(root, cpu) / "online").strip() != "0"}
    fast = _performance(online or allowed, root)
    cores = _physical(fast, root)
    quota = cpu_quota(root)
    count = max(1, min(cores, cores if quota is None else math.floor(quota + 1 - ROUNDED_UP)))
    return Threads(count, _reason(count, cores, len(fast), len(allowed), quota))


def _reason(count: int, cores: int, fast: int, allowed: int, quota: float | None) -> str:
    parts = [f"{allowed} logical processors allowed"]
    if fast != allowed:
        parts.append(f"{fast} of them fast and online")
    if cores != fast:
        parts.append(f"{cores} physical cores")
    if quota is not None:
        parts.append(f"control group quota {quota:g}")
    return f"{count}: " + ", ".join(parts)


def _performance(cpus: set[int], root: Path) -> set[int]:
    """The processors that are not efficiency cores; all of them where nothing tells.

    Intel hybrids list theirs under /sys/devices/cpu_core; Arm states a capacity of each; elsewhere
    the highest frequency tells.
    """
    fast = cpus & parse_list(read_text(root / "sys/devices/cpu_core/cpus"))
    if fast:
        return fast
    for name in ("cpu_capacity", "cpufreq/cpuinfo_max_freq"):
        stated = {cpu: read_text(_cpu(root, cpu) / name).strip() for cpu in cpus}
        if all(speed.isdecimal() for speed in stated.values()):
            limit = SLOW_SHARE * max(map(int, stated.values()), default=0)
            fast = {cpu for cpu, speed in stated.items() if int(speed) >= limit}
            if fast != cpus:
                return fast
    return cpus


def _physical(cpus: set[int], root: Path) -> int:
    """How many cores the processors are on; one whose siblings are unknown is a core itself."""
    names = ("core_cpus_list", "thread_siblings_list")  # the newer name first
    cores = set()
    for cpu in cpus:
        lists = [parse_list(read_text(_cpu(root, cpu) / "topology" / name)) for name in names]
        siblings = next((found for found in lists if cpu in found), {cpu})
        cores.add(frozenset(siblings))
    return len(cores)


def _cpu(root: Path, cpu: int) -> Path:
    return root / f"sys/devices/system/cpu/cpu{cpu}"


def parse_list(text: str) -> set[int]:
    """The kernel's list format: "0-3,8" is {0, 1, 2, 3, 8}; text of another form is empty."""
    found: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        if not first.isdecimal() or not (last or first).isdecimal():
            return set()
        found.update(range(int(first), int(last or first) + 1))
    return found
