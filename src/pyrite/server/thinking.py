"""Counts the tokens of an answer that are reasoning, as dialects report them.

A step's tokens belong to the pieces that they complete: what the parser holds back waits for those.
"""

from __future__ import annotations

from pyrite.server.ask import Part
from pyrite.text.answer import Reasoning


class ReasoningTokens:
    """Of one choice. A step that completes reasoning and something else counts as the other."""

    def __init__(self) -> None:
        self._counted = 0
        self._waiting = 0

    @property
    def count(self) -> int:
        return self._counted

    def add(self, part: Part) -> None:
        self._waiting += len(part.token_ids)
        if not part.pieces:
            return
        if all(isinstance(piece, Reasoning) for piece in part.pieces):
            self._counted += self._waiting
        self._waiting = 0
