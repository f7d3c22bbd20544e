"""A bound on time that `make fuzz` alone looks at: no test of `make test` fails by the clock."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def soon(seconds: float) -> Iterator[None]:
    """What runs inside takes so much processor time at most, all threads together."""
    started = time.process_time()
    yield
    taken = time.process_time() - started
    assert taken < seconds or os.environ.get("PYRITE_FUZZ") != "long", taken
