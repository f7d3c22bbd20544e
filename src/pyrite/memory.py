"""How much memory this process may still take: the machine's, or less by its control groups and by
the limits on its address space (`ulimit -v`, `ulimit -d`)."""

from __future__ import annotations

import errno
import os
import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyrite.cgroup import memory_left, read_text
from pyrite.errors import CapacityError

# Of an address space, beside what is asked for: stacks and heaps of threads, imports to come.
SPARE_BYTES = 160 << 20
LIMITS = ((resource.RLIMIT_AS, 0), (resource.RLIMIT_DATA, 5))  # and its field in /proc/self/statm


def available_bytes(root: Path = Path("/"), *, reserved: int = 0) -> int | None:
    """Bytes that can be allocated without swapping; None where nothing tells. `root`: for tests.

    `reserved`: bytes that will be mapped and hardly used, which count in an address space alone.
    """
    match = re.search(r"^MemAvailable:\s+(\d+) kB$", read_text(root / "proc/meminfo"), re.MULTILINE)
    machine = int(match[1]) * 1024 if match else None
    space = address_space_left(root)
    mappable = None if space is None else max(0, space - reserved - SPARE_BYTES)
    known = [limit for limit in (machine, memory_left(root), mappable) if limit is not None]
    return min(known, default=None)


@contextmanager
def memory_errors(what: str) -> Iterator[None]:
    """What is said where there is no memory left becomes a CapacityError."""
    try:
        yield
    except (MemoryError, OSError) as error:
        if isinstance(error, OSError) and error.errno != errno.ENOMEM:
            raise
        left = available_bytes()
        found = "" if left is None else f"; {left >> 20} MiB are available"
        raise CapacityError(
            f"there is not enough memory to {what}{found}",
            hint="free some, ask for a smaller context, or raise the limits on this process",
        ) from None


def address_space_left(root: Path = Path("/")) -> int | None:
    """Bytes that may still be mapped; None without a limit."""
    counts = [int(word) for word in read_text(root / "proc/self/statm").split()]  # of pages
    left = []
    for limit, field in LIMITS:
        most, _ = resource.getrlimit(limit)
        if most != resource.RLIM_INFINITY and field < len(counts):
            left.append(max(0, most - counts[field] * os.sysconf("SC_PAGESIZE")))
    return min(left, default=None)
