"""Our dataclasses are what the standard ones are, but for the time that making them takes."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import field, fields, replace
from typing import Any

import pytest

from pyrite import records

Decorator = Callable[[type], Any]


def point(decorate: Decorator) -> Any:
    class Point:
        """Has all that ours have."""

        x: int
        y: int = 2
        label: str = field(default="", compare=False)
        hidden: list[int] = field(default_factory=list, repr=False)
        made: int = field(init=False, default=7)

        @property
        def total(self) -> int:
            return self.x + self.y

    return decorate(Point)


def checked(decorate: Decorator) -> Any:
    class Checked:
        limit: int

        def __post_init__(self) -> None:
            if self.limit < 0:
                raise ValueError(self.limit)

        def __repr__(self) -> str:
            return "its own"

    return decorate(Checked)


def empty(decorate: Decorator) -> Any:
    class Empty:
        """No field at all."""

    return decorate(Empty)


@records.dataclass(frozen=True, slots=True)
class Kept:
    name: str
    parts: tuple[int, ...] = ()


MAKERS = (dataclasses.dataclass, records.dataclass)
BOTH = [made(frozen=True, slots=True) for made in MAKERS]


def outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:
        return type(error), str(error).replace("__init__() ", "").split(".")[-1]


USES: dict[str, Callable[[Any], Any]] = {
    "positions": lambda kind: repr(kind(1, 3, "a")),
    "names": lambda kind: repr(kind(x=1, hidden=[4])),
    "factory": lambda kind: kind(1).hidden is not kind(1).hidden,
    "equal": lambda kind: (kind(1) == kind(1, label="other"), kind(1) == kind(2), kind(1) == 1),
    "not hashable": lambda kind: hash(kind(1)),
    "fields": lambda kind: [one.name for one in fields(kind)],
    "replace": lambda kind: repr(replace(kind(1, hidden=[1]), x=5)),
    "asdict": lambda kind: dataclasses.asdict(kind(1)),
    "assign": lambda kind: setattr(kind(1), "x", 2),
    "delete": lambda kind: delattr(kind(1), "x"),
    "copy": lambda kind: (copy.copy(kind(1, 5)) == kind(1, 5), copy.deepcopy(kind(1)).hidden),
    "slots": lambda kind: hasattr(kind(1), "__dict__"),
    "matching": lambda kind: kind.__match_args__,
    "too few": lambda kind: kind(),
    "too many": lambda kind: kind(1, 2, "", [], 7, 8),
    "unknown": lambda kind: kind(1, z=1),
    "property": lambda kind: kind(1).total,
    "made": lambda kind: kind(1).made,
    "doc": lambda kind: kind.__doc__,
    "parameters": lambda kind: list(inspect.signature(kind).parameters),
}


@pytest.mark.parametrize("use", USES)
def test_as_the_standard_one(use: str) -> None:
    standard, ours = (outcome(lambda made=made: USES[use](point(made))) for made in BOTH)
    assert ours == standard


@pytest.mark.parametrize("make", [checked, empty])
def test_others_as_the_standard_one(make: Callable[[Decorator], Any]) -> None:
    arguments = (3,) if make is checked else ()
    standard, ours = (make(made) for made in BOTH)
    assert repr(ours(*arguments)) == repr(standard(*arguments))
    assert ours(*arguments) == ours(*arguments)
    assert hash(ours(*arguments)) == hash(ours(*arguments))
    assert outcome(lambda: ours(-3)) == outcome(lambda: standard(-3)) if arguments else True


def test_pickled() -> None:
    one = Kept("a", (1, 2))
    assert pickle.loads(pickle.dumps(one)) == one
    assert {one: 1}[Kept("a", (1, 2))] == 1


def test_others_are_the_standard_ones() -> None:
    @records.dataclass(slots=True)
    class Changing:
        x: int = 1

    one = Changing()
    one.x = 2
    assert one == Changing(2)
