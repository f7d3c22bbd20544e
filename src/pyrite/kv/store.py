"""Pages of keys and values on disk, found again by the key of their content after a restart.

One file a page, named by its key (`kv.keys`: all tokens up to its end, who may find it, and what
computed it):

    magic (8) | version, tokens (4 each), page bytes (8) | key (32) | digest (16)
    | token ids (4 each) | page

The digest is of everything else in the file and is checked at each read, and so are key and tokens:
whatever is damaged is a miss, and removed. A file is written under a temporary name and renamed, so
a process that dies leaves none in part; after a power cut one may be in part, and its digest tells.

Processes share a folder without a lock: a name stands for one content, whoever writes it, and what
another one removes is a miss. Files that were not used for longest go when the limit is reached.
The folder is its owner's alone, for a page tells what was said. What a page means is unknown here.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import logging
import mmap
import os
import shutil
import stat
import struct
import tempfile
import time
from array import array
from collections.abc import Sequence
from pathlib import Path

from pyrite.records import dataclass

MAGIC = b"PYRPAGE\n"
VERSION = 1  # of this layout of the file; grows with any change to it
HEADER = struct.Struct("<8sIIQ32s16s")
DIGEST_BYTES = 16
SUFFIX = ".page"
TEMPORARY = ".partial"
ABANDONED_SECONDS = 600  # after which a temporary file is of nobody
USED_SECONDS = 3600  # a use is noted when the last one is older
MOST_FILES = 1 << 14
TRIMMED_SHARE = 16  # of the limit: what is free again after a trim, and written until the next one
LEAST_FREE_BYTES = 256 << 20  # of the disk, which is left to others
STEP_NS = 10**9  # by which a page is less recent than the one before it: it goes first

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Name:
    """Of a page: its key, the ids of its tokens, and how many pages are before it."""

    key: bytes
    token_ids: Sequence[int]
    depth: int


class PageStore:
    """At most `limit_bytes` of files in `folder`, which is made when the first page is put.

    A sixteenth more for each further process that writes. Threads may share one.
    """

    def __init__(self, folder: Path, limit_bytes: int) -> None:
        self.folder = folder
        self.limit_bytes = limit_bytes
        self._left_bytes = 0  # to be written before the next trim

    def has(self, key: bytes) -> bool:
        """Whether there is a file of that name; `get` tells whether it is any good."""
        return self._path(key).exists()

    def get(self, name: Name, page_bytes: int) -> memoryview | None:
        """The page, mapped read-only; None when there is none, or it is not what it should be."""
        path = self._path(name.key)
        try:
            mapped, modified = _mapped(path)
        except OSError as error:
            if error.errno != errno.ENOENT:
                log.debug("a kept page cannot be read: %s: %s", path, error)
            return None
        page = _page_of(memoryview(mapped), name, page_bytes)
        if page is None:
            log.debug("a kept page is damaged, and removed: %s", path)
            _remove(path)
        elif time.time() - modified > USED_SECONDS:
            with contextlib.suppress(OSError):  # a read-only disk is as good
                _note_use(path, name.depth)
        return page

    def note_use(self, key: bytes, depth: int) -> bool:
        """The page is used, from memory: it goes later. False when there is no file of it."""
        try:
            _note_use(self._path(key), depth)
        except OSError:  # it is gone, or the disk is read-only
            return self.has(key)
        return True

    def put(self, name: Name, page: memoryview) -> None:
        """Raises OSError; then nothing is left behind."""
        make_private(self.folder)
        content = _content(name, page)
        size = sum(len(part) for part in content)
        if size > self.limit_bytes:
            raise OSError(
                errno.EFBIG, f"a page of {size} bytes, and all may take", str(self.folder)
            )
        if self._left_bytes < size:
            self.trim(size)
        self._left_bytes -= size
        if shutil.disk_usage(self.folder).free < size + LEAST_FREE_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.folder))
        _write(self._path(name.key), content, name.depth)

    def trim(self, needed: int = 0) -> None:
        """Removes what was not used for longest, so that a share of the limit is free."""
        share = max(needed, self.limit_bytes // TRIMMED_SHARE)
        files = sorted(self._files(), key=lambda status: status[1])
        excess = sum(size for size, _, _ in files) - max(0, self.limit_bytes - share)
        for number, (size, _, path) in enumerate(files):
            if excess <= 0 and len(files) - number <= MOST_FILES:
                break
            _remove(path)
            excess -= size
        self._left_bytes = share

    def _files(self) -> list[tuple[int, int, Path]]:
        """(bytes, time of use, path) of each page; what an interrupted write left is removed."""
        found = []
        with os.scandir(self.folder) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    status = entry.stat(follow_symlinks=False)
                    if entry.name.endswith(SUFFIX):
                        found.append((status.st_size, status.st_mtime_ns, Path(entry.path)))
                    elif time.time() - status.st_mtime > ABANDONED_SECONDS:
                        _remove(Path(entry.path))
        return found

    def _path(self, key: bytes) -> Path:
        return self.folder / (key.hex() + SUFFIX)


def make_private(folder: Path) -> None:
    """Makes the folder, for its owner alone. Raises OSError where it is another's."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.lstat()
    if status.st_uid != os.geteuid():
        raise OSError(errno.EPERM, "belongs to another user", str(folder))
    if status.st_mode & 0o077:
        folder.chmod(0o700)


def _mapped(path: Path) -> tuple[mmap.mmap, float]:
    """The file, and when it was used. Raises OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "is no file", str(path))
        if status.st_uid != os.geteuid():
            raise OSError(errno.EPERM, "belongs to another user", str(path))
        if status.st_size < HEADER.size:
            return mmap.mmap(-1, HEADER.size), status.st_mtime  # an empty file has no map
        return mmap.mmap(handle, status.st_size, access=mmap.ACCESS_READ), status.st_mtime
    finally:
        os.close(handle)


def _page_of(data: memoryview, name: Name, page_bytes: int) -> memoryview | None:
    tokens = _token_bytes(name)
    start = HEADER.size + len(tokens)
    if len(data) != start + page_bytes:
        return None
    page = data[start:]
    head = _head(name, page)
    whole = data[: len(head)] == head and data[HEADER.size : start] == tokens
    return page if whole else None


def _content(name: Name, page: memoryview) -> tuple[bytes, bytes, memoryview]:
    return _head(name, page), _token_bytes(name), page


def _head(name: Name, page: memoryview) -> bytes:
    """The header that belongs to such a page: equal only when nothing at all is different."""
    fields = (MAGIC, VERSION, len(name.token_ids), len(page), name.key)
    digest = hashlib.blake2b(HEADER.pack(*fields, b""), digest_size=DIGEST_BYTES)
    digest.update(_token_bytes(name))
    digest.update(page)
    return HEADER.pack(*fields, digest.digest())


def _token_bytes(name: Name) -> bytes:
    return array("i", name.token_ids).tobytes()


def _write(path: Path, content: Sequence[bytes | memoryview], depth: int) -> None:
    handle, temporary = tempfile.mkstemp(prefix=path.stem[:16], suffix=TEMPORARY, dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            for part in content:
                file.write(part)
        _note_use(Path(temporary), depth)
        os.replace(temporary, path)
    except BaseException:
        _remove(Path(temporary))
        raise


def _note_use(path: Path, depth: int) -> None:
    now = time.time_ns()
    os.utime(path, ns=(now, now - depth * STEP_NS))


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):  # another process was first, or the disk is read-only
        path.unlink()
