"""How long fuzzing takes: `make test` runs each target a fixed, repeatable number of times; `make
fuzz` (PYRITE_FUZZ=long) draws new inputs each round and keeps those that failed.

A target sets `max_examples` alone; deadlines and seeds are set here.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]

settings.register_profile(
    "quick", deadline=None, derandomize=True, database=None, suppress_health_check=SLOW
)
settings.register_profile("long", deadline=None, suppress_health_check=SLOW)
settings.load_profile("long" if os.environ.get("PYRITE_FUZZ") == "long" else "quick")
