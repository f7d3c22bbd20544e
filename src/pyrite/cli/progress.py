"""A progress bar of one line on stderr, for a person who waits."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable

from pyrite.cli.terminal import Terminal, size

CELLS = 16
SECONDS_BETWEEN = 0.1


class Progress:
    """Called with (bytes done, bytes in all or None); the line ends with the work, or with `with`.

    `unit` writes a number of what is counted, where that is not bytes.
    Silent unless stderr is a terminal, and for work that takes less than `after_seconds`.
    """

    def __init__(
        self,
        label: str,
        terminal: Terminal,
        *,
        after_seconds: float = 0.0,
        unit: Callable[[int], str] = size,
    ) -> None:
        self.label = label
        self._unit = unit
        self._shown = terminal.stderr
        self._width = terminal.width
        self._after = after_seconds
        self._started: float | None = None
        self._first = 0  # bytes that were here before: a resumed download
        self._last = 0.0
        self._drawn = False

    def __call__(self, done: int, total: int | None) -> None:
        now = time.monotonic()
        if self._started is None:
            self._started, self._first = now, done
        seconds = now - self._started
        is_last = bool(total) and done == total
        if seconds >= self._after and (now - self._last >= SECONDS_BETWEEN or is_last):
            self._last = now
            rate = (done - self._first) / max(seconds, 0.001)
            line = f"{self.label}  {bar(done, total, self._unit)}  {self._unit(int(rate))}/s"
            self._write(f"\r\x1b[K{line[: self._width - 1]}")
            self._drawn = True
        if is_last:
            self.end()

    def end(self) -> None:
        """What is told next is other work."""
        if self._drawn:
            self._write("\n")
        self._drawn, self._started = False, None

    def _write(self, text: str) -> None:
        """What cannot be said is no fault of the work."""
        if self._shown:
            with contextlib.suppress(OSError):
                sys.stderr.write(text)
                sys.stderr.flush()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()


def bar(done: int, total: int | None, unit: Callable[[int], str] = size) -> str:
    """`[########--------]  50%  46.4 MiB of 92.8 MiB`; without a total, what is done."""
    if not total:
        return unit(done)
    filled = min(CELLS, CELLS * done // total)
    cells = "#" * filled + "-" * (CELLS - filled)
    return f"[{cells}] {100 * done // total:3d}%  {unit(done)} of {unit(total)}"
