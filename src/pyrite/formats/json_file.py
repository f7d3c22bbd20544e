"""JSON objects from a model's files, with a bound on their size. What they say is unknown here.

Published configurations are not strict JSON (`Infinity` occurs), so Python's reader is used, which
takes that.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyrite.errors import FormatError

MAX_BYTES = 1 << 26


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file. Raises FormatError naming the file."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise FormatError(f"{path}: cannot be read: {error.strerror or error}") from None
    if len(data) > MAX_BYTES:
        raise FormatError(f"{path.name} is larger than {MAX_BYTES} bytes")
    return parse_object(data, path.name)


def parse_object(data: bytes, name: str) -> dict[str, Any]:
    """The object that `data` holds. Raises FormatError when it is not one, or names a key twice."""
    try:
        value = json.loads(data, object_pairs_hook=_unique)
    except _RepeatedKeyError as error:
        raise FormatError(f"{name}: the key {error.args[0]!r} occurs twice") from None
    except (ValueError, RecursionError) as error:
        problem = "nested too deep" if isinstance(error, RecursionError) else error
        raise FormatError(f"{name} is not JSON: {problem}") from None
    if not isinstance(value, dict):
        raise FormatError(f"{name} holds a {type(value).__name__}, and should hold an object")
    return value


class _RepeatedKeyError(Exception):
    pass


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _RepeatedKeyError(key)
            seen.add(key)
    return found
