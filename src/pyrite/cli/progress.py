"""A progress bar of one line on stderr, for a person who waits for a download."""

from __future__ import annotations

import sys
import time

from pyrite.cli.terminal import Terminal, size

CELLS = 16
SECONDS_BETWEEN = 0.1


class Progress:
    """Called with (bytes done, bytes in all or None). Silent unless stderr is a terminal."""

    def __init__(self, label: str, terminal: Terminal) -> None:
        self.label = label
        self._shown = terminal.stderr
        self._width = terminal.width
        self._started = time.monotonic()
        self._first: int | None = None  # bytes that were here before: a resumed download
        self._last = 0.0
        self._drawn = False

    def __call__(self, done: int, total: int | None) -> None:
        now = time.monotonic()
        self._first = done if self._first is None else self._first
        if not self._shown or (now - self._last < SECONDS_BETWEEN and done != total):
            return
        self._last = now
        rate = (done - self._first) / max(now - self._started, 0.001)
        line = f"{self.label}  {bar(done, total)}  {size(int(rate))}/s"
        sys.stderr.write(f"\r\x1b[K{line[: self._width - 1]}")
        sys.stderr.flush()
        self._drawn = True

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        if self._drawn:
            sys.stderr.write("\n")
            sys.stderr.flush()


def bar(done: int, total: int | None) -> str:
    """`[########--------]  50%  46.4 MiB of 92.8 MiB`; without a total, what is done."""
    if not total:
        return size(done)
    filled = min(CELLS, CELLS * done // total)
    cells = "#" * filled + "-" * (CELLS - filled)
    return f"[{cells}] {100 * done // total:3d}%  {size(done)} of {size(total)}"
