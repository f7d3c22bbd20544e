"""Who asks when: so many clients at once, or arrivals at a rate. Gives one Answer a request.

A closed loop keeps its connections, as a busy client does; arrivals come on connections of their
own. Ends by itself when the time is over: what is unanswered then is a fault.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass

from pyrite.cli.load.answer import Answer
from pyrite.cli.load.http import Address, Connection, ExchangeError, open_connection

Work = tuple[bytes, Answer]  # a request, and where its answer goes


@dataclass(frozen=True, slots=True)
class Pace:
    """Either `concurrency` clients, each asking again when it was answered, or arrivals at `rate`
    a second, whose distances are drawn from the exponential distribution (a Poisson process)."""

    concurrency: int | None = None
    rate: float | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Run:
    answers: list[Answer]
    seconds: float  # from the first request to the last end
    processor_seconds: float  # of this process


async def drive(
    address: Address, requests: Sequence[bytes], pace: Pace, *, limit_seconds: float
) -> Run:
    """Sends all requests. Faults are in the answers; nothing is raised for them."""
    answers = [Answer() for _ in requests]
    work = zip(requests, answers, strict=True)
    cpu, started = time.process_time(), time.perf_counter()
    try:
        async with asyncio.timeout(limit_seconds), asyncio.TaskGroup() as group:
            for task in _tasks(address, work, pace):
                group.create_task(task)
    except TimeoutError:
        pass
    seconds = time.perf_counter() - started
    return Run(answers, seconds, time.process_time() - cpu)


def _tasks(
    address: Address, work: Iterator[Work], pace: Pace
) -> Iterator[Coroutine[None, None, None]]:
    if pace.rate is None:
        for _ in range(pace.concurrency or 1):
            yield _client(address, work)
        return
    dice, at = random.Random(pace.seed), 0.0
    for one in work:
        yield _arrival(address, one, at)
        at += dice.expovariate(pace.rate)


async def _client(address: Address, work: Iterator[Work]) -> None:
    connection: Connection | None = None
    for request, answer in work:
        connection = await ask(address, connection, request, answer)
    if connection is not None:
        connection.close()


async def _arrival(address: Address, work: Work, seconds: float) -> None:
    await asyncio.sleep(seconds)
    connection = await ask(address, None, *work)
    if connection is not None:
        connection.close()


async def ask(
    address: Address, connection: Connection | None, request: bytes, answer: Answer
) -> Connection | None:
    """One request, on the connection or a new one; gives the one that is open now, if any."""
    answer.sent = time.perf_counter()
    try:
        if connection is None or not await _asked_again(connection, request, answer):
            connection = await open_connection(address)
            await connection.exchange(request, answer)
    except ExchangeError as error:
        answer.fail(error.kind, str(error))
    except asyncio.CancelledError:
        answer.fail("timeout", "not answered when the time was over")
        raise
    finally:
        answer.finish(time.perf_counter())
    return connection


async def _asked_again(connection: Connection, request: bytes, answer: Answer) -> bool:
    """False when a server closed the kept connection before it saw the request (RFC 9112, 9.3)."""
    try:
        await connection.exchange(request, answer)
    except ExchangeError as error:
        if error.kind != "cut" or answer.status != 0:
            raise
        return False
    return True
