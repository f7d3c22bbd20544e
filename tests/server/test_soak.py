"""What `make soak` asks and how it judges; the soak itself takes as long as one gives it."""

from __future__ import annotations

import asyncio
import random
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.server.harness import Served

from pyrite.cli.load.http import parse_url

TOOLS = Path(__file__).parents[2] / "tools"
sys.path.append(str(TOOLS))

import soak  # noqa: E402
import soak_requests  # noqa: E402

from processes import Sample, sample  # noqa: E402

HELD = Sample(
    private_bytes=100 << 20, descriptors=22, threads=8, processes=2, processor_seconds=9.0
)
IDLE = dict.fromkeys(soak.GAUGES, 0.0)


@pytest.mark.model
@pytest.mark.parametrize("kind", soak_requests.KINDS, ids=lambda kind: kind.__name__)
def test_every_kind_is_answered_as_it_should_be(smollm2: Served, kind: Any) -> None:
    async def asked() -> list[str | None]:
        client = soak_requests.Client(parse_url(smollm2.url), random.Random(1), models=("smollm2",))
        found = [await kind(client) for _ in range(2)]
        if client.connection is not None:
            client.connection.close()
        return found

    assert asyncio.run(asked()) == [None, None]


def judged(after: Sample = HELD, requests: int = 5000, **more: Any) -> list[str]:
    tally = soak.Tally()
    tally.faults.update(more.get("faults", {}))
    gauges = IDLE | more.get("gauges", {})
    return soak.judge(
        soak.Rest(500, HELD, IDLE),
        soak.Rest(500 + requests, after, gauges),
        tally,
        more.get("change"),
        0.1,
    )


def grown(**by: int) -> Sample:
    return replace(HELD, **{name: getattr(HELD, name) + more for name, more in by.items()})


def test_nothing_grew() -> None:
    assert judged() == []
    assert judged(grown(private_bytes=4 << 20), requests=100) == [], "an allocator's noise"
    assert judged(grown(private_bytes=5 << 20), requests=50_000) == []
    assert judged(grown(threads=3)) == [], "pools of threads"
    assert judged(change=(1.0, 1.09)) == []


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"after": grown(private_bytes=6 << 20)}, "memory grew by 1258 bytes a request"),
        ({"after": grown(descriptors=1)}, "descriptors grew from 22 to 23"),
        ({"after": grown(threads=9)}, "threads grew"),
        ({"after": grown(processes=1)}, "processes grew"),
        ({"gauges": {"kv_cache_usage_perc": 0.1}}, "kv_cache_usage_perc is 0.1 at rest"),
        ({"gauges": {"num_requests_running": float("nan")}}, "num_requests_running is nan"),
        ({"change": (1.0, 1.2)}, "p99 of streams went from 1.000 to 1.200"),
        ({"faults": {"plain: 500: lost": 2}}, "2 x plain: 500: lost"),
    ],
)
def test_what_grew_is_told(found: dict[str, Any], said: str) -> None:
    wrong = judged(**found)
    assert len(wrong) == 1
    assert said in wrong[0]


def test_a_sample_of_this_process() -> None:
    import os

    held = sample([os.getpid()])
    assert held.private_bytes > 1 << 20
    assert held.descriptors >= 3
    assert held.threads >= 1
    with pytest.raises(OSError, match="No such file"):
        sample([2**22 + 1])
