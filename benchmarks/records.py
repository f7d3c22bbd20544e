"""Runs of engines as records, kept in a file so that a comparison can go on where it stopped."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Subject:
    """What is compared: records of one subject stand in one part of the table."""

    model: str
    work: str
    threads: int
    isa: str  # PYRITE_ISA, or "" where it is chosen at run time
    machine: str


@dataclass(frozen=True)
class Record:
    """One run. `value`: tokens a second, or seconds of a start; None where `why` says why not."""

    subject: Subject
    engine: str
    round: int
    command: str
    version: str = ""
    value: float | None = None
    why: str = ""
    of_limit: float | None = None
    limit: str = ""

    @property
    def was_run(self) -> bool:
        """Else the engine was not there, which may have changed."""
        return bool(self.command)


class Records:
    """`path` is written anew after each run; it is the only thing that is kept."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.all: list[Record] = read(path) if path.is_file() else []

    def find(self, subject: Subject, engine: str) -> list[Record]:
        return [one for one in self.all if (one.subject, one.engine) == (subject, engine)]

    def add(self, record: Record) -> None:
        """In the place of an earlier one of the same run."""
        known = (record.subject, record.engine, record.round)
        self.all = [one for one in self.all if (one.subject, one.engine, one.round) != known]
        self.all.append(record)
        self._write()

    def forget(self, subjects: Sequence[Subject], engines: Sequence[str]) -> None:
        self.all = [
            one for one in self.all if one.subject not in subjects or one.engine not in engines
        ]
        self._write()

    def _write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_suffix(f".{os.getpid()}.partial")
        partial.write_text(json.dumps([asdict(one) for one in self.all], indent=1))
        partial.replace(self.path)


def read(path: Path) -> list[Record]:
    rows = json.loads(path.read_text())
    return [Record(**{**row, "subject": Subject(**row["subject"])}) for row in rows]
