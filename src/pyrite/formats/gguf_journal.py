"""The journal beside a file that is being written: which parts are whole, and a checksum of each.

A line of JSON says what the file is made of, then [name, CRC-32] stands for each part. A line that
was cut short counts for nothing. What parts mean is unknown here.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from pathlib import Path

READ_BYTES = 8 << 20


class Journal:
    """Its calls raise OSError."""

    def __init__(self, path: Path, fingerprint: str) -> None:
        self.path = path
        self._first = json.dumps(fingerprint)

    def begin(self) -> None:
        self.path.write_text(self._first + "\n")

    def add(self, parts: Mapping[str, int]) -> None:
        """Of parts that are on the disk."""
        with self.path.open("a") as journal:
            journal.write("".join(json.dumps([*part]) + "\n" for part in parts.items()))

    def rewrite(self, parts: Mapping[str, int]) -> None:
        """Forgets all others; an interruption leaves it as it was."""
        new = self.path.with_name(self.path.name + ".new")
        lines = [self._first, *(json.dumps([*part]) for part in parts.items())]
        new.write_text("\n".join(lines) + "\n")
        os.replace(new, self.path)

    def read(self) -> dict[str, int] | None:
        """Checksums by the parts' names; None where it is of something else, or not there."""
        try:
            lines = self.path.read_text().splitlines()
        except (FileNotFoundError, UnicodeDecodeError):
            return None
        if not lines or lines[0] != self._first:
            return None
        return dict(part for line in lines[1:] if (part := _part(line)) is not None)

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)


def _part(line: str) -> tuple[str, int] | None:
    try:
        part = json.loads(line)
    except ValueError:
        return None
    match part:
        case [str(name), int(checksum)]:
            return name, checksum
    return None


def checksum_of(file: int, start: int, num_bytes: int) -> int:
    """CRC-32 of bytes of an open file."""
    found = 0
    while num_bytes:
        data = os.pread(file, min(num_bytes, READ_BYTES), start)
        if not data:
            return -1  # the file is shorter
        found = zlib.crc32(data, found)
        start, num_bytes = start + len(data), num_bytes - len(data)
    return found
