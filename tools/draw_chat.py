"""Draws docs/chat.svg: a real chat with smollm2, typed into a real terminal by this script.

    pip install pyte
    python tools/draw_chat.py

`pyrite run` gets a pseudo-terminal; pyte, a terminal emulator, keeps its screen, and rich draws
that as an SVG that needs no font or style sheet from elsewhere. The seed is fixed, so the answers
are the same on every run of one machine.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from itertools import groupby
from pathlib import Path
from typing import Any

import pyte
from rich.console import Console
from rich.style import Style
from rich.text import Text

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "chat.svg"
ROWS, COLUMNS = 30, 88
COMMAND = ["pyrite", "run", "smollm2", "--seed", "1", "--temp", "0.3"]
LINES = (
    "Explain photosynthesis in one sentence.",
    "Write a Python function that says whether a number is even.",
)
PROMPT = ">>> "
WAIT_SECONDS = 60.0
SECONDS_A_KEY = 0.01
FONT_FACE = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


class Terminal:
    """A program behind a pseudo-terminal, and the screen that a person would see."""

    def __init__(self, command: list[str]) -> None:
        self.screen = pyte.Screen(COLUMNS, ROWS)
        self.stream = pyte.ByteStream(self.screen)
        self.process, self.handle = pty.fork()
        if self.process == 0:
            os.environ["TERM"] = "xterm-256color"
            os.execvp(command[0], command)
        fcntl.ioctl(self.handle, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))

    def read(self, seconds: float) -> bool:
        """Takes in what the program wrote; whether there was anything."""
        ready, _, _ = select.select([self.handle], [], [], seconds)
        if ready:
            self.stream.feed(os.read(self.handle, 65536))
        return bool(ready)

    def wait_for_prompt(self) -> None:
        """Until an empty prompt stands where the cursor is, and nothing more is written."""
        end = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < end:
            quiet = not self.read(0.5)
            line = self.screen.display[self.screen.cursor.y]
            if quiet and line.rstrip() == PROMPT.rstrip():
                return
        raise SystemExit("no prompt came:\n" + "\n".join(self.screen.display))

    def type(self, line: str) -> None:
        for key in line + "\r":
            os.write(self.handle, key.encode())
            self.read(SECONDS_A_KEY)

    def close(self) -> None:
        os.kill(self.process, signal.SIGHUP)
        os.waitpid(self.process, 0)


def colour(name: str) -> str | None:
    """pyte's names are those of the eight colours, or six hexadecimal digits."""
    if name == "default":
        return None
    return f"#{name}" if re.fullmatch("[0-9a-f]{6}", name) else name.replace("brown", "yellow")


def style_of(cell: Any) -> Style:
    return Style(
        color=colour(cell.fg),
        bgcolor=colour(cell.bg),
        bold=cell.bold,
        italic=cell.italics,
        underline=cell.underscore,
        reverse=cell.reverse,
    )


def as_text(screen: pyte.Screen) -> Text:
    """The lines down to the cursor's, cells of one style as one piece."""
    lines = []
    for row in range(screen.cursor.y + 1):
        line = Text()
        cells = [screen.buffer[row][column] for column in range(COLUMNS)]
        for style, run in groupby(cells, style_of):
            line.append("".join(cell.data for cell in run), style)
        line.rstrip()
        lines.append(line)
    return Text("\n").join(lines)


def draw(screen: pyte.Screen, title: str) -> str:
    with open(os.devnull, "w") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere, force_terminal=True)
        console.print(as_text(screen))
        return FONT_FACE.sub("", console.export_svg(title=title, unique_id="chat"))


def main() -> int:
    terminal = Terminal(COMMAND)
    try:
        terminal.wait_for_prompt()
        for line in LINES:
            terminal.type(line)
            terminal.wait_for_prompt()
    finally:
        terminal.close()
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(draw(terminal.screen, " ".join(COMMAND[:3])), encoding="utf-8")
    print("\n".join(line.rstrip() for line in terminal.screen.display))
    return 0


if __name__ == "__main__":
    sys.exit(main())
