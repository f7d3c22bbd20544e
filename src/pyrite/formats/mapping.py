"""A file as bytes in memory, mapped and read-only. What the bytes mean is unknown here."""

from __future__ import annotations

import errno
import mmap
import stat
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pyrite.errors import CapacityError, FormatError, ModelNotFoundError


def forget(data: NDArray[np.uint8]) -> None:
    """Lets the system have the memory of a mapped part back: it is read again when touched.

    Does nothing with what is no read-only map of a file, where the bytes would be lost.
    """
    mapped = _read_only_map(data)
    if mapped is None or len(data) == 0:
        return
    base = np.frombuffer(mapped, np.uint8).__array_interface__["data"][0]
    first = data.__array_interface__["data"][0] - base
    start = -(-first // mmap.PAGESIZE) * mmap.PAGESIZE
    end = (first + len(data)) // mmap.PAGESIZE * mmap.PAGESIZE
    if end > start:
        mapped.madvise(mmap.MADV_DONTNEED, start, end - start)


def _read_only_map(data: NDArray[np.uint8]) -> mmap.mmap | None:
    base: object = data
    while isinstance(base, np.ndarray | memoryview):
        base = base.base if isinstance(base, np.ndarray) else base.obj
    if not isinstance(base, mmap.mmap):
        return None
    return base if memoryview(base).readonly else None


def map_file(path: Path) -> NDArray[np.uint8]:
    """The whole file, read-only; pages are read when touched. (bytes,)

    The view keeps the mapping alive. Raises ModelNotFoundError when there is no such file,
    FormatError when it cannot be read or holds nothing, CapacityError when there is no room for it.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # to open a pipe would wait for its writer
            raise FormatError(f"{path}: not a regular file", hint="give a file on a disk")
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        raise ModelNotFoundError(f"there is no file {path}") from None
    except ValueError:
        raise FormatError(f"{path.name}: the file is empty", hint="fetch it again") from None
    except OSError as error:
        if error.errno == errno.ENOMEM:
            size = path.stat().st_size
            raise CapacityError(
                f"{path} cannot be mapped: no address space is left for {size} bytes",
                hint="raise the limit on address space (ulimit -v)",
            ) from None
        raise FormatError(f"{path}: cannot be read: {error.strerror or error}") from None
    return np.frombuffer(mapped, np.uint8)
