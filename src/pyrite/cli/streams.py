"""Standard streams that are closed at the start, or whose reader goes away before the end.

Knows file descriptors; never what is read or written.
"""

from __future__ import annotations

import contextlib
import os
import sys


def open_closed() -> bool:
    """Puts nothing at all in the place of a closed stdin or stderr. False: stdout was closed.

    A closed stream is None to Python, and its number would go to the next file that is opened.
    """
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115 (open as long as the process)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    return sys.stdout is not None


def silence_stdout() -> None:
    """What is still buffered has nowhere to go; the interpreter must not complain at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def system_said(error: OSError) -> str:
    """`FILE: No such file or directory`, without the number."""
    said = error.strerror or str(error)
    return f"{error.filename}: {said}" if error.filename else said
