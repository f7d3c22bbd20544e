"""The file that keeps packed weights between starts: a checked header, a table, then the bytes.

    magic (8) | version, table bytes (4 each) | fingerprint (32) | table (JSON) | padding | data
    | sum of each matrix (8 each)

A reader knows what has to be there, so everything before the data is compared byte by byte, and
the data by its sums: damage would otherwise give wrong answers for ever. A file whose sums were
right is sealed by its time of writing, and is not summed again until something writes to it. Data
starts at a multiple of 4096, each matrix at a multiple of 64. A file is written under a temporary
name, flushed to the disk, then renamed, so that the final name always holds a whole file. It is
written and mapped in a way that lets the system use huge pages. What the packed bytes mean is
unknown here.
"""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import struct
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pyrite._native.program import populate
from pyrite.backends.huge_pages import HUGE_BYTES, ask_for_huge_pages, placed
from pyrite.records import dataclass

Bytes = NDArray[np.uint8]

MAGIC = b"PYRPACK\n"
VERSION = 4  # of this layout of the file; grows with any change to it
HEADER = struct.Struct("<8sII32s")
ALIGNMENT = 64  # bytes, of a matrix
DATA_ALIGNMENT = 4096  # bytes, of the first one
TEMPORARY = ".partial"
SEAL_NS = 978_307_200 * 10**9  # the time of writing, since 1970, of a file whose sums were right


@dataclass(frozen=True, slots=True)
class Entry:
    """One packed matrix, or a stack of `count`; `offset` counts from the start of the data."""

    name: str
    type: str
    count: int
    rows: int  # of each
    columns: int
    offset: int
    num_bytes: int


def lay_out(matrices: Iterable[tuple[str, str, int, int, int, int]]) -> tuple[Entry, ...]:
    """Entries for (name, type, count, rows, columns, packed bytes), one after the other."""
    entries: list[Entry] = []
    offset = 0
    for name, kind, count, rows, columns, num_bytes in matrices:
        entries.append(Entry(name, kind, count, rows, columns, offset, num_bytes))
        offset += align(num_bytes, ALIGNMENT)
    return tuple(entries)


def data_bytes(entries: Sequence[Entry]) -> int:
    return entries[-1].offset + align(entries[-1].num_bytes, ALIGNMENT) if entries else 0


def sums(data: Bytes, entries: Sequence[Entry]) -> NDArray[np.uint64]:
    """Of each matrix with its padding, the sum of its words of 8 bytes. (matrices,)

    Modulo 2**64: any change of one word shows, and other damage but by a chance of 2**-64.
    """
    words = data.view(np.uint64)
    parts = [(e.offset // 8, (e.offset + align(e.num_bytes, ALIGNMENT)) // 8) for e in entries]
    return np.array([words[first:last].sum() for first, last in parts], np.uint64)


@dataclass(frozen=True, slots=True)
class Contents:
    """What a file holds: `fingerprint` is 32 bytes that name the source of the matrices."""

    fingerprint: bytes
    entries: tuple[Entry, ...]


def write_packed(path: Path, contents: Contents, slabs: Iterable[Bytes]) -> None:
    """Writes the matrices' bytes; `slabs` gives all of the data in order, with its padding.

    Raises OSError; then nothing is left behind.
    """
    head = head_of(contents)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=path.name, suffix=TEMPORARY, dir=path.parent)
    try:
        with os.fdopen(handle, "wb", buffering=0):
            fcntl.flock(handle, fcntl.LOCK_EX)  # until it is closed: see is_abandoned
            os.posix_fallocate(handle, 0, file_bytes(contents))
            _write_pieces(handle, chain([np.frombuffer(head, np.uint8)], slabs))
            _write_all(handle, _sums_of_file(handle, contents).view(np.uint8))
            os.fsync(handle)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
    _sync_folder(path.parent)


def map_packed(
    path: Path, contents: Contents, placement: str = "", num_threads: int = 1
) -> Mapping[str, Bytes] | None:
    """The matrices' bytes, read-only; None when the file is not exactly what is expected.

    Mapped, or copied by so many threads: see huge_pages.placed. Raises BackendError, and OSError
    when there is no such file, or it cannot be read.
    """
    head = head_of(contents)
    with open(path, "rb", opener=_at_once) as file:
        status = os.fstat(file.fileno())
        if status.st_size != file_bytes(contents) or file.read(len(head)) != head:
            return None
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    ask_for_huge_pages(mapped)
    mapped.madvise(mmap.MADV_WILLNEED)
    whole = np.frombuffer(placed(mapped, path, placement, num_threads), np.uint8)
    whole.flags.writeable = False
    data, kept = np.split(whole[len(head) :], [data_bytes(contents.entries)])
    is_sealed = status.st_mtime_ns == SEAL_NS
    if not is_sealed and not np.array_equal(kept.view(np.uint64), sums(data, contents.entries)):
        return None
    populate(data)
    return views(data, contents.entries)


def _at_once(path: str, flags: int) -> int:
    """Opens without waiting for a writer, should a pipe lie there."""
    return os.open(path, flags | os.O_NONBLOCK)


def seal(path: Path) -> None:
    """Marks a mapped file as right, and as used now (its time of access). Raises OSError."""
    os.utime(path, ns=(time.time_ns(), SEAL_NS))


def is_abandoned(path: Path) -> bool:
    """Whether nobody writes this file any more. Raises OSError when it cannot be read."""
    with open(path, "rb", opener=_at_once) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def views(data: Bytes, entries: Sequence[Entry]) -> Mapping[str, Bytes]:
    """Each matrix's part of the data."""
    return {e.name: data[e.offset : e.offset + e.num_bytes] for e in entries}


def head_of(contents: Contents) -> bytes:
    """Header, table and padding: everything before the data."""
    rows = [asdict(entry) for entry in contents.entries]
    table = json.dumps(rows, separators=(",", ":")).encode()
    header = HEADER.pack(MAGIC, VERSION, len(table), contents.fingerprint)
    return (header + table).ljust(align(len(header) + len(table), DATA_ALIGNMENT), b"\0")


def file_bytes(contents: Contents) -> int:
    return len(head_of(contents)) + data_bytes(contents.entries) + 8 * len(contents.entries)


def align(size: int, to: int) -> int:
    return -(-size // to) * to


def _sums_of_file(handle: int, contents: Contents) -> NDArray[np.uint64]:
    start, size = len(head_of(contents)), data_bytes(contents.entries)
    with mmap.mmap(handle, start + size, access=mmap.ACCESS_READ) as mapped:
        data = np.frombuffer(mapped, np.uint8)[start:]
        found = sums(data, contents.entries)
        del data  # the map can only be closed when nothing looks at it
    return found


def _write_pieces(handle: int, parts: Iterable[Bytes]) -> None:
    """All parts, one after the other, in writes that start at multiples of `HUGE_BYTES`.

    Then the system's cache can hold each piece in one huge page.
    """
    piece = np.empty(HUGE_BYTES, np.uint8)
    filled = 0
    for part in parts:
        left = part
        while len(left):
            taken = min(len(left), HUGE_BYTES - filled)
            piece[filled : filled + taken] = left[:taken]
            filled, left = filled + taken, left[taken:]
            if filled == HUGE_BYTES:
                _write_all(handle, piece)
                filled = 0
    _write_all(handle, piece[:filled])


def _write_all(handle: int, slab: Bytes) -> None:
    left = slab.data
    while left:
        left = left[os.write(handle, left) :]


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
