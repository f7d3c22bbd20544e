"""Which keys of config.json a GGUF key was made of, so that errors name what somebody wrote.

A folder's translation reads keys and puts others, and both are followed here: a key is made of what
has its value, the last such that was read just before, unless the translation says of what. What
any of them means is unknown here.
"""

from __future__ import annotations

from typing import Any

from pyrite.records import dataclass

MOST = 3  # keys in one name
UNLIKELY = 16  # from here on two numbers are hardly equal by chance


@dataclass(frozen=True, slots=True)
class Reading:
    name: str
    value: Any
    is_stated: bool  # and no default


class Origins:
    """`found`: names of config.json by the whole GGUF key."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}
        self._before: list[Reading] = []
        self._since: list[Reading] = []  # the last key was put

    def read(self, name: str, value: Any, is_stated: bool) -> None:
        self._since.append(Reading(name, value, is_stated))

    def put(self, key: str, value: Any, of: str = "") -> None:
        """A list or a word may be made of all that is stated since the last key; of a number that
        nothing has, nobody knows."""
        same = [one for one in self._since if _equal(one.value, value)]
        if not same and _is_unlikely(value):
            same = [one for one in self._before if _equal(one.value, value)]
        stated = [one for one in same if one.is_stated]
        names = list(dict.fromkeys(one.name for one in self._since if one.is_stated))
        if of:
            self.found[key] = of
        elif same:
            self.found[key] = (stated or same)[-1].name
        elif isinstance(value, list | str) and 0 < len(names) <= MOST:
            self.found[key] = ", ".join(names)
        self._before += self._since
        self._since = []


def _equal(read: Any, value: Any) -> bool:
    kinds = (bool, int, float, str)
    if type(read) not in kinds or type(value) not in kinds:
        return False
    return isinstance(read, bool) == isinstance(value, bool) and bool(read == value)


def _is_unlikely(value: Any) -> bool:
    return isinstance(value, float) or (isinstance(value, int) and value >= UNLIKELY)
