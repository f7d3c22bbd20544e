"""A thousand idle connections, then a thousand that stream: none lost, and what each costs.

    python benchmarks/connections.py [MODEL.gguf] [--idle 1000] [--streams 1000] [--tokens 32]

Against a server of its own on loopback, with a tiny random model unless one is named: what is
measured is connections, not products of matrices. Memory is anonymous memory of all of the server's
processes, at its most, less what they held before. Ends with status 1 when a connection was lost.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import sys
from pathlib import Path

import servers
from processes import Sample, processor_seconds, sample
from pyrite.cli.load.drive import Pace, drive
from pyrite.cli.load.http import (
    Address,
    Connection,
    ExchangeError,
    encode_request,
    open_connection,
    parse_url,
)
from pyrite.cli.load.prompts import Prompt
from pyrite.cli.load.summary import Spread, summarize
from pyrite.cli.load.target import Target

TINY = Path(__file__).parent.parent / "tests" / "golden" / "gguf_models" / "llama_q4_0.gguf"
AT_ONCE = 100  # connections that are being opened
PROMPT = Prompt("", "one two three")


class Nothing:
    """A sink for replies whose status alone matters."""

    status = 0

    def begin(self, status: int, seconds: float) -> None:
        self.status = status

    def take(self, data: bytes, seconds: float) -> None:
        pass


def raise_limit(needed: int) -> None:
    """The server inherits it. Raises SystemExit where the system allows fewer descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < needed:
        raise SystemExit(f"{needed} descriptors are needed, and {hard} allowed (ulimit -n)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))


async def is_alive(address: Address, connection: Connection) -> bool:
    reply = Nothing()
    try:
        await connection.exchange(encode_request(address, "/livez", None, {}), reply)
    except ExchangeError:
        return False
    return reply.status == 200


async def idle(server: servers.Running, before: Sample, count: int, seconds: float) -> int:
    """Opens connections, asks on each, leaves them, asks again; gives how many are lost."""
    address = parse_url(server.url.removesuffix("/v1"))
    gate = asyncio.Semaphore(AT_ONCE)

    async def opened() -> Connection | None:
        async with gate:
            try:
                connection = await open_connection(address)
            except ExchangeError:
                return None
            return connection if await is_alive(address, connection) else None

    found = await asyncio.gather(*(opened() for _ in range(count)))
    connections = [one for one in found if one is not None]
    await asyncio.sleep(seconds)
    held = sample(server.pids)
    alive = await asyncio.gather(*(is_alive(address, one) for one in connections))
    for connection in connections:
        connection.close()
    lost = count - sum(alive)
    cost = each(before, held, count)
    print(f"idle       {count} connections for {seconds:.0f} s: {lost} lost; {cost}")
    return lost


def each(before: Sample, held: Sample, count: int) -> str:
    grown = held.private_bytes - before.private_bytes
    return f"{grown / 1024 / count:.1f} KB each ({grown / 2**20:.1f} MiB)"


async def streams(
    server: servers.Running, before: Sample, count: int, tokens: int, limit: float
) -> int:
    """All at once, each on a connection of its own; gives how many were not answered in whole."""
    fields = {"ignore_eos": True, "temperature": 0}
    target = Target(parse_url(server.url), "tiny", "completions", fields=fields)
    requests = [target.encode_stream(PROMPT, tokens)] * count
    spent = processor_seconds(server.pid)
    most = asyncio.ensure_future(watch(server, before))
    run = await drive(target.address, requests, Pace(concurrency=count), limit_seconds=limit)
    most.cancel()
    (held,) = await asyncio.gather(most)
    summary = summarize(run)
    lost = count - summary.answered
    print(f"streaming  {count} at once, {tokens} tokens: {lost} lost {summary.faults or ''}")
    print(f"           {summary.first_fault or each(before, held, count)}")
    print(f"           {summary.output_tokens_per_second:.0f} tokens/s in {summary.seconds:.1f} s")
    print(f"           first token {shown(summary.first_token)}; gap {shown(summary.gap)}")
    spent = (processor_seconds(server.pid) - spent) / max(1, summary.output_tokens)
    print(f"           HTTP took {spent * 1e6:.0f} us of processor a token")
    print(f"           this client took {summary.client_core_share:.0%} of a core")
    return lost


async def watch(server: servers.Running, most: Sample) -> Sample:
    """The sample with the most memory, until it is cancelled."""
    try:
        while True:
            most = max(most, sample(server.pids), key=lambda one: one.private_bytes)
            await asyncio.sleep(0.5)
    except asyncio.CancelledError:
        return most


def shown(spread: Spread) -> str:
    return f"p50 {spread.p50 or 0:.2f}, p99 {spread.p99 or 0:.2f}, max {spread.max or 0:.2f} s"


async def measure(server: servers.Running, options: argparse.Namespace) -> int:
    target = Target(parse_url(server.url), "tiny", "completions")
    warm = [target.encode_stream(PROMPT, 4)] * 32
    await drive(target.address, warm, Pace(concurrency=8), limit_seconds=60)
    before = sample(server.pids)
    lost = await idle(server, before, options.idle, options.seconds)
    lost += await streams(server, before, options.streams, options.tokens, options.timeout)
    return 1 if lost else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", type=Path, default=TINY)
    parser.add_argument("--idle", type=int, default=1000)
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=10, help="that idle ones are left alone")
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=300)
    options = parser.parse_args()
    raise_limit(2 * max(options.idle, options.streams) + 256)
    more = ["--alias", "*", "--limit", f"queue={options.streams + 64}"]
    command = servers.ours(options.model, threads=options.threads, context=128, more=more)
    print(f"machine: {os.cpu_count()} processors, load now {os.getloadavg()[0]:.1f}")
    with servers.running(command) as server:
        return asyncio.run(measure(server, options))


if __name__ == "__main__":
    sys.exit(main())
