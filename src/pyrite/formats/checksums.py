"""SHA-256 of fetched files, kept beside them as `sha256sum` writes it, so that they can be checked.

Where files come from is unknown here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pyrite.formats.fetch import disk_errors

NAME = ".sha256"  # in the folder that the paths are relative to


def read_checksums(folder: Path) -> dict[str, str]:
    """Hexadecimal digest by path; empty where nothing was kept."""
    try:
        lines = (folder / NAME).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    pairs = (line.partition("  ") for line in lines)
    return {path: digest for digest, _, path in pairs if path}


def keep_checksums(folder: Path, found: Mapping[str, str]) -> None:
    """Adds to those that are there. Raises FolderError, CapacityError."""
    kept = {**read_checksums(folder), **found}
    text = "".join(f"{digest}  {path}\n" for path, digest in sorted(kept.items()))
    partial = folder / f"{NAME}.partial"
    with disk_errors(NAME, folder):
        partial.write_text(text, encoding="utf-8")
        partial.replace(folder / NAME)
