"""How much a regular expression asks for, found without compiling it.

Knows just enough of the syntax to count; whether a pattern is valid is the compiler's to say.
"""

from __future__ import annotations

import re

from pyrite.errors import ParameterError
from pyrite.sampling.limits import MAX_MATCH_LENGTH

PART = re.compile(
    r"""\\[pPxuU]\{[^}]*\} | \\. | \[(?:\\.|[^\]\\])*\]  # an escape or a class: one character
      | (?P<open>\((?:\?[^():]*[:>)]?)?) | (?P<close>\))
      | \{\s*(?P<least>\d+)[^}]*\}
      | (?P<free>[*+?|^$]) | .""",
    re.VERBOSE | re.DOTALL,
)


def expanded_length(pattern: str) -> int:
    """Characters of the pattern with each repetition written out as often as it must be.

    No less than the length of the shortest text that it matches; alternatives add up.
    """
    outer: list[int] = []  # of each group that is open: the length before it
    length = last = 0  # `last`: of the part that a repetition would repeat
    for part in PART.finditer(pattern):
        if part["open"] is not None:
            outer.append(length)
            length = last = 0
        elif part["close"] is not None:
            last, length = length, length + (outer.pop() if outer else 0)
        elif part["least"] is not None:
            repeated = last * max(1, int(part["least"][:12]))
            length, last = length + repeated - last, repeated
        elif part["free"] is None:
            last = 1
            length += 1
    return length + sum(outer)


def check_pattern(name: str, pattern: str) -> None:
    """Raises ParameterError for a pattern that asks for too long a text."""
    length = expanded_length(pattern)
    if length > MAX_MATCH_LENGTH:
        limit = f"a pattern of at most {MAX_MATCH_LENGTH} characters, least repetitions written out"
        raise ParameterError(name, pattern, limit)
