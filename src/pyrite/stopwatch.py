"""Where the seconds of some work went: those since the last lap, under a name. Prints nothing."""

from __future__ import annotations

import time


class Stopwatch:
    """`seconds` by name, in the order of the laps. Starts when it is made."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        """Ends a stage. A name that comes again adds up."""
        now = time.perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._last
        self._last = now
