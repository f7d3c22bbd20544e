"""Repositories of the Hugging Face hub: what they hold, and getting files of them.

Listing, tokens and the endpoint (HF_ENDPOINT, HF_TOKEN) are huggingface_hub's; the bytes are
fetched by `fetch`, because the library starts an interrupted file from its beginning. The library
is imported when something is fetched, not before. What a model computes is unknown here.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyrite.errors import FetchError, ModelNotFoundError, PyriteError
from pyrite.formats.checksums import keep_checksums
from pyrite.formats.fetch import (
    OFFLINE,
    Progress,
    Source,
    disk_errors,
    fetch,
    part_of,
    require_space,
    sha256_of,
)


@dataclass(frozen=True, slots=True)
class RemoteFile:
    path: str  # inside the repository, with "/"
    size: int | None
    sha256: str | None  # of large files


@dataclass(frozen=True, slots=True)
class RemoteRepository:
    name: str  # user/repository
    revision: str
    files: tuple[RemoteFile, ...]


def list_repository(name: str) -> RemoteRepository:
    """What the hub says that a repository holds. Raises ModelNotFoundError, FetchError."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    try:
        info = HfApi(endpoint=_endpoint()).model_info(name, files_metadata=True, timeout=20)
    except HfHubHTTPError as error:
        raise _refusal(name, error.response.status_code) from None
    except Exception as error:  # the library lets its HTTP client's own errors through
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise FetchError(f"the hub could not be asked for {name}: {reason}", hint=OFFLINE) from None
    files = tuple(_remote_file(sibling) for sibling in info.siblings or ())
    return RemoteRepository(name, info.sha or "main", files)


def _refusal(name: str, status: int) -> PyriteError:
    if status in (401, 404):  # the hub says 401 for what is private or does not exist
        return ModelNotFoundError(
            f"the hub has no model {name}, or it is private",
            hint="mind the spelling; for a private model set HF_TOKEN",
        )
    if status == 403:
        return FetchError(
            f"{name} is behind terms that must be accepted on the hub",
            hint="accept them there with your account, and set HF_TOKEN",
        )
    return FetchError(f"the hub answered {status} for {name}", hint="try again later")


def fetch_files(
    repository: RemoteRepository,
    paths: Sequence[str],
    folder: Path,
    progress: Progress | None = None,
) -> list[Path]:
    """Puts files of a repository below `folder`, those not there yet, the last one last.

    Raises FetchError, CapacityError. An interrupted call goes on where it stopped.
    """
    known = {file.path: file for file in repository.files}
    targets = {path: _inside(folder, path) for path in paths}
    total = sum(known[path].size or 0 for path in paths)
    missing = [path for path in paths if not targets[path].is_file()]
    with disk_errors(repository.name, folder):
        folder.mkdir(parents=True, exist_ok=True)
    require_space(folder, sum(known[path].size or 0 for path in missing), repository.name)
    done = 0
    for path in paths:
        source = _source(repository, known[path])
        fetch(source, targets[path], part_of(progress, done, total))
        done += known[path].size or 0
    keep_checksums(folder, {path: digest for path in paths if (digest := known[path].sha256)})
    return list(targets.values())


def remove_damaged(repository: RemoteRepository, paths: Sequence[str], folder: Path) -> None:
    """Of files that are here, those that are not what the repository holds."""
    known = {file.path: file.sha256 for file in repository.files}
    for path in paths:
        target = _inside(folder, path)
        if known[path] and target.is_file() and sha256_of(target) != known[path]:
            target.unlink()


def _remote_file(sibling: Any) -> RemoteFile:
    large = getattr(sibling, "lfs", None)
    return RemoteFile(sibling.rfilename, sibling.size, large.sha256 if large else None)


def _inside(folder: Path, path: str) -> Path:
    """Where a file of the repository goes. Raises FetchError when its name leads elsewhere."""
    parts = path.split("/")
    if any(part in ("", ".", "..") or part.startswith(".locks") for part in parts):
        raise FetchError(f"the repository names a file outside itself: {path!r}")
    if "\\" in path or "\x00" in path:
        raise FetchError(f"the repository names a file that cannot be: {path!r}")
    return folder.joinpath(*parts)


def _source(repository: RemoteRepository, file: RemoteFile) -> Source:
    from huggingface_hub import get_token, hf_hub_url

    url = hf_hub_url(repository.name, file.path, revision=repository.revision, endpoint=_endpoint())
    token = get_token()
    secret = {"Authorization": f"Bearer {token}"} if token else {}
    return Source(url, f"{repository.name}/{file.path}", file.sha256, file.size, secret)


def _endpoint() -> str | None:
    return os.environ.get("HF_ENDPOINT") or None
