"""A regular expression from a file, matched in time that is a small power of its length.

Python's own would let a hostile one run for ever. What is here of its syntax is what names of
modules need: texts, classes, groups, alternatives, repetitions, looking ahead. Groups capture
nothing, and lazy repetitions are as others: only whether a whole text matches is told.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from pyrite.errors import UnsupportedError
from pyrite.records import dataclass

MAX_LENGTH = 4096
MAX_DEPTH = 64  # of groups
MAX_LEAST = 64  # times that something must be repeated
MAX_STEPS = 1 << 21  # of all texts together; a model of 126 layers takes a third

PART = re.compile(
    r"""(?P<char>\\[dDwWsS] | \[\^?\]?(?:\\.|[^\]\\])*\] | \.)
      | (?P<edge>\\[bBAZ] | \^ | \$)
      | (?P<open>\((?:\?:|\?=|\?!|\?P<\w+>|(?!\?))) | (?P<close>\)) | (?P<or>\|)
      | (?P<times>(?:[*+?]|\{\d*,?\d*\})\??)
      | \\(?P<plain>[^\w\s])
      | (?P<text>[^\\()\[\]{}|*+?^$.]+(?![*+?{]) | [^\\()\[\]{}|*+?^$.])""",
    re.VERBOSE,
)
COUNTS = {"*": (0, None), "+": (1, None), "?": (0, 1)}

Ends = frozenset[int]  # where what began at one place may end
NONE: Ends = frozenset()


@dataclass(frozen=True, slots=True)
class Node:
    """`match` gets a run and where to begin."""

    match: Callable[[Run, int], Ends]


class Run:
    """One text, with what is known of it already: each part is tried once at each place."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.steps = 0
        self._known: dict[tuple[int, int], Ends] = {}

    def ends(self, node: Node, start: int) -> Ends:
        key = (id(node), start)
        if key not in self._known:
            self._known[key] = node.match(self, start)
        return self._known[key]

    def all_ends(self, node: Node, starts: Ends) -> Ends:
        self.steps += len(starts)
        if self.steps > MAX_STEPS:
            raise TooLongError
        return NONE.union(*(self.ends(node, start) for start in starts))


class TooLongError(Exception):
    """Within this file alone."""


class Expression:
    """Raises UnsupportedError for what is not read; `key` says what it is of."""

    def __init__(self, key: str, pattern: str) -> None:
        self.pattern = pattern
        self._problem = f"{key} has a regular expression that is not read: {pattern[:60]!r}"
        if len(pattern) > MAX_LENGTH:
            raise UnsupportedError(self._problem, hint=f"at most {MAX_LENGTH} characters are")
        self._steps = 0  # that were taken, of all texts
        self._known: dict[str, bool] = {}
        self._at = 0
        self._root = self._either(0)
        if self._at < len(pattern):
            raise UnsupportedError(self._problem, hint="a bracket is closed that was not opened")

    def matches(self, text: str) -> bool:
        """All of it. Raises UnsupportedError where that takes too long."""
        if text not in self._known:
            self._known[text] = self._matches(text)
        return self._known[text]

    def _matches(self, text: str) -> bool:
        run = Run(text)
        run.steps = self._steps
        try:
            ends = run.ends(self._root, 0)
        except TooLongError:
            raise UnsupportedError(self._problem, hint="it takes too long: name modules") from None
        self._steps = run.steps
        return len(text) in ends

    def _next(self) -> re.Match[str] | None:
        if self._at == len(self.pattern):
            return None
        part = PART.match(self.pattern, self._at)
        if part is None:
            raise UnsupportedError(self._problem, hint=f"see what stands at {self._at}")
        return part

    def _either(self, depth: int) -> Node:
        """Up to a closing bracket, which is left."""
        if depth > MAX_DEPTH:
            raise UnsupportedError(self._problem, hint=f"at most {MAX_DEPTH} groups in each other")
        branches = [self._sequence(depth)]
        while (part := self._next()) is not None and part["or"]:
            self._at = part.end()
            branches.append(self._sequence(depth))
        return branches[0] if len(branches) == 1 else either(branches)

    def _sequence(self, depth: int) -> Node:
        parts: list[Node] = []
        while (part := self._next()) is not None and not (part["or"] or part["close"]):
            self._at = part.end()
            parts.append(self._times(self._one(part, depth)))
        return sequence(parts)

    def _one(self, part: re.Match[str], depth: int) -> Node:
        if part["open"]:
            inner = self._either(depth + 1)
            end = self._next()
            if end is None:
                raise UnsupportedError(self._problem, hint="a bracket is not closed")
            self._at = end.end()
            return ahead(inner, part["open"] == "(?=") if part["open"][-1] in "=!" else inner
        if part["char"]:
            return character(self._kind(part["char"]))
        if part["edge"]:
            return edge(re.compile(part["edge"]))
        if part["times"]:
            raise UnsupportedError(self._problem, hint="nothing stands before a repetition")
        return literal(part["plain"] or part["text"])

    def _kind(self, one: str) -> re.Pattern[str]:
        """Of one character, so Python's own is quick. What it would warn of is not read."""
        if len(one) > 2 and any(sign in one[1:] for sign in ("[", "--", "&&", "||", "~~")):
            raise UnsupportedError(self._problem, hint=f"a class is {one[:60]}")
        try:
            return re.compile(one)
        except re.error as error:
            raise UnsupportedError(self._problem, hint=f"{one[:60]}: {error}") from None

    def _times(self, node: Node) -> Node:
        part = self._next()
        if part is None or not part["times"]:
            return node
        self._at = part.end()
        least, most = self._counts(part["times"])
        return repeated(node, least, most)

    def _counts(self, times: str) -> tuple[int, int | None]:
        if times[0] in COUNTS:
            return COUNTS[times[0]]
        low, comma, high = times.strip("{}?").partition(",")
        least = int(low[:9] or 0)
        most = int(high[:9]) if high else None if comma else least
        if least > MAX_LEAST or times[:2] == "{}":
            raise UnsupportedError(self._problem, hint=f"at most {MAX_LEAST} repetitions of a part")
        return least, most


def literal(text: str) -> Node:
    return Node(
        lambda run, at: frozenset((at + len(text),)) if run.text.startswith(text, at) else NONE
    )


def character(kind: re.Pattern[str]) -> Node:
    return Node(lambda run, at: frozenset((at + 1,)) if kind.match(run.text, at) else NONE)


def edge(kind: re.Pattern[str]) -> Node:
    return Node(lambda run, at: frozenset((at,)) if kind.match(run.text, at) else NONE)


def ahead(node: Node, is_wanted: bool) -> Node:
    return Node(lambda run, at: frozenset((at,)) if bool(run.ends(node, at)) == is_wanted else NONE)


def either(branches: Sequence[Node]) -> Node:
    return Node(lambda run, at: NONE.union(*(run.ends(branch, at) for branch in branches)))


def sequence(parts: Sequence[Node]) -> Node:
    def match(run: Run, start: int) -> Ends:
        ends: Ends = frozenset((start,))
        for part in parts:
            ends = run.all_ends(part, ends)
            if not ends:
                break
        return ends

    return Node(match)


def repeated(node: Node, least: int, most: int | None) -> Node:
    def match(run: Run, start: int) -> Ends:
        ends: Ends = frozenset((start,))
        for _ in range(least):
            ends = run.all_ends(node, ends)
        found, count = ends, least
        while ends and (most is None or count < most):
            ends = run.all_ends(node, ends) - found
            found, count = found | ends, count + 1
        return found

    return Node(match)
