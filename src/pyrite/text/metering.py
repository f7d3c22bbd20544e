"""What a rendering may cost: a budget of operations and characters, and what each thing costs.

Prices follow from sizes alone, so a template ends at the same place on any machine. Costs are
charged before the work where they can be told beforehand, else at once after it. Knows no template.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from typing import Any

MAX_ITEMS = 100_000  # of one list, one range, one split
MAX_WIDTH = 256  # of padding, indentation, columns
MAX_INTEGER_BITS = 4_096
ITEMS_A_STEP = 4  # items that are looked at for the price of one operation
CHARACTERS_A_LOOK = 16  # characters that are scanned for the price of one written

WIDE_CONVERSION = re.compile(r"%[^a-zA-Z%]*(\*|[0-9]{4,})")
PADDING_METHODS = ("center", "expandtabs", "ljust", "rjust", "zfill")
SPLITTING_METHODS = ("rsplit", "split", "splitlines")


class LimitError(Exception):
    """The template asked for more work or memory than its input justifies."""


class Budget:
    """What one rendering may spend: operations, and characters written."""

    def __init__(self, num_items: int, num_characters: int) -> None:
        self.steps = 200_000 + 200 * num_items
        self.characters = 4_000_000 + 32 * num_characters

    def spend(self, steps: int = 1, characters: int = 0) -> None:
        self.steps -= steps
        self.characters -= characters
        if self.steps < 0:
            raise LimitError("it runs too many operations")
        if self.characters < 0:
            raise LimitError("it writes too much text")


budget: ContextVar[Budget] = ContextVar("budget")


def check_text_call(
    owner: str, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Any, ...]:
    """Charges for a method of str before it runs; returns its arguments, generators spelled out."""
    if name in PADDING_METHODS:
        check_padding([*args, *kwargs.values()])
    elif name == "replace":
        check_replace(owner, *[str(value) for value in args[:2]])
    elif name in SPLITTING_METHODS and len(owner) > MAX_ITEMS:
        separator = args[0] if args and isinstance(args[0], str) and args[0] else None
        check_count(owner.count(separator) if separator else len(owner) // 16)
    elif name == "join" and args:
        items = list(args[0])
        charge_join(len(owner), items)
        return (items,)
    return args


def charge_join(separator_length: int, items: list[Any]) -> None:
    weigh(items)
    length = sum(len(item) for item in items if isinstance(item, str))
    budget.get().spend(characters=length + separator_length * len(items))


def check_binop(symbol: str, left: Any, right: Any) -> None:
    """Refuses, before it is computed, what would be too large."""
    budget.get().spend(characters=weight(left) + weight(right))
    if symbol == "%" and isinstance(left, str):
        if WIDE_CONVERSION.search(left):
            raise LimitError("it pads text too far")
        weigh(right)
        budget.get().spend(characters=left.count("%") * weight(right))
    if symbol == "*":
        check_product(left, right)
    if symbol == "**":
        check_power(left, right)


def check_product(left: Any, right: Any) -> None:
    if isinstance(left, int) and isinstance(right, int):
        check_bits(left.bit_length() + right.bit_length())
    for sequence, count in ((left, right), (right, left)):
        if isinstance(count, int) and isinstance(sequence, (str, bytes)):
            budget.get().spend(characters=len(sequence) * max(count, 0))
        elif isinstance(count, int) and isinstance(sequence, (list, tuple)):
            check_count(len(sequence) * max(count, 0))


def check_power(left: Any, right: Any) -> None:
    if isinstance(left, int) and isinstance(right, int):
        check_bits(left.bit_length() * abs(right))


def check_bits(count: int) -> None:
    if count > MAX_INTEGER_BITS:
        raise LimitError("it computes numbers that are too large")


def check_padding(values: Iterable[Any]) -> None:
    for value in values:
        if isinstance(value, int) and value > MAX_WIDTH:
            raise LimitError(f"it pads text to {value} columns, more than {MAX_WIDTH}")


def check_replace(text: str, old: str = "", new: str = "", *_: str) -> None:
    budget.get().spend(characters=(text.count(old) + 1) * len(new) + len(text))


def check_count(count: int) -> None:
    if count > MAX_ITEMS:
        raise LimitError(f"it makes a list of more than {MAX_ITEMS} items")


def num_lines(value: Any) -> int:
    return value.count("\n") + 1 if isinstance(value, str) else 0


def weight(value: Any) -> int:
    return len(value) if isinstance(value, (str, bytes)) else 1


def glance(value: Any) -> None:
    """Spends for the outermost level of a container."""
    items = len(value) if isinstance(value, (list, tuple, dict)) else 0
    budget.get().spend(1 + items // ITEMS_A_STEP)


def weigh(value: Any, price: int = 1) -> None:
    """Spends for looking at the value and at all that it holds, as often as it holds it.

    So lists that hold each other twice, many levels deep, are refused when they are made and never
    printed or compared. `price` is what CHARACTERS_A_LOOK characters cost.
    """
    current = budget.get()
    stack = [value]
    steps = 0
    while stack:
        item = stack.pop()
        steps += 1
        if isinstance(item, (str, bytes)):
            current.spend(0, len(item) * price // CHARACTERS_A_LOOK)
        elif isinstance(item, (list, tuple)):
            stack.extend(item)
        elif isinstance(item, dict):
            stack.extend(item.values())
        if steps == ITEMS_A_STEP:
            current.spend()
            steps = 0
    current.spend()
