"""Reasoning as dialects ask for it and report it: options of templates, and a count of tokens."""

from __future__ import annotations

from typing import Any

from pyrite.server.ask import Part
from pyrite.text.answer import Reasoning


def thinking_options(opened: bool | None, effort: str | None) -> dict[str, Any]:
    """Options of a template, by all names under which templates know them; None leaves its own."""
    options: dict[str, Any] = {}
    if effort is not None:
        options["reasoning_effort"] = effort
    if effort == "none" and opened is None:
        opened = False
    if opened is not None:
        options.update(enable_thinking=opened, thinking=opened)
    return options


class ReasoningTokens:
    """Counts those of one choice.

    A step's tokens belong to the pieces that they complete: what the parser holds back waits for
    those. A step that completes reasoning and something else counts as the other.
    """

    def __init__(self) -> None:
        self.count = 0
        self._waiting = 0

    def add(self, part: Part) -> None:
        self._waiting += len(part.token_ids)
        if not part.pieces:
            return
        if all(isinstance(piece, Reasoning) for piece in part.pieces):
            self.count += self._waiting
        self._waiting = 0
