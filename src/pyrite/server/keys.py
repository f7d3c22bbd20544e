"""API keys: who may ask, how much, and how often.

A key is known by its SHA-256 alone once it is read. Every comparison takes the same time, however
much of a key is right. Knows no HTTP.
"""

from __future__ import annotations

import hashlib
import hmac
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyrite.errors import ParameterError

FIELDS = ("name", "key", "sha256", "requests_per_minute", "tokens_per_minute", "concurrency")


@dataclass(frozen=True, slots=True)
class Key:
    """One client's key and its allowance; None is no limit."""

    name: str
    digest: bytes  # SHA-256 of the key
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None  # of prompts and answers together
    concurrency: int | None = None  # requests at once


class Keyring:
    """All keys of a server. An empty one asks for none."""

    def __init__(self, keys: Iterable[Key] = ()) -> None:
        self.keys = tuple(keys)
        names = [key.name for key in self.keys]
        if len(set(names)) < len(names):
            raise ParameterError("keys", sorted(names), "with each name once")

    def find(self, presented: bytes) -> Key | None:
        digest = hashlib.sha256(presented).digest()
        found = None
        for key in self.keys:  # all of them, always
            if hmac.compare_digest(key.digest, digest):
                found = key
        return found


def plain_keys(texts: Iterable[str]) -> list[Key]:
    """Keys of the command line and the environment: named by their number, without limits."""
    return [
        Key(f"key-{number}", digest_of(text, "api-key")) for number, text in enumerate(texts, 1)
    ]


def digest_of(text: str, where: str) -> bytes:
    """Raises ParameterError for an empty key; the key itself is never shown."""
    if not text.strip():
        raise ParameterError(where, "", "not empty")
    return hashlib.sha256(text.encode()).digest()


def read_keys(path: Path) -> list[Key]:
    """Of a TOML file: tables `[[key]]` with a name, `key` or `sha256`, and limits.

    Raises ParameterError, OSError.
    """
    try:
        tables = tomllib.loads(path.read_text()).get("key")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ParameterError("keys", path.name, f"TOML: {error}") from None
    if not isinstance(tables, list) or not all(isinstance(one, dict) for one in tables):
        raise ParameterError("keys", path.name, "a file with tables [[key]]")
    return [key_of(table, number) for number, table in enumerate(tables, 1)]


def key_of(table: dict[str, Any], number: int) -> Key:
    where = f"keys[{number}]"
    for field in table:
        if field not in FIELDS:
            raise ParameterError(f"{where}.{field}", "...", f"one of {', '.join(FIELDS)}")
    name = table.get("name")
    if not isinstance(name, str) or not name:
        raise ParameterError(f"{where}.name", name, "a text")
    return Key(
        name,
        secret_of(table, where),
        positive(table, where, "requests_per_minute"),
        positive(table, where, "tokens_per_minute"),
        None if (most := positive(table, where, "concurrency")) is None else int(most),
    )


def secret_of(table: dict[str, Any], where: str) -> bytes:
    if isinstance(text := table.get("key"), str):
        return digest_of(text, f"{where}.key")
    try:
        digest = bytes.fromhex(table["sha256"])
    except (KeyError, ValueError, TypeError):
        digest = b""
    if len(digest) != 32:
        raise ParameterError(f"{where}.sha256", "...", "64 hexadecimal digits, or `key` a text")
    return digest


def positive(table: dict[str, Any], where: str, name: str) -> float | None:
    value = table.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 1:
        raise ParameterError(f"{where}.{name}", value, "a number of at least 1")
    return float(value)
