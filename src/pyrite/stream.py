"""The deltas of one request, as an iterator that may be closed early."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pyrite.driver import Driver
from pyrite.request import Delta, Request


class Stream(Iterator[Delta]):
    """Starts the request at once, so that its faults are raised here and not at the first delta.

    An error of the request later on is raised in place of its last delta. Closing a stream that
    has not ended cancels the request; a `with` statement, or dropping the stream, closes it.
    """

    def __init__(self, driver: Driver, request: Request) -> None:
        self._driver = driver
        self._ended = True  # until the engine has taken the request
        self.request_id = request.request_id
        driver.start(request)
        self._ended = False

    def __next__(self) -> Delta:
        delta = self.take()
        if delta is None:
            raise StopIteration
        if delta.error is not None:
            raise delta.error
        return delta

    def take(self, stopped: Callable[[], bool] = lambda: False) -> Delta | None:
        """The next delta, with its error if it has one; None after the last.

        `stopped` may cancel the request between two steps, also while its prompt is computed.
        """
        if self._ended:
            return None
        delta = self._driver.next(self.request_id, stopped)
        self._ended = delta.finish_reason is not None
        return delta

    def close(self) -> None:
        """Cancels the request unless it has ended. A second time changes nothing."""
        if not self._ended:
            self._ended = True
            self._driver.stop(self.request_id)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not self._ended:
            self._ended = True
            self._driver.abandon(self.request_id)
