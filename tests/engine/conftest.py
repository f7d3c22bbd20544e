"""Makes `scripted` importable by the tests beside it; what is written to a disk is waited for."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.patience import PATIENCE

from pyrite.keeper import Keeper

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def patient_keeper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Keeper.close, "__defaults__", (PATIENCE,))
