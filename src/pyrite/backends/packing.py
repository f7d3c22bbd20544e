"""From the tensors of a file to packed weights: mapped from the cache, or packed and kept there.

The cache holds one file a model, `packed/<fingerprint>.bin`. The fingerprint is of names, types,
shapes, samples of the content and the time a file was last written, not of a path: a model that was
moved or linked keeps its entry, and one that was edited where no sample lies does not. Entries that
were not used for `KEPT_DAYS` go when a new one is written, and so do the least recently used ones
past `KEPT_BYTES`. A cache that cannot be written costs packing at each start and memory of this
process alone; a warning says so.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import logging
import mmap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pyrite._native import kernels
from pyrite.backends.base import Progress
from pyrite.backends.huge_pages import ask_for_huge_pages
from pyrite.backends.packed_file import (
    ALIGNMENT,
    TEMPORARY,
    Contents,
    align,
    data_bytes,
    is_abandoned,
    lay_out,
    map_packed,
    seal,
    views,
    write_packed,
)
from pyrite.errors import BackendError
from pyrite.formats.checkpoint import Tensor
from pyrite.formats.finite import require_finite
from pyrite.quant.not_finite import find_not_finite
from pyrite.records import dataclass

Bytes = NDArray[np.uint8]
Slabs = Callable[[], Iterator[Bytes]]  # begins to pack

log = logging.getLogger(__name__)

PANEL_ROWS = 16
SLAB_BYTES = 4 << 20  # packed at a time, by all threads together
SAMPLE_BYTES = 256  # of each tensor's beginning and end that are part of the fingerprint
KEPT_DAYS = 30
KEPT_BYTES = 64 << 30


@dataclass(frozen=True, slots=True)
class PackedMatrix:
    """Panels of 16 rows, all of one length; the layout is the kernels'.

    A stack is `count` such matrices, one after the other, each in panels of its own.
    """

    type: str
    count: int
    rows: int  # of each
    columns: int
    data: Bytes  # aligned to 64 bytes


def packed_weights(
    tensors: Sequence[Tensor],
    cache: Path | None,
    num_threads: int,
    files: Sequence[Path] = (),
    placement: str = "",
    progress: Progress | None = None,
) -> Mapping[str, PackedMatrix]:
    """Matrices by name, out of `files`. `cache` is Pyrite's folder, None for memory only.

    Raises TensorError for a value that is not finite, of what is packed: what is kept has none.
    `placement` of kept ones: see huge_pages.placed. `progress` hears of what is packed.
    """
    contents = contents_of(tensors, files)
    slabs = partial(_told, tensors, contents, num_threads, progress)
    data = None
    if cache is not None:
        path = kept_path(contents, cache)
        data = _from_cache(tensors, contents, path, slabs, placement, num_threads)
    if data is None:
        data = _in_memory(contents, slabs)
    return {t.name: PackedMatrix(t.type, *_stack(t), data[t.name]) for t in tensors}


def packed_bytes(tensors: Sequence[Tensor]) -> int:
    """Of all of them together, in a file or in memory."""
    return sum(align(_packed_bytes(tensor), ALIGNMENT) for tensor in tensors)


def kept_path(contents: Contents, cache: Path) -> Path:
    """Where the packed matrices are kept, or would be."""
    return cache / "packed" / f"{contents.fingerprint.hex()[:32]}.bin"


def contents_of(tensors: Sequence[Tensor], files: Sequence[Path] = ()) -> Contents:
    entries = lay_out((t.name, t.type, *_stack(t), _packed_bytes(t)) for t in tensors)
    return Contents(fingerprint(tensors, files), entries)


def fingerprint(tensors: Sequence[Tensor], files: Sequence[Path] = ()) -> bytes:
    """32 bytes that change with any name, type, shape, order, with sampled content, and with the
    times of writing and the sizes of `files`."""
    digest = hashlib.blake2b(digest_size=32)
    for status in (path.stat() for path in files):
        digest.update(repr((status.st_size, status.st_mtime_ns)).encode())
    for tensor in tensors:
        told = (tensor.name, tensor.type, tensor.shape, len(tensor.data), tensor.recipe)
        digest.update(repr(told).encode())
        digest.update(tensor.data[:SAMPLE_BYTES].tobytes())
        digest.update(tensor.data[-SAMPLE_BYTES:].tobytes())
    drop_pages([tensor.data for tensor in tensors])
    return digest.digest()


def _from_cache(
    tensors: Sequence[Tensor],
    contents: Contents,
    path: Path,
    slabs: Slabs,
    placement: str,
    num_threads: int,
) -> Mapping[str, Bytes] | None:
    read = partial(map_packed, path, contents, placement, num_threads)
    try:
        data = _checked(path, tensors, read)
        if data is None:
            write_packed(path, contents, slabs())
            clean(path.parent, keep=path)
            data = _checked(path, tensors, read)
    except OSError as error:
        if error.errno == errno.ENOMEM:  # there is less in memory alone
            raise
        log.warning("packed weights are not kept: %s: %s", path.parent, error.strerror or error)
        return None
    assert data is not None, path
    return data


def _checked(
    path: Path, tensors: Sequence[Tensor], read: Callable[[], Mapping[str, Bytes] | None]
) -> Mapping[str, Bytes] | None:
    """The kept matrices; None when there are none, or they are not what packing would give now."""
    if not path.exists():
        return None
    data = read()
    if data is None or not all(_same_start(t, data[t.name]) for t in _first_of_types(tensors)):
        log.warning("packed weights do not match the model and are made anew: %s", path)
        return None
    with contextlib.suppress(OSError):  # a cache on a read-only disk is as good
        seal(path)
    return data


def _first_of_types(tensors: Sequence[Tensor]) -> Sequence[Tensor]:
    return tuple({tensor.type: tensor for tensor in reversed(tensors)}.values())


def _same_start(tensor: Tensor, data: Bytes) -> bool:
    """Whether the first panel is what packing gives: a layout that changed is noticed here."""
    panel = np.empty(_panel_bytes(tensor), np.uint8)
    _pack(tensor, 0, 1, panel)
    return bool(np.array_equal(panel, data[: len(panel)]))


def _in_memory(contents: Contents, slabs: Slabs) -> Mapping[str, Bytes]:
    memory = mmap.mmap(-1, max(1, data_bytes(contents.entries)), flags=mmap.MAP_PRIVATE)
    ask_for_huge_pages(memory)
    data = np.frombuffer(memory, np.uint8)
    offset = 0
    for slab in slabs():
        data[offset : offset + len(slab)] = slab
        offset += len(slab)
    return views(data, contents.entries)


def _told(
    tensors: Sequence[Tensor], contents: Contents, num_threads: int, progress: Progress | None
) -> Iterator[Bytes]:
    """The slabs; `progress` hears of each once it is taken."""
    done, total = 0, data_bytes(contents.entries)
    for slab in _slabs(tensors, num_threads):
        yield slab
        done += len(slab)
        if progress is not None:
            progress(done, total)


def _slabs(tensors: Sequence[Tensor], num_threads: int) -> Iterator[Bytes]:
    """All packed data in order, some panels at a time; a slab is overwritten by the next one."""
    largest = max((_panel_bytes(tensor) for tensor in tensors), default=0)
    buffer = np.empty(max(SLAB_BYTES, largest) + ALIGNMENT, np.uint8)
    with ThreadPoolExecutor(num_threads) as pool:
        for tensor in tensors:
            yield from _tensor_slabs(tensor, buffer, pool, num_threads)
            drop_pages([tensor.data])


def _tensor_slabs(
    tensor: Tensor, buffer: Bytes, pool: ThreadPoolExecutor, num_threads: int
) -> Iterator[Bytes]:
    panel_bytes, panels = _panel_bytes(tensor), _panels(tensor)
    step = max(1, SLAB_BYTES // panel_bytes)
    for first in range(0, panels, step):
        count = min(step, panels - first)
        share = -(-count // num_threads)
        jobs = [
            _submit(pool, tensor, first + at, min(share, count - at), buffer[at * panel_bytes :])
            for at in range(0, count, share)
        ]
        for job in jobs:
            job.result()
        size = count * panel_bytes
        padded = size if first + count < panels else size + _padding(tensor)
        buffer[size:padded] = 0
        yield buffer[:padded]


def _submit(
    pool: ThreadPoolExecutor, tensor: Tensor, first_panel: int, num_panels: int, out: Bytes
) -> Future[None]:
    try:
        return pool.submit(_pack, tensor, first_panel, num_panels, out)
    except RuntimeError as error:
        raise BackendError(
            f"a thread to pack weights with could not be started: {error}",
            hint="ask for fewer threads, or raise the limit on processes (ulimit -u, pids.max)",
        ) from error


def _pack(tensor: Tensor, first_panel: int, num_panels: int, out: Bytes) -> None:
    """Panels are counted through a stack. `out` may be longer than what is packed."""
    each = _panels(tensor) // _stack(tensor)[0]
    end, panel_bytes = first_panel + num_panels, _panel_bytes(tensor)
    while first_panel < end:
        matrix, panel = divmod(first_panel, each)
        count = min(each - panel, end - first_panel)
        _pack_matrix(tensor, matrix, panel, count, out[: count * panel_bytes])
        first_panel, out = first_panel + count, out[count * panel_bytes :]


def _pack_matrix(
    tensor: Tensor, matrix: int, first_panel: int, num_panels: int, out: Bytes
) -> None:
    _, rows, columns = _stack(tensor)
    first = first_panel * PANEL_ROWS
    count = min(num_panels * PANEL_ROWS, rows - first)
    data = tensor.read(matrix * rows + first, count)
    if find_not_finite(data, tensor.type, columns):
        require_finite(tensor)
    kernels.pack_panels(tensor.type, count, columns, data, 0, num_panels, out)


def _stack(tensor: Tensor) -> tuple[int, int, int]:
    """Matrices, and the rows and columns of each."""
    *stack, rows, columns = tensor.shape
    count = stack[0] if stack else 1
    assert len(stack) <= 1, (tensor.name, tensor.shape)
    return count, rows, columns


def _panels(tensor: Tensor) -> int:
    count, rows, _ = _stack(tensor)
    return count * -(-rows // PANEL_ROWS)


def _panel_bytes(tensor: Tensor) -> int:
    return kernels.packed_panel_bytes(tensor.type, tensor.shape[-1])


def _packed_bytes(tensor: Tensor) -> int:
    return _panels(tensor) * _panel_bytes(tensor)


def _padding(tensor: Tensor) -> int:
    return align(_packed_bytes(tensor), ALIGNMENT) - _packed_bytes(tensor)


def drop_pages(parts: Sequence[Bytes]) -> None:
    """Takes the pages of mapped files, from the first of these parts to the last, out of this
    process; they come back from the file when touched.

    Leaves alone what is no read-only map of a file: there the bytes would be lost.
    """
    spans: dict[int, tuple[mmap.mmap, int, int]] = {}  # of each map: the bytes from .. to
    for data in parts:
        mapped = _read_only_map(data)
        if mapped is not None:
            start = _address(data) - _address(np.frombuffer(mapped, np.uint8))
            _, first, last = spans.get(id(mapped), (mapped, start, start))
            spans[id(mapped)] = (mapped, min(first, start), max(last, start + len(data)))
    for mapped, first, last in spans.values():
        first, last = align(first, mmap.PAGESIZE), last // mmap.PAGESIZE * mmap.PAGESIZE
        if last > first:
            mapped.madvise(mmap.MADV_DONTNEED, first, last - first)


def _address(data: Bytes) -> int:
    address: int = data.__array_interface__["data"][0]
    return address


def _read_only_map(data: Bytes) -> mmap.mmap | None:
    base: object = data
    while isinstance(base, np.ndarray | memoryview):
        base = base.base if isinstance(base, np.ndarray) else base.obj
    if not isinstance(base, mmap.mmap):
        return None
    return base if memoryview(base).readonly else None


def clean(folder: Path, keep: Path) -> None:
    """Removes entries that are old or too many, and files that an interrupted write left."""
    now = time.time()
    total = 0
    found = sorted(folder.glob("*.bin*"), key=lambda path: path.stat().st_atime, reverse=True)
    for path in found:
        age_days = (now - path.stat().st_atime) / 86400
        total += path.stat().st_size
        partial = path.name.endswith(TEMPORARY) and is_abandoned(path)
        if path != keep and (partial or age_days > KEPT_DAYS or total > KEPT_BYTES):
            path.unlink(missing_ok=True)
