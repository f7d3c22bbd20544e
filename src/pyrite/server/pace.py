"""How long a new request would wait, from how fast others have ended lately.

Times are given, so that tests need no clock.
"""

from __future__ import annotations

from collections import deque

WINDOW = 32  # requests that are looked back on
GUESS_SECONDS = 2.0  # of one request, while none has ended
LONGEST_SECONDS = 600.0


class Pace:
    """Fed with the end of each request."""

    def __init__(self) -> None:
        self._ends: deque[float] = deque(maxlen=WINDOW)

    def ended(self, now: float) -> None:
        self._ends.append(now)

    def wait(self, num_waiting: int, now: float) -> float:
        """Seconds that `num_waiting` requests take, at the pace of the last ones."""
        if len(self._ends) < 2:
            return GUESS_SECONDS
        each = (now - self._ends[0]) / len(self._ends)
        return min(LONGEST_SECONDS, max(1.0, num_waiting * each))
