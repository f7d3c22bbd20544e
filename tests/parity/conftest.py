"""Runs every parity test that asks for `row` on each backend."""

from __future__ import annotations

import pytest
from rows import BACKENDS, Row


@pytest.fixture(params=BACKENDS, ids=lambda row: row.name)
def row(request) -> Row:
    return request.param
