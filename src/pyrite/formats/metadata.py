"""Typed access to a model's metadata: GGUF keys or config.json.

A value of the wrong kind or out of bounds is a FormatError that names key, value and limit. Any
width of integer is accepted. Which keys there are, and what they do, is known by the callers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from pyrite.errors import FormatError
from pyrite.formats.checkpoint import StringTable

Metadata = Mapping[str, Any]


def integer(
    metadata: Metadata, key: str, low: int, high: int, *, default: int | None = None
) -> int:
    """A whole number in low..high. An absent key gives `default`, or is an error without one."""
    if metadata.get(key) is None and default is not None:
        return default
    return _bounded_integer(key, _present(metadata, key), low, high)


def integers(
    metadata: Metadata, key: str, count: int, low: int, high: int, *, default: int | None = None
) -> tuple[int, ...]:
    """`count` whole numbers, one a layer: an array of that length, or one number for all."""
    if metadata.get(key) is None and default is not None:
        return (default,) * count
    value = _present(metadata, key)
    if isinstance(value, np.ndarray | list | tuple):
        if len(value) != count:
            raise _wrong(key, f"{len(value)} numbers", f"one number, or {count}")
        values = value.tolist() if isinstance(value, np.ndarray) else value
        return tuple(_bounded_integer(key, item, low, high) for item in values)
    return (_bounded_integer(key, value, low, high),) * count


def floating(
    metadata: Metadata, key: str, low: float, high: float, *, default: float | None = None
) -> float:
    """A finite number in low..high; whole numbers count. Absent: `default`, or an error."""
    if metadata.get(key) is None and default is not None:
        return default
    value = _present(metadata, key)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or not low <= value <= high:
        raise _wrong(key, value, f"a number from {low:g} to {high:g}")
    return float(value)


def boolean(metadata: Metadata, key: str, *, default: bool | None = None) -> bool:
    """True or false; 1 or 0 count. Absent: `default`, or an error."""
    if metadata.get(key) is None and default is not None:
        return default
    value = _present(metadata, key)
    if not isinstance(value, int) or value not in (0, 1):
        raise _wrong(key, value, "true or false")
    return bool(value)


def string(metadata: Metadata, key: str, *, default: str | None = None) -> str:
    """Text. Absent: `default`, or an error."""
    if metadata.get(key) is None and default is not None:
        return default
    value = _present(metadata, key)
    if not isinstance(value, str):
        raise _wrong(key, value, "text in UTF-8")
    return value


def strings(metadata: Metadata, key: str) -> StringTable:
    """An array of strings. An absent key is an error."""
    value = _present(metadata, key)
    if not isinstance(value, StringTable):
        raise _wrong(key, value, "an array of strings")
    return value


def _present(metadata: Metadata, key: str) -> Any:
    if metadata.get(key) is None:  # JSON's null means: not set
        raise FormatError(f"the key {key} is missing", hint="the file is incomplete; convert again")
    return metadata[key]


def _bounded_integer(key: str, value: Any, low: int, high: int) -> int:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or not low <= value <= high:
        raise _wrong(key, value, f"a whole number from {low} to {high}")
    return int(value)


def _wrong(key: str, value: object, limit: str) -> FormatError:
    shown = repr(value)
    shown = shown if len(shown) <= 80 else shown[:77] + "..."
    return FormatError(f"{key} = {shown}: must be {limit}")
