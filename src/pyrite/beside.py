"""One call on a thread of its own, while the caller goes on. Knows nothing of what is called.

Worth it for native work that runs without Python's lock.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import Generic, TypeVar

Result = TypeVar("Result")


class Beside(Generic[Result]):
    """Begins when it is made; where no thread can be had, it is done right then."""

    def __init__(self, call: Callable[[], Result]) -> None:
        self._call = call
        self._outcome: Result | None = None
        self._error: BaseException | None = None
        # No daemon: native code that came back to an interpreter which has ended would abort.
        self._thread: Thread | None = Thread(target=self._run, name="pyrite-beside")
        try:
            self._thread.start()
        except RuntimeError:  # a limit on threads
            self._thread = None
            self._run()

    def result(self) -> Result:
        """Waits, and raises what the call raised."""
        if self._thread is not None:
            self._thread.join()
        if self._error is not None:
            raise self._error
        return self._outcome  # type: ignore[return-value]

    def _run(self) -> None:
        try:
            self._outcome = self._call()
        except BaseException as error:
            self._error = error
