"""Huge pages for weights: asked of the file system, or made by a copy where a user wants one.

The processor finds a small page's address in a table that is far larger than its caches when the
weights are, and one that a virtual machine walks twice. A file system with large folios (ext4 from
Linux 6.16 on, XFS) keeps a file in huge pages that was written a huge page at a time. On others a
copy in the process's own memory decodes some tenth faster, but doubles the time of a start, and two
processes no longer share their weights (benchmarks/NOTES.md): so it is made on request alone. What
the bytes mean is unknown here.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pyrite.errors import BackendError

HUGE_BYTES = 2 << 20
PLACEMENTS = ("", "map", "copy")  # the value of PYRITE_WEIGHTS; "" is map


def ask_for_huge_pages(memory: mmap.mmap) -> None:
    """A hint, of no account to a system or a file system that has none."""
    with contextlib.suppress(OSError, AttributeError):
        memory.madvise(mmap.MADV_HUGEPAGE)


def placed(mapped: mmap.mmap, path: Path, placement: str, num_threads: int) -> mmap.mmap:
    """The map of a whole file, or a copy of it in memory of this process.

    Raises BackendError for a placement that means nothing, OSError when the file cannot be read.
    """
    if placement not in PLACEMENTS:
        raise BackendError(
            f"PYRITE_WEIGHTS is {placement!r}", hint="leave it empty, or set it to map or copy"
        )
    return copied(path, len(mapped), num_threads) if placement == "copy" else mapped


def copied(path: Path, size: int, num_threads: int) -> mmap.mmap:
    """A file's bytes in memory that nobody else has. Raises OSError."""
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE)
    ask_for_huge_pages(memory)
    with path.open("rb") as file, ThreadPoolExecutor(num_threads) as pool:
        starts = range(0, size, HUGE_BYTES)
        for _ in pool.map(lambda start: _read_piece(file.fileno(), memory, start), starts):
            pass
    return memory


def _read_piece(handle: int, memory: mmap.mmap, start: int) -> None:
    with memoryview(memory)[start : start + HUGE_BYTES] as piece:
        done = 0
        while done < len(piece):
            count = os.preadv(handle, [piece[done:]], start + done)
            if count == 0:
                raise OSError(f"the file ends at byte {start + done}")
            done += count
