"""Ctrl-C while an answer is written: once ends the answer, twice the program."""

from __future__ import annotations

import signal
from types import FrameType


class Interrupts:
    """In its `with` block the first Ctrl-C sets `requested`, and the next is KeyboardInterrupt.

    A step of the engine is never cut in the middle by the first one.
    """

    def __init__(self) -> None:
        self.requested = False

    def __enter__(self) -> Interrupts:
        self._previous = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *error: object) -> None:
        signal.signal(signal.SIGINT, self._previous)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
