"""The server's limits: the one table that the code, the command line, documents and tests read.

Limits of single parameters are in `sampling/limits.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from pyrite.errors import ParameterError


def limit(default: float, status: int | None, words: str, *, low: float = 0) -> Any:
    """One row. `status` answers what is beyond; None where it is no answer to a request."""
    return field(default=default, metadata={"status": status, "words": words, "low": low})


class Row(NamedTuple):
    """One line of the documentation."""

    name: str
    default: float
    status: int | None
    words: str


@dataclass(frozen=True, slots=True)
class Limits:
    """Raises ParameterError for a value below what makes sense."""

    url_bytes: int = limit(8192, 414, "bytes of a request's path and query", low=64)
    headers: int = limit(128, 431, "headers of a request", low=8)
    header_bytes: int = limit(65536, 431, "bytes of a request's headers together", low=1024)
    header_seconds: float = limit(20, 408, "from a request's first byte to its body", low=0.05)
    body_bytes: int = limit(16 * 2**20, 413, "bytes of a request's body", low=1024)
    json_values: int = limit(131072, 413, "values in a request's JSON", low=100)
    body_seconds: float = limit(30, 408, "between two pieces of a request's body", low=0.05)
    connections: int = limit(8192, 503, "connections at once", low=1)
    queue: int = limit(512, 429, "requests that wait for the engine", low=1)
    choices: int = limit(128, 400, "n, and best_of, of one request", low=1)
    answers: int = limit(256, 400, "prompts times best_of of one request", low=1)
    inputs: int = limit(2048, 400, "texts of one request for vectors", low=1)
    idle_seconds: float = limit(75, None, "that a connection is kept without a request", low=1)
    first_byte_seconds: float = limit(
        10, None, "of silence until a stream says that it is waiting", low=0.05
    )
    slow_reader_seconds: float = limit(
        60, None, "that a client may read nothing of a stream", low=0.05
    )
    watchdog_seconds: float = limit(120, None, "of the engine's silence until /livez fails", low=5)

    def __post_init__(self) -> None:
        for one in fields(self):
            value, low = getattr(self, one.name), one.metadata["low"]
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= low:
                raise ParameterError(f"limit {one.name}", value, f"a number of at least {low}")


DEFAULT_LIMITS = Limits()


def rows() -> list[Row]:
    """The documentation of all limits."""
    return [
        Row(one.name, one.default, one.metadata["status"], one.metadata["words"])  # type: ignore[arg-type]
        for one in fields(Limits)
    ]


def parsed(given: Iterable[str]) -> Limits:
    """From `NAME=VALUE` texts. Raises ParameterError."""
    known = {one.name: int if one.type == "int" else float for one in fields(Limits)}
    values: dict[str, float] = {}
    for text in given:
        name, _, value = text.partition("=")
        if name not in known:
            raise ParameterError("limit", name, f"one of {', '.join(known)}")
        try:
            values[name] = known[name](value)
        except ValueError:
            raise ParameterError(f"limit {name}", value, "a number") from None
    return Limits(**values)  # type: ignore[arg-type]
