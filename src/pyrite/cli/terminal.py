"""What is known of stdin, stdout and stderr, and the small things written to them."""

from __future__ import annotations

import os
import shutil
import sys

from pyrite.errors import ParameterError
from pyrite.records import dataclass


@dataclass(frozen=True, slots=True)
class Terminal:
    """`stdin`, `stdout`, `stderr`: whether each is a terminal. `colour`: NO_COLOR is not set."""

    stdin: bool
    stdout: bool
    stderr: bool
    colour: bool
    width: int

    def note(self, text: str) -> None:
        """A line for a person: to stderr, and only if a person reads it."""
        if self.stderr:
            print(self.dim(text), file=sys.stderr)

    def dim(self, text: str) -> str:
        return f"\x1b[2m{text}\x1b[0m" if self.colour and text else text


def warn(text: str) -> None:
    """A line to stderr, whoever reads it: the result is less than what was given."""
    print(f"pyrite: warning: {text}", file=sys.stderr)


def this_terminal() -> Terminal:
    dumb = os.environ.get("TERM") == "dumb"
    return Terminal(
        stdin=sys.stdin is not None and sys.stdin.isatty(),
        stdout=sys.stdout.isatty(),
        stderr=sys.stderr.isatty(),
        colour=not os.environ.get("NO_COLOR") and not dumb,
        width=shutil.get_terminal_size().columns,
    )


def piped_text() -> str:
    """All of stdin. Raises ParameterError where it is no text."""
    data = sys.stdin.buffer.read()
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ParameterError(
            "stdin", data[error.start : error.start + 1], f"UTF-8 (byte {error.start} is not)"
        ) from None


def size(num_bytes: int) -> str:
    """`1.2 GiB`, `92.8 MiB`, `512 B`."""
    value = float(num_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{num_bytes} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"
