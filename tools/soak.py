"""Serves a mixed load for as long as asked, and finds what grows: memory, descriptors, latency.

    make soak SOAK_SECONDS=600            (or: python tools/soak.py MODEL --seconds 600)

With --lora NAME=PATH as many requests ask for each adapter as for the model alone. A server of its
own on loopback; prompts of their own and with a prefix in common, a fifth of the
clients gone in the midst or in the queue, log-probabilities, grammars, refused requests, slow
readers. A first part warms everything up, with pages for keys and values too few for all, so that
the pool is full by then. Between two rests, with nothing to do, nothing may have grown:

- anonymous memory (resident and swapped) of all processes: less than 1 KB a request;
- descriptors, threads, processes; pages in use, requests running or waiting: none;
- the p99 of a plain stream, the second half against the first: less than a tenth;
- no 5xx, no stream cut, no reply that is not what was asked for.

Ends with status 1 and the list of what failed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "benchmarks"))

from soak_requests import KINDS, Client

import servers
from processes import Sample, sample
from pyrite.cli.load.http import ExchangeError, encode_request, open_connection, parse_url
from pyrite.cli.load.single import Whole
from pyrite.cli.load.summary import percentile
from pyrite.formats import hub
from pyrite.models.adapters import named

WARM_UP = 0.2  # of the seconds, and up to half of them until there were
WARM_UP_REQUESTS = 500
REST_SECONDS = 4.0
STUCK_SECONDS = 120.0  # no request takes so long
MOST_BYTES = 1024  # that a request may leave behind
NOISE_BYTES = 4 << 20  # of an allocator; growth below it is no growth in a short soak
MORE_THREADS = 8  # that pools of threads may still start after the first part
FEWEST = 100  # streams in each half, to tell a p99
GAUGES = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")


@dataclass
class Tally:
    """What happened so far."""

    kinds: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)

    @property
    def requests(self) -> int:
        return self.kinds.total()


@dataclass(frozen=True)
class Rest:
    """The server with nothing to do."""

    requests: int
    held: Sample
    gauges: dict[str, float]


async def load(clients: Sequence[Client], tally: Tally, seconds: float) -> None:
    """All clients ask until the time is over; what is under way then is finished."""
    end = time.monotonic() + seconds

    async def one(client: Client) -> None:
        while time.monotonic() < end:
            await ask(client, tally)

    async with asyncio.TaskGroup() as group:
        for client in clients:
            group.create_task(one(client))


async def ask(client: Client, tally: Tally) -> None:
    kind = client.dice.choices(list(KINDS), weights=list(KINDS.values()))[0]
    name = kind.__name__  # type: ignore[attr-defined]
    try:
        async with asyncio.timeout(STUCK_SECONDS):
            fault = await kind(client)
    except ExchangeError as error:
        fault = f"{error.kind}: {error}"
    except TimeoutError:
        fault = f"no answer in {STUCK_SECONDS:.0f} s"
    except (ValueError, LookupError, TypeError) as error:
        fault = f"a reply of another form: {error!r}"
    tally.kinds[name] += 1
    if fault is not None:
        tally.faults[f"{name}: {fault}"] += 1


async def rest(server: servers.Running, clients: Sequence[Client], tally: Tally) -> Rest:
    """Closes all connections, waits, and looks."""
    for client in clients:
        if client.connection is not None:
            client.connection.close()
    await asyncio.sleep(REST_SECONDS)
    return Rest(tally.requests, sample(server.pids), await gauges(server))


async def gauges(server: servers.Running) -> dict[str, float]:
    address = parse_url(server.url.removesuffix("/v1"))
    connection, reply = await open_connection(address), Whole()
    await connection.exchange(encode_request(address, "/metrics", None, {}), reply)
    connection.close()
    text = reply.body.decode()
    found = {}
    for name in GAUGES:
        values = re.findall(rf"^vllm:{name}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE)
        found[name] = float(values[0]) if values else float("nan")
    return found


def drift(clients: Sequence[Client]) -> tuple[float, float] | None:
    """The p99 of plain streams in the first and the second half; None where they are few."""
    seconds = sorted(one for client in clients for one in client.seconds)
    half = len(seconds) // 2
    if half < FEWEST:
        return None
    parts = (seconds[:half], seconds[half:])
    first, second = (percentile(sorted(long for _, long in part), 99) for part in parts)
    return first, second


def judge(
    before: Rest, after: Rest, tally: Tally, change: tuple[float, float] | None, limit: float
) -> list[str]:
    """What failed, in words."""
    wrong = [f"{count} x {fault}" for fault, count in tally.faults.most_common(20)]
    requests = max(1, after.requests - before.requests)
    grown = after.held.private_bytes - before.held.private_bytes
    if grown > max(NOISE_BYTES, MOST_BYTES * requests):
        wrong.append(f"memory grew by {grown / requests:.0f} bytes a request")
    for name in ("descriptors", "threads", "processes"):
        first, last = getattr(before.held, name), getattr(after.held, name)
        if last > first + (MORE_THREADS if name == "threads" else 0):
            wrong.append(f"{name} grew from {first} to {last}")
    wrong += [f"{name} is {value:g} at rest" for name, value in after.gauges.items() if value != 0]
    if change is not None and change[1] > change[0] * (1 + limit):
        wrong.append(f"p99 of streams went from {change[0]:.3f} to {change[1]:.3f} s")
    return wrong


def report(before: Rest, after: Rest, tally: Tally, change: tuple[float, float] | None) -> str:
    requests = max(1, after.requests - before.requests)
    grown = after.held.private_bytes - before.held.private_bytes
    return "\n".join(
        [
            f"requests      {dict(tally.kinds)}",
            f"before        {before.held} after {before.requests} requests",
            f"after         {after.held} after {after.requests} requests",
            f"growth        {grown / requests:.0f} bytes a request, {grown / 2**20:.2f} MiB in all",
            f"p99, halves   {change or 'too few streams to tell'}",
            f"at rest       {after.gauges}",
        ]
    )


async def soak(server: servers.Running, options: argparse.Namespace) -> int:
    address = parse_url(server.url.removesuffix("/v1"))
    dice = random.Random(options.seed)
    models = ("soak", *(named(adapter)[0] for adapter in options.lora))
    clients = [
        Client(address, random.Random(dice.random()), models) for _ in range(options.clients)
    ]
    tally = Tally()
    started = time.monotonic()
    await load(clients, tally, options.seconds * WARM_UP)
    while tally.requests < WARM_UP_REQUESTS and time.monotonic() - started < options.seconds / 2:
        await load(clients, tally, options.seconds / 20)
    before = await rest(server, clients, tally)
    for client in clients:
        client.seconds.clear()
    await load(clients, tally, options.seconds - (time.monotonic() - started))
    after = await rest(server, clients, tally)
    change = drift(clients)
    print(report(before, after, tally, change))
    wrong = judge(before, after, tally, change, options.drift)
    print("\n".join(["soak: FAILED", *wrong]) if wrong else "soak: passed")
    return 1 if wrong else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default="smollm2")
    parser.add_argument(
        "--seconds", type=float, default=float(os.environ.get("SOAK_SECONDS", "600"))
    )
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--kv-bytes", type=int, default=24 << 20)
    parser.add_argument("--lora", action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--drift", type=float, default=0.1, help="of the p99 that may be")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    path = Path(options.model)
    command = servers.ours(
        path if path.exists() else hub.resolve(options.model),
        threads=options.threads,
        context=options.context,
        more=[
            *("--kv-bytes", str(options.kv_bytes), "--alias", "*"),
            *(word for adapter in options.lora for word in ("--lora", adapter)),
        ],
    )
    print(f"soak: {json.dumps(vars(options))}", flush=True)
    with servers.running(command) as server:
        return asyncio.run(soak(server, options))


if __name__ == "__main__":
    sys.exit(main())
