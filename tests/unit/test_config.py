"""The cache folder and the settings: what is taken, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyrite.config import Settings, cache_home
from pyrite.errors import ParameterError


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"PYRITE_HOME": "/a/b", "XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/a/b"),
        ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/pyrite"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/h"}, "/h/.cache/pyrite"),
        ({"PYRITE_HOME": "", "HOME": "/h"}, "/h/.cache/pyrite"),
    ],
)
def test_cache_home(environment: dict[str, str], expected: str) -> None:
    assert cache_home(environment) == Path(expected)


def test_cache_home_reads_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYRITE_HOME", "/somewhere")
    assert Settings().cache == Path("/somewhere")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("context", 0),
        ("context", -1),
        ("context", 2**31),
        ("context", 1.5),
        ("context", True),
        ("kv_pages", 0),
        ("kv_bytes", "1G"),
        ("max_batch_tokens", None),
        ("max_batch_tokens", 0),
        ("threads", 0),
        ("threads", 1025),
        ("precision", "int8"),
        ("kv_type", "q4"),
        ("numa", "on"),
        ("kv_store_bytes", 0),
        ("kv_store_bytes", 1.5),
        ("precision", []),
        ("backend", "gpu"),
    ],
)
def test_settings_out_of_range(name: str, value: object) -> None:
    with pytest.raises(ParameterError, match=name):
        Settings(**{name: value})  # type: ignore[arg-type]


def test_pages_and_bytes_exclude_each_other() -> None:
    with pytest.raises(ParameterError, match="kv_pages"):
        Settings(kv_pages=4, kv_bytes=4096)
