"""How long tests wait for what must happen: no time is asserted, a hang is found."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 60.0  # seconds, which nothing takes but on a machine that does much else


def until(is_true: Callable[[], object], complaint: str = "it never came true") -> None:
    """Asks again and again. Fails with the complaint where patience ends."""
    end = time.monotonic() + PATIENCE
    while not is_true():
        assert time.monotonic() < end, complaint
        time.sleep(0.005)
