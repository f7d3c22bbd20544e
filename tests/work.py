"""Work that is counted instead of timed: a clock tells as much of the machine as of the code."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import pyrite

OURS = str(Path(pyrite.__file__).parent)


@dataclass
class Work:
    lines: int = 0  # of Pyrite's own Python that ran; each round of a loop anew


@contextmanager
def counted() -> Iterator[Work]:
    """What runs inside, in this thread."""
    work = Work()

    def line(frame: FrameType, event: str, _: Any) -> Any:
        work.lines += event == "line"
        return line

    def call(frame: FrameType, event: str, _: Any) -> Any:
        return line if frame.f_code.co_filename.startswith(OURS) else None

    before = sys.gettrace()
    sys.settrace(call)
    try:
        yield work
    finally:
        sys.settrace(before)


def lines_run(function: Callable[[], Any]) -> int:
    """How many lines of Pyrite's own Python one call of it takes."""
    with counted() as work:
        function()
    return work.lines
