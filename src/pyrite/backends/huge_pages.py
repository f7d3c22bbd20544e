"""Huge pages for weights: asked for, looked for, and made by a copy where a file has none.

The processor finds a small page's address in a table that is far larger than its caches when the
weights are, and one that a virtual machine walks twice: through huge pages weights are read half as
fast again (benchmarks/NOTES.md). A file system with large folios (ext4 from Linux 6.16 on, XFS)
keeps a file in them that was written a huge page at a time; others do not, and there a copy in the
process's own memory does. What the bytes mean is unknown here.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from pyrite.errors import BackendError
from pyrite.memory import available_bytes

HUGE_BYTES = 2 << 20
LEAST_BYTES = 256 << 20  # of a file that is copied: a smaller one is soon read as it is
SAMPLES = 8  # places of a mapped file that are looked at
PLACEMENTS = ("", "map", "copy")  # the value of PYRITE_WEIGHTS; "": chosen here


def ask_for_huge_pages(memory: mmap.mmap) -> None:
    """A hint, of no account to a system or a file system that has none."""
    with contextlib.suppress(OSError, AttributeError):
        memory.madvise(mmap.MADV_HUGEPAGE)


def placed(mapped: mmap.mmap, path: Path, placement: str, num_threads: int) -> mmap.mmap:
    """The map of a whole file, or a copy of it in memory of this process.

    A large file without huge pages is copied when memory holds it twice. Raises BackendError for a
    placement that means nothing, OSError when the file cannot be read.
    """
    if placement not in PLACEMENTS:
        raise BackendError(
            f"PYRITE_WEIGHTS is {placement!r}", hint="leave it empty, or set it to map or copy"
        )
    size = len(mapped)
    room = available_bytes()
    worth_it = size >= LEAST_BYTES and room is not None and room > 2 * size
    if placement == "copy" or (placement == "" and worth_it and not has_huge_pages(mapped)):
        return copied(path, size, num_threads)
    return mapped


def has_huge_pages(mapped: mmap.mmap) -> bool:
    """Whether most of a few places of a mapped file lie in huge pages. True where nothing tells."""
    whole = np.frombuffer(mapped, np.uint8)
    for place in np.linspace(0, len(whole) - 1, SAMPLES).astype(np.int64):
        whole[place].item()
    huge = huge_bytes_at(whole.ctypes.data)
    return huge is None or huge >= SAMPLES // 2 * HUGE_BYTES


def huge_bytes_at(address: int) -> int | None:
    """Bytes of the mapping at an address that are in use in huge pages; None when unknown."""
    found = False
    for line in _lines(Path("/proc/self/smaps")):
        if bounds := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            found = int(bounds[1], 16) <= address < int(bounds[2], 16)
        elif found and (count := re.match(r"FilePmdMapped:\s+(\d+) kB", line)):
            return int(count[1]) << 10
    return None


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


def _lines(path: Path) -> Iterator[str]:
    with contextlib.suppress(OSError), path.open() as lines:
        yield from lines
