"""A GGUF file that is written piece by piece, and goes on after an interruption.

    NAME.partial   the file itself, at its full size from the start
    NAME.journal   what it is made of, and which tensors are whole on the disk (`gguf_journal`)

Who opens it says what the file is made of (`fingerprint`); a journal of something else is begun
anew, and so is a tensor whose bytes are no longer those that were written. The final name holds a
whole file or what was there before. Both stay after an interruption or on a full disk, if something
of them is whole; nothing does after an error that would come again. What tensors mean is unknown
here.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from numpy.typing import NDArray

from pyrite.errors import CapacityError, ParameterError, PyriteError
from pyrite.formats.gguf_journal import Journal, checksum_of
from pyrite.formats.gguf_writer import ALIGNMENT, TensorSpec, header_fields

SYNCED_BYTES = 64 << 20  # after so many, what was written is flushed and journalled
SYNCED_SECONDS = 2.0  # or after so long: types of few bits take minutes for so many bytes
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class PartialGguf:
    """Use with `with`; `complete` gives the file its name. Raises CapacityError, OSError.

    `finished`: tensors that are whole; `changed`: what of an earlier run was not as it was written.
    """

    def __init__(
        self,
        path: Path,
        metadata: Mapping[str, Any],
        tensors: Sequence[TensorSpec],
        fingerprint: str,
    ) -> None:
        self.path = path
        self.partial = path.with_name(path.name + ".partial")
        self.journal = Journal(path.with_name(path.name + ".journal"), fingerprint)
        self._header = b"".join(field.data for field in header_fields(metadata, tensors))
        self._offsets = offsets(tensors, len(self._header))
        self.num_bytes = self._offsets.pop("")
        self._sizes = {tensor.name: tensor.num_bytes for tensor in tensors}
        self._checksums: dict[str, int] = {}  # of what is written of tensors that are not whole
        self._pending: dict[str, int] = {}
        self._unsynced = 0
        self._synced_at = 0.0
        self.finished: set[str] = set()
        self.changed: list[str] = []

    def __enter__(self) -> PartialGguf:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._file = os.open(self.partial, flags, 0o666)
        try:
            self._lock()
        except BaseException:
            os.close(self._file)  # it is another's
            raise
        try:
            self.finished = self._resumable()
            if not self.finished:
                with self._enough_space():
                    self._begin()
        except BaseException:
            self._leave(keep=bool(self.finished))
            raise
        self._synced_at = time.monotonic()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            os.close(self._file)
            return
        if self._pending:
            with suppress(OSError):  # what is not in the journal is done again
                self._sync()
        hopeless = isinstance(error, PyriteError) and not isinstance(error, CapacityError)
        self._leave(keep=bool(self.finished) and not hopeless)

    def _leave(self, *, keep: bool) -> None:
        if not keep:
            self.partial.unlink(missing_ok=True)
            self.journal.remove()
        os.close(self._file)

    def write(self, name: str, start: int, data: NDArray[Any]) -> None:
        """Bytes of a tensor, from byte `start` of it on; its bytes come in order."""
        left = data.data.cast("B")
        self._checksums[name] = zlib.crc32(left, self._checksums.get(name, 0))
        with self._enough_space():
            offset = self._offsets[name] + start
            while left:
                written = os.pwrite(self._file, left, offset)
                left, offset = left[written:], offset + written
        self._unsynced += data.nbytes

    def finish(self, name: str) -> None:
        """All bytes of a tensor were written."""
        self._pending[name] = self._checksums.pop(name)
        self.finished.add(name)
        long_ago = time.monotonic() - self._synced_at >= SYNCED_SECONDS
        if self._unsynced >= SYNCED_BYTES or long_ago:
            with self._enough_space():
                self._sync()

    def complete(self) -> None:
        """Gives the whole file its name."""
        with self._enough_space():
            os.fsync(self._file)
        os.replace(self.partial, self.path)
        self.journal.remove()

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            limit = "a file that no other process is writing"
            raise ParameterError("OUT", str(self.path), limit) from None

    def _resumable(self) -> set[str]:
        """The tensors that an earlier run finished of this very file, and that are still whole."""
        stored = self.journal.read()
        if stored is None:
            return set()
        if os.fstat(self._file).st_size != self.num_bytes:
            self.changed.append("its size")
            return set()
        if os.pread(self._file, len(self._header), 0) != self._header:
            self.changed.append("its header")
            return set()
        known = {name: checksum for name, checksum in stored.items() if name in self._offsets}
        whole = {name: one for name, one in known.items() if one == self._checksum(name)}
        self.changed += [name for name in known if name not in whole]
        if self.changed:
            self.journal.rewrite(whole)
        return set(whole)

    def _checksum(self, name: str) -> int:
        return checksum_of(self._file, self._offsets[name], self._sizes[name])

    def _begin(self) -> None:
        self.journal.remove()
        os.ftruncate(self._file, 0)
        os.posix_fallocate(self._file, 0, self.num_bytes)
        os.pwrite(self._file, self._header, 0)
        os.fsync(self._file)
        self.journal.begin()

    def _sync(self) -> None:
        """A name is in the journal once its bytes are on the disk."""
        os.fdatasync(self._file)
        self.journal.add(self._pending)
        self._pending, self._unsynced, self._synced_at = {}, 0, time.monotonic()

    @contextmanager
    def _enough_space(self) -> Iterator[None]:
        """A full disk becomes a CapacityError; what is whole of the file stays."""
        try:
            yield
        except OSError as error:
            if error.errno not in FULL:
                raise
            free = shutil.disk_usage(self.path.parent).free
            raise CapacityError(
                f"{self.path.name} needs {-(-self.num_bytes >> 20)} MiB of disk, and "
                f"{free >> 20} MiB are free in {self.path.parent}: {error.strerror}",
                hint="free some, or write to another disk",
            ) from None


def offsets(tensors: Sequence[TensorSpec], start: int) -> dict[str, int]:
    """Where each tensor's bytes begin in the file, and under "" where the file ends."""
    found = {}
    for tensor in tensors:
        found[tensor.name] = start
        start += -(-tensor.num_bytes // ALIGNMENT) * ALIGNMENT
    return found | {"": start}
