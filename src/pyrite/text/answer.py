"""The parts of a chat's answer, between the parser of its text and the dialects that write them.

Filled by the parser of a model's answers; every dialect writes them in its own way. Knows neither.
"""

from __future__ import annotations

from pyrite.records import dataclass


@dataclass(frozen=True, slots=True)
class Content:
    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    text: str


@dataclass(frozen=True, slots=True)
class CallStart:
    """A tool call begins: calls of one answer are numbered from 0. Its arguments follow."""

    index: int
    call_id: str
    name: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """A piece of the JSON text of one call's arguments; the pieces joined are one object."""

    index: int
    text: str


Piece = Content | Reasoning | CallStart | CallArguments
