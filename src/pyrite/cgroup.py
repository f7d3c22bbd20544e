"""Limits that control groups, version 1 or 2, put on this process: processors and memory.

Formats: proc(5), cgroups(7), and the kernel's admin-guide/cgroup-v1 and -v2. `root` is "/" but in
tests. A file that is absent or unreadable sets no limit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from pyrite.records import dataclass

NO_LIMIT = 1 << 60  # version 1 writes a number near 2^63 where there is none


@dataclass(frozen=True, slots=True)
class Group:
    """A directory that governs this process; `version` says which names its files have."""

    version: int
    path: Path


def groups(controller: str, root: Path) -> list[Group]:
    """The group of this process for "cpu" or "memory" and all its ancestors, innermost first."""
    found: list[Group] = []
    for version, mount, path in _mounts(controller, root):
        for directory in (path, *path.parents):
            found += [Group(version, directory)] if directory.is_dir() else []
            if directory == mount:
                break
    return found


def cpu_quota(root: Path) -> float | None:
    """Processors that the groups allow, the least of the nested quotas; None without a quota."""
    quotas = [quota for group in groups("cpu", root) if (quota := _quota(group)) is not None]
    return min(quotas, default=None)


def memory_left(root: Path) -> int | None:
    """Bytes that may still be allocated, the least of the nested groups; None without a limit."""
    left = [free for group in groups("memory", root) if (free := _memory_left(group)) is not None]
    return min(left, default=None)


def read_text(path: Path) -> str:
    """The file's text, or "" when it cannot be read."""
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""


def _quota(group: Group) -> float | None:
    if group.version == 2:
        words = read_text(group.path / "cpu.max").split()
    else:
        files = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        words = [read_text(group.path / name).strip() for name in files]
    if len(words) != 2 or not all(word.isdecimal() for word in words):
        return None  # "max", or -1
    quota, period = map(int, words)
    return quota / period if quota > 0 and period > 0 else None


def _memory_left(group: Group) -> int | None:
    """The limit less what is used; pages of files are given up on demand, so they count as free."""
    new = group.version == 2
    limit = read_text(group.path / ("memory.max" if new else "memory.limit_in_bytes")).strip()
    used = read_text(group.path / ("memory.current" if new else "memory.usage_in_bytes")).strip()
    if not limit.isdecimal() or not used.isdecimal() or int(limit) >= NO_LIMIT:
        return None
    names = r"(?:in)?active_file" if new else r"total_(?:in)?active_file"
    statistics = read_text(group.path / "memory.stat")
    files = sum(int(count) for count in re.findall(rf"^{names} (\d+)$", statistics, re.MULTILINE))
    return max(0, int(limit) - max(0, int(used) - files))


def _mounts(controller: str, root: Path) -> Iterator[tuple[int, Path, Path]]:
    """(version, mount point, this process's directory) of each hierarchy with the controller."""
    own = _memberships(root)
    for line in read_text(root / "proc/self/mountinfo").splitlines():
        fields, _, tail = line.partition(" - ")
        kind, _, options = tail.partition(" ")
        version = {"cgroup2": 2, "cgroup": 1}.get(kind)
        names = options.split()[-1].split(",") if options else []
        if version is None or (version == 1 and controller not in names):
            continue
        _, _, _, shown, point = fields.split(" ")[:5]
        mount = root / point.lstrip("/")
        group = own.get(controller if version == 1 else "")
        if group is not None:
            yield version, mount, mount / _below(group, shown)


def _memberships(root: Path) -> dict[str, str]:
    """Controller -> path of the group, from /proc/self/cgroup; version 2 has the name ""."""
    own = {}
    for line in read_text(root / "proc/self/cgroup").splitlines():
        _, names, path = line.split(":", 2)
        own.update(dict.fromkeys(names.split(","), path))
    return own


def _below(group: str, shown: str) -> str:
    """The group's path below the mount, which shows the hierarchy from `shown` on.

    In a container without a namespace of groups the mount shows just the container's own group; a
    group that lies outside what is mounted is governed by what is mounted.
    """
    try:
        below = PurePosixPath(group).relative_to(shown)
    except ValueError:
        return ""
    return "" if ".." in below.parts else str(below)
