"""Threads beside the engine's, with room for deep recursion in native code.

Knows nothing of what is run on them.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")
Job = tuple[Callable[[], Any], Future[Any]]
STACK_BYTES = 64 * 2**20  # of address space: memory is taken as far as it is used
_starting = threading.Lock()  # the size of stacks is a setting of the whole process


class DeepThread:
    """Runs one call after the other. The thread starts with the first call and ends with this."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._started = False

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Raises RuntimeError when the thread cannot start."""
        if not self._started:
            self._start()
        future: Future[T] = Future()
        self._jobs.put((call, future))
        return future

    def _start(self) -> None:
        thread = threading.Thread(target=_work, args=(self._jobs,), name=self.name, daemon=True)
        with _starting:
            before = threading.stack_size(STACK_BYTES)
            try:
                thread.start()
            finally:
                threading.stack_size(before)
        self._started = True
        weakref.finalize(self, self._jobs.put, None)


def _work(jobs: SimpleQueue[Job | None]) -> None:
    while (job := jobs.get()) is not None:
        _do(*job)
        del job  # nothing is kept while the next one is waited for


def _do(call: Callable[[], Any], future: Future[Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(call())
    except BaseException as error:  # a panic in native code is no Exception
        future.set_exception(error)
