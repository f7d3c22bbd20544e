"""Threads and memory on fake machines: trees of /proc and /sys, as kernels show them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pyrite.cgroup import cpu_quota, memory_left
from pyrite.cores import choose_threads, parse_list
from pyrite.memory import available_bytes
from pyrite.nodes import find_nodes, spread

CPU = "sys/devices/system/cpu"
MOUNT_V2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate"
MOUNT_V1_CPU = "31 23 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct"
MOUNT_V1_MEMORY = "32 23 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory"
OTHER = "22 27 0:21 / /sys rw,nosuid shared:7 - sysfs sysfs rw"


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


def siblings(*groups: str) -> dict[str, str]:
    """Topology files for processors whose siblings are the given lists."""
    return {
        f"{CPU}/cpu{cpu}/topology/thread_siblings_list": group
        for group in groups
        for cpu in parse_list(group)
    }


def version2(group: str = "/", **quotas: str) -> dict[str, str]:
    files = {"proc/self/cgroup": f"0::{group}", "proc/self/mountinfo": f"{OTHER}\n{MOUNT_V2}"}
    named = {path.replace("_", "/").strip("/"): text for path, text in quotas.items()}
    return files | {f"sys/fs/cgroup/{path}/cpu.max": text for path, text in named.items()}


def version1(group: str, quota: str, period: str = "100000") -> dict[str, str]:
    folder = f"sys/fs/cgroup/cpu,cpuacct{group}"
    return {
        "proc/self/cgroup": f"4:memory:/\n3:cpu,cpuacct:{group}\n0::/",
        "proc/self/mountinfo": f"{OTHER}\n{MOUNT_V1_CPU}",
        f"{folder}/cpu.cfs_quota_us": quota,
        f"{folder}/cpu.cfs_period_us": period,
    }


QUOTAS = {
    "none": ({}, None),
    "v2 unlimited": (version2("/a", a="max 100000"), None),
    "v2 two": (version2("/a", a="200000 100000"), 2.0),
    "v2 fractional": (version2("/a", a="150000 100000"), 1.5),
    "v2 at the mount": (version2("/", _="50000 100000"), 0.5),
    "v2 nested, outer is less": (version2("/a/b", a="150000 100000", a_b="max 100000"), 1.5),
    "v2 nested, inner is less": (version2("/a/b", a="300000 100000", a_b="200000 100000"), 2.0),
    "v2 group outside of what is mounted": (version2("/../x", _="200000 100000"), 2.0),
    "v2 nonsense": (version2("/a", a="lots"), None),
    "v1 two": (version1("/docker/x", "200000"), 2.0),
    "v1 unlimited": (version1("/docker/x", "-1"), None),
    "v1 other period": (version1("/", "75000", "50000"), 1.5),
}


@pytest.mark.parametrize("name", QUOTAS)
def test_quota(tmp_path: Path, name: str) -> None:
    files, expected = QUOTAS[name]
    assert cpu_quota(tree(tmp_path, files)) == expected


def test_quota_where_the_mount_shows_the_container_alone(tmp_path: Path) -> None:
    files = version1("/docker/x", "200000")
    files["proc/self/mountinfo"] = MOUNT_V1_CPU.replace("0:27 / ", "0:27 /docker/x ")
    folder = "sys/fs/cgroup/cpu,cpuacct"
    moved = {name.replace(f"{folder}/docker/x", folder): text for name, text in files.items()}
    assert cpu_quota(tree(tmp_path, moved)) == 2.0


# name: (files, affinity, threads)
MACHINES: dict[str, tuple[dict[str, str], set[int], int]] = {
    "no sysfs at all": ({}, {0, 1, 2, 3}, 4),
    "one processor": (siblings("0"), {0}, 1),
    "8 cores, 16 threads": (siblings(*(f"{i},{i + 8}" for i in range(8))), set(range(16)), 8),
    "no SMT is not halved": (siblings(*map(str, range(6))), set(range(6)), 6),
    "mask of one core's siblings": (siblings("0-1", "2-3"), {0, 1}, 1),
    "mask of two cores": (siblings("0-1", "2-3"), {0, 2}, 2),
    "hybrid, 8 fast and 12 slow, SMT off": (
        siblings(*map(str, range(20))) | {"sys/devices/cpu_core/cpus": "0-7"},
        set(range(20)),
        8,
    ),
    "hybrid, 4 fast with SMT and 4 slow": (
        siblings("0-1", "2-3", "4-5", "6-7", "8", "9", "10", "11")
        | {"sys/devices/cpu_core/cpus": "0-7"},
        set(range(12)),
        4,
    ),
    "hybrid, mask of slow cores alone": (
        siblings(*map(str, range(4))) | {"sys/devices/cpu_core/cpus": "0-1"},
        {2, 3},
        2,
    ),
    "Arm, 1 + 3 fast and 4 slow": (
        {
            f"{CPU}/cpu{cpu}/cpu_capacity": capacity
            for cpu, capacity in enumerate(["1024", *["870"] * 3, *["400"] * 4])
        },
        set(range(8)),
        4,
    ),
    "4 fast and 4 slow by frequency, all of one capacity": (
        {
            f"{CPU}/cpu{cpu}/{name}": value
            for cpu in range(8)
            for name, value in [
                ("cpu_capacity", "1024"),
                ("cpufreq/cpuinfo_max_freq", "5100000" if cpu < 4 else "3300000"),
            ]
        },
        set(range(8)),
        4,
    ),
    "favoured cores are no other kind": (
        {
            f"{CPU}/cpu{cpu}/cpufreq/cpuinfo_max_freq": "5800000" if cpu < 2 else "5500000"
            for cpu in range(8)
        },
        set(range(8)),
        8,
    ),
    "offline processors": (
        siblings("0", "1", "2", "3") | {f"{CPU}/cpu3/online": "0", f"{CPU}/cpu1/online": "1"},
        {0, 1, 2, 3},
        3,
    ),
    "quota under the mask": (version2("/a", a="200000 100000"), set(range(16)), 2),
    "half a processor is rounded up": (version2("/a", a="150000 100000"), set(range(16)), 2),
    "a quarter is rounded up": (version2("/a", a="325000 100000"), set(range(16)), 4),
    "a fifth is rounded down": (version2("/a", a="320000 100000"), set(range(16)), 3),
    "never more than cores": (version2("/a", a="175000 100000"), {0}, 1),
    "quota under one": (version2("/a", a="20000 100000"), set(range(16)), 1),
    "mask under the quota": (version2("/a", a="800000 100000"), {0, 1}, 2),
    "quota of version 1": (version1("/", "300000"), set(range(8)), 3),
}


@pytest.mark.parametrize("name", MACHINES)
def test_threads(tmp_path: Path, name: str) -> None:
    files, affinity, expected = MACHINES[name]
    chosen = choose_threads(affinity=affinity, root=tree(tmp_path, files))
    assert chosen.count == expected
    assert chosen.reason.startswith(f"{expected}: ")


def test_what_is_asked_wins_and_is_said(tmp_path: Path) -> None:
    root = tree(tmp_path, version2("/a", a="100000 100000"))
    assert choose_threads(5, affinity={0}, root=root).count == 5
    assert choose_threads(5, affinity={0}, root=root).reason == "5: as asked"
    reason = choose_threads(affinity={0, 1, 2}, root=root).reason
    assert reason == "1: 3 logical processors allowed, control group quota 1"


def test_threads_follow_the_mask_of_this_process() -> None:
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        assert choose_threads().count == 1
    finally:
        os.sched_setaffinity(0, allowed)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0-3,8", {0, 1, 2, 3, 8}), ("5", {5}), ("", set()), ("x", set()), ("1-", {1})],
)
def test_parse_list(text: str, expected: set[int]) -> None:
    assert parse_list(text) == expected


NODE = "sys/devices/system/node"
TWO_NODES = {
    f"{NODE}/online": "0-1",
    f"{NODE}/node0/cpulist": "0-3,8-11",
    f"{NODE}/node1/cpulist": "4-7,12-15",
}
# name: (files, affinity, threads, node of each)
TOPOLOGIES: dict[str, tuple[dict[str, str], set[int], int, list[int]]] = {
    "no tree": ({}, {0, 1}, 2, []),
    "one node": ({f"{NODE}/online": "0", f"{NODE}/node0/cpulist": "0-1"}, {0, 1}, 2, []),
    "two nodes": (TWO_NODES, set(range(16)), 8, [0, 0, 0, 0, 1, 1, 1, 1]),
    "an odd number of threads": (TWO_NODES, set(range(16)), 3, [0, 1, 1]),
    "one thread": (TWO_NODES, set(range(16)), 1, []),
    "a mask of one node": (TWO_NODES, {0, 1, 2, 3}, 4, []),
    "a mask of unequal parts": (TWO_NODES, {0, 1, 2, 4}, 4, [0, 0, 0, 1]),
    "a node of memory alone": (
        TWO_NODES | {f"{NODE}/online": "0-2", f"{NODE}/node2/cpulist": ""},
        set(range(16)),
        2,
        [0, 1],
    ),
    "numbers with a gap": (
        {
            f"{NODE}/online": "0,8",
            f"{NODE}/node0/cpulist": "0-1",
            f"{NODE}/node8/cpulist": "2-3",
        },
        set(range(4)),
        2,
        [0, 8],
    ),
}


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_threads_are_spread_over_nodes(tmp_path: Path, name: str) -> None:
    files, affinity, count, expected = TOPOLOGIES[name]
    nodes = find_nodes(affinity=affinity, root=tree(tmp_path, files))
    assert [node.index for node in spread(count, nodes)] == expected
    assert all(node.cpus <= affinity for node in nodes)


MEMORY_V2 = {
    "proc/self/cgroup": "0::/a/b",
    "proc/self/mountinfo": MOUNT_V2,
    "sys/fs/cgroup/a/memory.max": "1000",
    "sys/fs/cgroup/a/memory.current": "900",
    "sys/fs/cgroup/a/memory.stat": "anon 500\nfile 400\ninactive_file 250\nactive_file 50",
    "sys/fs/cgroup/a/b/memory.max": "max",
    "sys/fs/cgroup/a/b/memory.current": "600",
}
MEMORY_V1 = {
    "proc/self/cgroup": "4:memory:/",
    "proc/self/mountinfo": MOUNT_V1_MEMORY,
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "5000",
    "sys/fs/cgroup/memory/memory.usage_in_bytes": "4000",
    "sys/fs/cgroup/memory/memory.stat": "inactive_file 1\ntotal_inactive_file 7",
}


def test_memory_left(tmp_path: Path) -> None:
    assert memory_left(tree(tmp_path / "2", MEMORY_V2)) == 400
    assert memory_left(tree(tmp_path / "1", MEMORY_V1)) == 1007
    unlimited = MEMORY_V1 | {"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712"}
    assert memory_left(tree(tmp_path / "0", unlimited)) is None


def test_available_bytes_is_the_least(tmp_path: Path) -> None:
    machine = {"proc/meminfo": "MemTotal:  64 kB\nMemAvailable:   32 kB"}
    assert available_bytes(tree(tmp_path / "machine", machine)) == 32 * 1024
    assert available_bytes(tree(tmp_path / "both", machine | MEMORY_V2)) == 400
    assert available_bytes(tmp_path / "nothing") is None
    assert (available_bytes() or 0) > 2**20
