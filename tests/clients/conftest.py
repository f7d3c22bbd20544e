"""The servers that the tests of real clients share, as fixtures."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
from tests.clients.harness import (
    KEY,
    Cancelled,
    close_all,
    model_path,
    num_cancelled,
    python,
    run,
    wait_cancelled,
)


@pytest.fixture(scope="session")
def told() -> Iterator[str]:
    """The URL of a server that answers what tests/clients/told_server.py tells."""
    yield from run([python(), "-m", "tests.clients.told_server"])


@pytest.fixture(scope="session")
def smollm2() -> Iterator[str]:
    """The URL of `pyrite serve` with a real model."""
    command = [python(), "-m", "pyrite", "serve", str(model_path()), "--port", "0"]
    options = ["--name", "smollm2", "--context", "2048", "--api-key", KEY]
    yield from run([*command, *options])


@pytest.fixture
def cancelled(smollm2: str) -> Cancelled:
    """Waits until a request of this test was cancelled."""
    return partial(wait_cancelled, smollm2, num_cancelled(smollm2))


@pytest.fixture(autouse=True)
def close_clients() -> Iterator[None]:
    yield
    close_all()
