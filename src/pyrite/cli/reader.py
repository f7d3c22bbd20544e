"""Reads what a person types: lines as one message, with a history that outlives the chat."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

QUOTES = '"""'
HISTORY_LINES = 1000


def read_message(ask: Callable[[str], str], prompt: str = ">>> ", more: str = "... ") -> str:
    '''One message; `ask` reads a line after showing a prompt, as `input` does.

    Lines between """ and """ are one message, and so are lines that end in a backslash, without
    it. Raises EOFError where the input ends, and KeyboardInterrupt.
    '''
    line = ask(prompt)
    if line.lstrip().startswith(QUOTES):
        return quoted(line.lstrip().removeprefix(QUOTES), ask, more)
    while line.endswith("\\"):
        line = line[:-1] + "\n" + ask(more)
    return line


def quoted(line: str, ask: Callable[[str], str], more: str) -> str:
    lines = [line]
    while not lines[-1].rstrip().endswith(QUOTES):
        lines.append(ask(more))
    lines[-1] = lines[-1].rstrip().removesuffix(QUOTES)
    return "\n".join(lines).strip("\n")


class History:
    """Line editing and history by readline, where Python has it. Kept in `path`, for its owner."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            import readline
        except ImportError:  # line editing is a comfort
            self._readline = None
            return
        self._readline = readline
        readline.set_history_length(HISTORY_LINES)
        with contextlib.suppress(OSError):  # none yet, or not readable
            readline.read_history_file(path)

    def save(self) -> None:
        """A folder that cannot be written to costs the history, nothing else."""
        if self._readline is None:
            return
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_CREAT | os.O_WRONLY, 0o600))
            self._readline.write_history_file(self.path)
