"""A GGUF file that is written piece by piece, and goes on after an interruption.

    NAME.partial   the file itself, at its full size from the start
    NAME.journal   JSON: what it is made of, then a line for each tensor that is whole on the disk

Who opens it says what the file is made of (`fingerprint`); a journal of something else is begun
anew. The final name holds a whole file or what was there before. Both stay after an interruption or
on a full disk, if something of them is whole; nothing does after an error that would come again.
What tensors mean is unknown here.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from numpy.typing import NDArray

from pyrite.errors import CapacityError, ParameterError, PyriteError
from pyrite.formats.gguf_writer import ALIGNMENT, TensorSpec, header_fields

SYNCED_BYTES = 64 << 20  # after so many, what was written is flushed and journalled
SYNCED_SECONDS = 2.0  # or after so long: types of few bits take minutes for so many bytes
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class PartialGguf:
    """Use with `with`; `complete` gives the file its name. Raises CapacityError, OSError."""

    def __init__(
        self,
        path: Path,
        metadata: Mapping[str, Any],
        tensors: Sequence[TensorSpec],
        fingerprint: str,
    ) -> None:
        self.path = path
        self.partial = path.with_name(path.name + ".partial")
        self.journal = path.with_name(path.name + ".journal")
        self._header = b"".join(field.data for field in header_fields(metadata, tensors))
        self._offsets = offsets(tensors, len(self._header))
        self.num_bytes = self._offsets.pop("")
        self._fingerprint = fingerprint
        self._pending: list[str] = []
        self._unsynced = 0
        self._synced_at = 0.0
        self.finished: set[str] = set()

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
            self.journal.unlink(missing_ok=True)
        os.close(self._file)

    def write(self, name: str, start: int, data: NDArray[Any]) -> None:
        """Bytes of a tensor, from byte `start` of it on."""
        with self._enough_space():
            left = data.data.cast("B")
            offset = self._offsets[name] + start
            while left:
                written = os.pwrite(self._file, left, offset)
                left, offset = left[written:], offset + written
        self._unsynced += data.nbytes

    def finish(self, name: str) -> None:
        """All bytes of a tensor were written."""
        self._pending.append(name)
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
        self.journal.unlink(missing_ok=True)

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            limit = "a file that no other process is writing"
            raise ParameterError("OUT", str(self.path), limit) from None

    def _resumable(self) -> set[str]:
        """The tensors that an earlier run finished of this very file."""
        if os.fstat(self._file).st_size != self.num_bytes or not self.journal.exists():
            return set()
        lines = self.journal.read_text().splitlines()
        if not lines or lines[0] != json.dumps(self._fingerprint):
            return set()
        if os.pread(self._file, len(self._header), 0) != self._header:
            return set()
        names = {json.loads(line) for line in lines[1:] if line.endswith('"')}
        return names & self._offsets.keys()

    def _begin(self) -> None:
        self.journal.unlink(missing_ok=True)
        os.ftruncate(self._file, 0)
        os.posix_fallocate(self._file, 0, self.num_bytes)
        os.pwrite(self._file, self._header, 0)
        os.fsync(self._file)
        self.journal.write_text(json.dumps(self._fingerprint) + "\n")

    def _sync(self) -> None:
        """A name is in the journal once its bytes are on the disk."""
        os.fdatasync(self._file)
        with self.journal.open("a") as journal:
            journal.write("".join(json.dumps(name) + "\n" for name in self._pending))
        self._pending, self._unsynced, self._synced_at = [], 0, time.monotonic()

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
