"""A model's weights in fewer bits for whoever loads it so: a GGUF file in the cache.

Made the first time, and found the next by what it was made of: the recipe, and the names, sizes
and times of writing of the model's files. What the model has quantized itself stays as it is. Files
that were not used for `KEPT_DAYS` go when a new one is made.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from pyrite.conversion import FLOATS, Conversion, convert, find_recipe, plan_conversion
from pyrite.cores import choose_threads
from pyrite.errors import ParameterError
from pyrite.export import as_gguf_file
from pyrite.formats.checkpoint import Checkpoint, open_checkpoint
from pyrite.models.registry import arranged, as_gguf
from pyrite.quant.quantize import VERSION
from pyrite.quant.recipes import RECIPES, Recipe

Progress = Callable[[int, int], None]  # bytes done, of bytes

KEPT_DAYS = 30
DIGITS = 32  # of a file's name


def open_quantized(
    path: Path, name: str, cache: Path, threads: int | None = None, progress: Progress | None = None
) -> Checkpoint:
    """As `open_model`, with weights from the cache; all else is the model's own, for a folder may
    tell more than a GGUF file. Raises what `quantized_file` and `open_model` do.
    """
    file = quantized_file(path, name, cache, threads, progress)
    model = as_gguf(open_checkpoint(path))
    if file != path:
        stored = open_checkpoint(file)
        size = stored.num_bytes
        model = replace(model, tensors=stored.tensors, files=stored.files, num_bytes=size)
    return arranged(model)


def quantized_file(
    path: Path, name: str, cache: Path, threads: int | None = None, progress: Progress | None = None
) -> Path:
    """The file to load instead of `path`: itself where no weight of it is a float.

    Raises ParameterError for a name that is no recipe's, ModelError, CapacityError, OSError.
    """
    if name.lower() not in RECIPES:
        raise ParameterError("quant", name, f"one of {', '.join(RECIPES)}")
    recipe, checkpoint = find_recipe(name), open_checkpoint(path)
    if not has_floats(checkpoint):
        return path
    folder = cache / "quantized"
    file = folder / f"{fingerprint_of(checkpoint, recipe)}.gguf"
    if file.exists():
        mark_used(file)
        return file
    folder.mkdir(parents=True, exist_ok=True)
    with alone(folder):
        if not file.exists():  # another process may have made it meanwhile
            model, _ = as_gguf_file(checkpoint)
            conversion = plan_conversion(model, recipe, keeps_quantized=True)
            convert(conversion, file, choose_threads(threads).count, _told(progress, conversion))
            clean(folder, keep=file)
    return file


def has_floats(checkpoint: Checkpoint) -> bool:
    tensors = checkpoint.tensors.values()
    return any(len(tensor.shape) > 1 and tensor.type in FLOATS for tensor in tensors)


def fingerprint_of(checkpoint: Checkpoint, recipe: Recipe) -> str:
    """Of the files and the recipe; of a folder also what stands beside its weights."""
    digest = hashlib.sha256(f"{VERSION} {recipe.file_type}\n".encode())
    beside = checkpoint.path.glob("*.json") if checkpoint.path.is_dir() else ()
    for path in (*checkpoint.files, *sorted(beside)):
        status = path.stat()
        digest.update(f"{path.name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:DIGITS]


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Two that start at once do the work once: the second waits."""
    handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def clean(folder: Path, keep: Path) -> None:
    """Removes what was not used for long, and half a file that nobody goes on with."""
    for path in folder.glob("*.gguf*"):
        age_days = (time.time() - path.stat().st_atime) / 86400
        if path != keep and age_days > KEPT_DAYS:
            path.unlink(missing_ok=True)


def mark_used(file: Path) -> None:
    """By the time of access, which many systems do not keep by themselves."""
    try:
        os.utime(file, ns=(time.time_ns(), file.stat().st_mtime_ns))
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EPERM, errno.EACCES):
            raise


def _told(progress: Progress | None, conversion: Conversion) -> Progress | None:
    """Tells of bytes, as packing does, where the conversion tells of values."""
    if progress is None:
        return None
    total = conversion.num_bytes

    def tell(done: int, of: int) -> None:
        progress(total * done // of, total)

    return tell
