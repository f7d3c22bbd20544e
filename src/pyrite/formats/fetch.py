"""One file from a URL, whole or not at all: resumed after a cut, checked, renamed when complete.

Bytes go to NAME.partial, which stays when something interrupts; the next call goes on from there.
The checksum is taken of the whole file before it gets its name. A lock keeps two processes from
writing the same file. What is in the file is unknown here.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import http.client
import os
import shutil
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from pyrite.errors import CapacityError, FetchError, FolderError

Progress = Callable[[int, int], None]  # bytes done, bytes in all (0 when nobody said)

CHUNK_BYTES = 1 << 18
TIMEOUT_SECONDS = 30.0  # of silence
ATTEMPTS = 4  # of a download that keeps being cut; each goes on where the last one ended
PAUSE_SECONDS = 0.5  # before the second attempt, doubled for each one more
FULL = (errno.ENOSPC, errno.EDQUOT)
TRANSIENT = (408, 429, 500, 502, 503, 504)
OFFLINE = "check the network and the proxy settings; a model file can also be given by its path"


@dataclass(frozen=True, slots=True)
class Source:
    """Where a file comes from and what it must be. `secret` headers stay with the first host."""

    url: str
    name: str  # for messages: URLs may hold credentials
    sha256: str | None = None
    size: int | None = None
    secret: Mapping[str, str] = field(default_factory=dict)


def fetch(source: Source, target: Path, progress: Progress | None = None) -> None:
    """Puts the file at `target`, unless it is there. Raises FetchError, CapacityError."""
    with locked(target):
        if target.is_file():
            return
        partial = partial_path(target)
        resumed = partial.is_file() and partial.stat().st_size > 0
        with disk_errors(target.name, partial.parent):
            _download(source, partial, progress or _silent)
            if not _matches(partial, source):
                if not resumed:
                    raise _wrong_checksum(source)
                # What an earlier attempt left behind may have been bad: once more, from the start.
                _download(source, partial, progress or _silent)
                if not _matches(partial, source):
                    raise _wrong_checksum(source)
        partial.replace(target)


def partial_path(target: Path) -> Path:
    return target.with_name(target.name + ".partial")


@contextmanager
def locked(target: Path) -> Iterator[None]:
    """Only one process at a time works on `target`, whose folder is made where it is missing. The
    lock file stays: removing it would race. Raises FolderError, CapacityError."""
    folder = target.parent / ".locks"
    with disk_errors(target.name, target.parent):
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / f"{target.name}.lock").open("w")
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def disk_errors(name: str, folder: Path) -> Iterator[None]:
    """A full disk becomes a CapacityError, another failure to write a FolderError."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            free = shutil.disk_usage(existing(folder)).free
            raise CapacityError(
                f"the disk is full: {name} could not be written, {free} bytes are free in {folder}",
                hint="free some space and run the same again: it goes on where it stopped",
            ) from None
        raise FolderError(
            f"{name} could not be written to {folder}: {error.strerror}",
            hint="set PYRITE_HOME to a folder that can be written to",
        ) from None


def existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that is there."""
    return next(place for place in (folder, *folder.parents) if place.exists())


def part_of(progress: Progress | None, start: int, total: int) -> Progress | None:
    """Reports one file of several: `start` bytes came before it, `total` are all together."""
    if progress is None:
        return None
    report: Progress = progress
    return lambda done, _: report(start + done, total)


def require_space(folder: Path, needed: int, name: str) -> None:
    """Raises CapacityError when `folder`'s disk has less than `needed` bytes free."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise CapacityError(
            f"{name} needs {needed} bytes more on disk, and {free} are free in {folder}",
            hint="free some space, or set PYRITE_HOME to a folder on another disk",
        )


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def open_url(
    url: str, headers: Mapping[str, str] | None = None, secret: Mapping[str, str] | None = None
) -> Any:
    """An open response. `secret` headers are not sent on after a redirection."""
    request = urllib.request.Request(url, headers={"User-Agent": "pyrite", **(headers or {})})
    for key, value in (secret or {}).items():
        request.add_unredirected_header(key, value)
    opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=_certificates()))
    try:
        return opener.open(request, timeout=TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        error.close()  # its code and reason stay; the connection would not be closed otherwise
        raise


def _certificates() -> ssl.SSLContext:
    named = os.environ.get("PIP_CERT") or os.environ.get("SSL_CERT_FILE") or None
    try:
        return ssl.create_default_context(cafile=named)
    except OSError as error:
        raise FetchError(
            f"the certificates in {named} cannot be read: {error.strerror}",
            hint="mend PIP_CERT or SSL_CERT_FILE, or unset it",
        ) from None


def unreachable(name: str, error: Exception) -> FetchError:
    """What a failed request becomes. The URL is not shown: it may hold credentials."""
    if isinstance(error, urllib.error.HTTPError):
        return FetchError(f"{name}: the server answered {error.code} {error.reason}")
    reason = getattr(error, "reason", None) or error
    return FetchError(f"{name} could not be fetched: {reason}", hint=OFFLINE)


def _silent(done: int, total: int) -> None:
    pass


def _download(source: Source, partial: Path, progress: Progress) -> None:
    """Brings `partial` to its full length, over several attempts when it must."""
    for attempt in range(ATTEMPTS):
        try:
            if _attempt(source, partial, progress):
                return
            failure: Exception = ConnectionError("the connection ended early")
        except urllib.error.HTTPError as error:
            if error.code not in TRANSIENT:
                raise unreachable(source.name, error) from None
            failure = error
        except (urllib.error.URLError, http.client.HTTPException, TimeoutError) as error:
            failure = error
        except (ConnectionError, ssl.SSLError) as error:
            failure = error
        if attempt + 1 < ATTEMPTS:
            time.sleep(PAUSE_SECONDS * 2**attempt)
    done = partial.stat().st_size if partial.exists() else 0
    stopped = unreachable(source.name, failure)
    if done:
        raise FetchError(
            f"{stopped.message}; {done} bytes are here",
            hint="run the same again: it goes on where it stopped",
        )
    raise stopped


def _attempt(source: Source, partial: Path, progress: Progress) -> bool:
    """One request for what is missing; whether the file is complete now."""
    have = partial.stat().st_size if partial.exists() else 0
    if source.size is not None and have >= source.size:
        if have == source.size:
            return True
        partial.unlink()  # longer than it can be: of no use
        have = 0
    headers = {"Range": f"bytes={have}-"} if have else {}
    try:
        response = open_url(source.url, headers, source.secret)
    except urllib.error.HTTPError as error:
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and have:
            partial.unlink()
            return False
        raise
    with response:
        start = have if _continues(response, have) else 0
        total = source.size or start + int(response.headers.get("Content-Length") or 0)
        with partial.open("ab" if start else "wb") as file:
            end = _copy(response, file, start, total, progress)
    return end == total or (total == start and end > start)


def _continues(response: Any, have: int) -> bool:
    """Whether the server sends from byte `have` on, and not the whole file."""
    if response.status != http.HTTPStatus.PARTIAL_CONTENT:
        return False
    stated: str = response.headers.get("Content-Range", "")
    return stated.startswith(f"bytes {have}-")


def _copy(response: Any, file: BinaryIO, start: int, total: int, progress: Progress) -> int:
    """Writes what comes, at most up to `total` when that is known; where it ended."""
    end = start
    progress(end, total)
    while chunk := response.read(CHUNK_BYTES):
        end += len(chunk)
        if total > start and end > total:
            raise FetchError(f"the server sent more than {total} bytes")
        file.write(chunk)
        progress(end, total)
    file.flush()
    os.fsync(file.fileno())
    return end


def _matches(partial: Path, source: Source) -> bool:
    """Whether the file is the one that was asked for; a wrong one is removed."""
    right = source.size is None or partial.stat().st_size == source.size
    right = right and (source.sha256 is None or sha256_of(partial) == source.sha256)
    if not right:
        partial.unlink()
    return right


def _wrong_checksum(source: Source) -> FetchError:
    return FetchError(
        f"{source.name}: the checksum of what was fetched is wrong; it was removed",
        hint="run the same again; if it stays so, the server or a proxy changes the file",
    )
