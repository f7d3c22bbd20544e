"""JSON objects from a model's files, with a bound on their size. What they say is unknown here.

Published configurations are not strict JSON (`Infinity` occurs), so Python's reader is used, which
takes that. Where they are, they spell it as an object, {"__float__": "Infinity"}.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from pyrite.errors import FormatError
from pyrite.formats.foreign import advice, appearance

MAX_BYTES = 1 << 26
FLOAT = "__float__"  # of an object that stands for a number which strict JSON lacks
NUMBERS = ("Infinity", "-Infinity", "NaN")

T = TypeVar("T")


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file. Raises FormatError naming the file."""
    return parse_object(content_of(path), path.name)


def content_of(path: Path, limit: int = MAX_BYTES) -> bytes:
    """A file's bytes, of which there are at most `limit`. Raises FormatError."""
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise FormatError(f"{path}: cannot be read: {error.strerror or error}") from None
    if len(data) > limit:
        raise FormatError(f"{path.name} is larger than {limit} bytes")
    return data


def decoded(data: bytes | msgspec.Raw, kind: type[T], name: str) -> T:
    """Strict JSON of a known shape, quicker than `parse_object`. Raises FormatError."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        refuse_foreign(bytes(data), name)
        raise FormatError(f"{name}: {error}") from None
    except RecursionError:
        raise FormatError(f"{name} is nested too deep") from None


def parse_object(data: bytes, name: str) -> dict[str, Any]:
    """The object that `data` holds. Raises FormatError when it is not one, or names a key twice."""
    try:
        value = json.loads(data, object_pairs_hook=_unique)
    except _RepeatedKeyError as error:
        raise FormatError(f"{name}: the key {error.args[0]!r} occurs twice") from None
    except (ValueError, RecursionError) as error:
        refuse_foreign(data, name)
        problem = "nested too deep" if isinstance(error, RecursionError) else error
        raise FormatError(f"{name} is not JSON: {problem}") from None
    if not isinstance(value, dict):
        raise FormatError(f"{name} holds a {type(value).__name__}, and should hold an object")
    return value


def refuse_foreign(data: bytes, name: str) -> None:
    """Raises FormatError for what is known by its beginning: a pointer of Git LFS, a page."""
    looks_like = appearance(data[:512], len(data))
    if looks_like not in ("a JSON file", "text", "nothing known here"):
        problem = f"{name} is not JSON: it looks like {looks_like}"
        raise FormatError(problem, hint=advice(looks_like))


class _RepeatedKeyError(Exception):
    pass


def _unique(pairs: list[tuple[str, Any]]) -> Any:
    if len(pairs) == 1 and pairs[0][0] == FLOAT and pairs[0][1] in NUMBERS:
        return float(pairs[0][1])
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _RepeatedKeyError(key)
            seen.add(key)
    return found
