"""Names of the parts of a split GGUF model: NAME-00001-of-00003.gguf and so on."""

from __future__ import annotations

import re
from pathlib import Path

PART = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")


def is_later_part(path: Path) -> bool:
    """Whether the name says: a part, and not the first."""
    match = PART.fullmatch(path.name)
    return match is not None and int(match["number"]) > 1


def part_path(folder: Path, stem: str, number: int, count: int) -> Path:
    return folder / f"{stem}-{number:05d}-of-{count:05d}.gguf"
