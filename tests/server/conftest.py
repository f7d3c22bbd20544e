"""Servers that the tests of a module share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.server.harness import Served, file_server, scripted_server


@pytest.fixture(scope="module")
def scripted() -> Iterator[Served]:
    """Answers with hashed logits; see tests/engine/scripted.py."""
    with scripted_server() as served:
        yield served


@pytest.fixture(scope="module")
def smollm2(smollm2_path: Path) -> Iterator[Served]:
    """`pyrite serve` on the real model, in processes of its own."""
    with file_server(smollm2_path, "--name", "smollm2", "--context", "2048") as served:
        yield served
