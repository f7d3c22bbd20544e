"""Where an answer goes while it is written: as it is, or as Markdown on a terminal."""

from __future__ import annotations

import os
import sys
import threading
import time
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from pyrite.cli.terminal import Terminal

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.markdown import Markdown

SECONDS_BETWEEN = 0.08  # two drawings of the block that is being written


class Sink(Protocol):
    def write(self, text: str) -> None: ...

    def close(self) -> None:
        """Ends the line, whatever was written."""
        ...


class PlainSink:
    """The answer's text and nothing else, at once; with a line break at its end."""

    def __init__(self) -> None:
        self._last = "\n"

    def write(self, text: str) -> None:
        if text:
            sys.stdout.write(text)
            sys.stdout.flush()
            self._last = text[-1]

    def close(self) -> None:
        if self._last != "\n":
            sys.stdout.write("\n")
            sys.stdout.flush()


class MarkdownSink:
    """Draws finished blocks once, and the one that is being written again and again.

    Raw HTML is shown as it is written: no character of an answer is lost.
    """

    def __init__(self, terminal: Terminal) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(no_color=not terminal.colour)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._live.start()
        self._tail = ""
        self._blank = False  # a block was printed: the next one is set off from it
        self._drawn = 0.0

    def write(self, text: str) -> None:
        done, self._tail = split_blocks(self._tail + text)
        if done.strip():
            self._print(done)
        now = time.monotonic()
        if done or now - self._drawn > SECONDS_BETWEEN:
            self._drawn = now
            self._live.update(self._end_of(self._tail), refresh=True)

    def close(self) -> None:
        self._live.update("", refresh=True)
        self._live.stop()
        if self._tail.strip():
            self._print(self._tail)
        self._tail = ""

    def _print(self, block: str) -> None:
        self._live.update("", refresh=True)
        if self._blank:
            self._console.print()
        self._console.print(markdown(block))
        self._blank = True

    def _end_of(self, block: str) -> RenderableType:
        """The block's last lines, as many as the screen has room for."""
        from rich.segment import Segment, Segments

        if not block.strip():
            return ""
        lines = self._console.render_lines(markdown(block), pad=False)
        shown = lines[-max(1, self._console.height - 2) :]
        return Segments([part for line in shown for part in [*line, Segment.line()]])


def split_blocks(text: str) -> tuple[str, str]:
    """(finished blocks, the rest): cut after the last blank line that is not inside a fence."""
    fence = ""
    cut = 0
    position = 0
    for line in text.splitlines(keepends=True):
        position += len(line)
        if not line.endswith("\n"):
            break
        mark = line.lstrip()[:3]
        if mark in ("```", "~~~") and fence in ("", mark):
            fence = "" if fence else mark
        if not line.strip() and not fence:
            cut = position
    return text[:cut], text[cut:]


def markdown(text: str) -> Markdown:
    from markdown_it import MarkdownIt
    from rich.markdown import Markdown

    parser = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
    drawn = Markdown("", hyperlinks=False)
    drawn.markup = text
    drawn.parsed = parser.parse(text)
    return drawn


def sink_for(terminal: Terminal, *, plain: bool) -> Sink:
    return MarkdownSink(terminal) if draws_markdown(terminal, plain=plain) else PlainSink()


def draws_markdown(terminal: Terminal, *, plain: bool) -> bool:
    """It needs a person at a terminal that can move its cursor."""
    return terminal.stdout and not plain and os.environ.get("TERM") != "dumb"


def import_early(terminal: Terminal, *, plain: bool) -> None:
    """Imports what Markdown needs while a person types (a tenth of a second)."""
    if draws_markdown(terminal, plain=plain):
        threading.Thread(target=import_module, args=("rich.markdown",), daemon=True).start()
