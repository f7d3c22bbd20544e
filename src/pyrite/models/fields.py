"""Reads a file's configuration: every number typed and bounded, every key accounted for.

Knows neither GGUF nor config.json, only a mapping of keys. A key that nobody asked for is found by
`unread`, so a setting that changes the mathematics cannot pass unseen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pyrite.errors import FormatError, UnsupportedError

MISSING = object()


class Fields:
    """Absent and null are the same: the default, or an error where there is none.

    `names`: what the file calls a key, where that is something else; `origins`: what another file
    does, that this one was made of, by whole keys. `within`: the object that holds them.
    `told` hears of each name, its value, and whether the file states it. Raises FormatError that
    names the key, the value and the limit.
    """

    def __init__(
        self,
        values: Mapping[str, Any],
        prefix: str = "",
        names: Mapping[str, str] | None = None,
        origins: Mapping[str, str] | None = None,
        told: Callable[[str, Any, bool], None] | None = None,
        within: str = "",
    ) -> None:
        self.values = values
        self.prefix = prefix
        self.names = names or {}
        self.origins = origins or {}
        self.told = told
        self.within = within
        self.read: set[str] = set()

    def get(self, key: str) -> Any:
        name = self.names.get(key, key)
        self.read.add(name)
        value = self.values.get(self.prefix + name)
        if self.told is not None and value is not None:
            self.told(name, value, True)
        return value

    def called(self, key: str) -> str:
        """The whole key, as who wrote the file knows it."""
        name = self.prefix + self.names.get(key, key)
        return self.origins.get(name, self.within + name)

    def integer(self, key: str, low: int, high: int, default: Any = MISSING) -> int:
        value = self._or_default(key, default)
        if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
            raise self._wrong(key, value, "an integer")
        if not low <= int(value) <= high:
            raise self._wrong(key, value, f"from {low} to {high}")
        return int(value)

    def number(self, key: str, low: float, high: float, default: Any = MISSING) -> float:
        """A bound may be met in 32 bits, as GGUF keeps what a folder states."""
        value = self._or_default(key, default)
        if isinstance(value, bool | np.bool_):
            raise self._wrong(key, value, "a number")
        if not isinstance(value, int | float | np.integer | np.floating):
            raise self._wrong(key, value, "a number")
        near = (min(low, float(np.float32(low))), max(high, float(np.float32(high))))
        if not near[0] <= value <= near[1] or not math.isfinite(value):
            raise self._wrong(key, value, f"from {low:g} to {high:g}")
        return float(value)

    def boolean(self, key: str, default: bool) -> bool:
        value = self._or_default(key, default)
        if not isinstance(value, bool | np.bool_):
            raise self._wrong(key, value, "true or false")
        return bool(value)

    def text(self, key: str, default: Any = MISSING) -> str:
        value = self._or_default(key, default)
        if not isinstance(value, str):
            raise self._wrong(key, value, "a string")
        return value

    def sequence(self, key: str, count: int) -> Sequence[Any] | None:
        """A list of exactly `count` items, or None where the key is absent."""
        value = self.get(key)
        if value is None:
            return None
        if isinstance(value, np.ndarray):
            value = value.tolist()
        if not isinstance(value, list | tuple):
            raise self._wrong(key, value, "a list")
        if len(value) != count:
            raise self._wrong(key, f"{len(value)} items", f"a list of {count}")
        return value

    def group(self, key: str) -> Fields | None:
        """The object under `key`, or None; its keys are accounted for on their own."""
        value = self.get(key)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self._wrong(key, value, "an object")
        told = self.told
        inner = None if told is None else lambda name, *one: told(f"{key}.{name}", *one)
        return Fields(value, told=inner, within=f"{self.called(key)}.")

    def refuse_unread(self, where: str, harmless: frozenset[str] = frozenset()) -> None:
        """UnsupportedError for keys that hold something and that nobody has asked for."""
        keys = (key for key in self.values if key.startswith(self.prefix))
        names = (key[len(self.prefix) :] for key in keys)
        unread = sorted(name for name in names if name not in self.read | harmless)
        unread = [name for name in unread if not _is_neutral(self.values[self.prefix + name])]
        if unread:
            shown = ", ".join(self._shown(name) for name in unread[:8])
            raise UnsupportedError(
                f"{where} sets {shown}, which Pyrite does not understand",
                hint="it may change what the model computes; remove it if it does not",
            )

    def _shown(self, key: str) -> str:
        name = self.prefix + key
        return f"{self.origins.get(name, name)} = {shorten(self.values[name])}"

    def _or_default(self, key: str, default: Any) -> Any:
        value = self.get(key)
        if value is not None:
            return value
        if default is MISSING:
            raise FormatError(f"{self.called(key)} is missing", hint="the file states no such key")
        if self.told is not None:
            self.told(self.names.get(key, key), default, False)
        return default

    def _wrong(self, key: str, value: object, limit: str) -> FormatError:
        return FormatError(f"{self.called(key)} = {shorten(value)}: must be {limit}")


def shorten(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."


def _is_neutral(value: object) -> bool:
    """Null, false and empty switch nothing on."""
    return value is None or value is False or (isinstance(value, str | list | dict) and not value)
