"""Compares scheduling policies on recorded arrivals: the real scheduler under a clock of its own.

    python benchmarks/policies.py            # the table of benchmarks/NOTES.md
    python benchmarks/policies.py --record   # writes benchmarks/arrivals.csv anew, from its seed

A step takes as long as the cost model says, so that a run of minutes is computed in seconds and
gives the same numbers on every machine. The arrivals: a chat service whose prompts begin alike,
someone who asks about long documents, and someone who empties a heap of prompts on the server.
The crowd: 32 prompts of 512 tokens at once, 128 tokens out, as `serving.py --scenarios own` asks.
"""

from __future__ import annotations

import argparse
import csv
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

import numpy as np

from pyrite.kv.cache import PageCache, PageTable
from pyrite.kv.pages import PagePool
from pyrite.scheduler import Policy, Scheduler
from pyrite.sequence import Sequence, Slice

ARRIVALS = Path(__file__).with_name("arrivals.csv")
COUNTS = ("prompt", "alike", "answer")
SEED = 3
NUM_PAGES = 1024
MAX_BATCH_TOKENS = 512

# Seconds, SmolLM2-135M Q4_1 with AVX2 and two threads at 600 positions: see NOTES.md.
STEP, STREAM, PROMPT_TOKEN = 0.003, 0.0020, 0.00103


@dataclass(frozen=True)
class Arrival:
    seconds: float
    tenant: str
    prompt: int  # tokens
    alike: int  # of them, the same in all prompts of the tenant
    answer: int  # tokens


CROWD = [Arrival(0.0, "", 512, 0, 128)] * 32


@dataclass
class Life:
    """What became of one arrival: when each of its tokens came."""

    arrival: Arrival
    times: list[float] = field(default_factory=list)

    @property
    def first(self) -> float:
        return self.times[0] - self.arrival.seconds

    @property
    def gaps(self) -> np.ndarray:
        return np.diff(self.times)


def generated(seed: int) -> Iterator[Arrival]:
    """A minute of arrivals, about as many as can be served."""
    dice = random.Random(seed)
    at = 0.0
    while (at := at + dice.expovariate(1.2)) < 60:
        yield Arrival(round(at, 3), "chat", 400 + dice.randint(30, 250), 400, dice.randint(20, 160))
    at = 0.0
    while (at := at + dice.expovariate(0.1)) < 60:
        yield Arrival(round(at, 3), "documents", dice.randint(800, 2500), 0, dice.randint(30, 90))
    for _ in range(30):
        at = round(20 + dice.random(), 3)
        yield Arrival(at, "heap", dice.randint(300, 900), 0, dice.randint(20, 60))


def record(path: Path) -> None:
    with path.open("w", newline="") as file:
        rows = csv.DictWriter(file, [one.name for one in fields(Arrival)], lineterminator="\n")
        rows.writeheader()
        rows.writerows(asdict(one) for one in sorted(generated(SEED), key=lambda one: one.seconds))


def recorded(path: Path) -> list[Arrival]:
    with path.open(newline="") as file:
        return [
            Arrival(float(row["seconds"]), row["tenant"], *(int(row[k]) for k in COUNTS))
            for row in csv.DictReader(file)
        ]


def seconds_of(slices: list[Slice]) -> float:
    streams = sum(work.num_tokens == 1 for work in slices)
    tokens = sum(work.num_tokens for work in slices if work.num_tokens > 1)
    return STEP + STREAM * streams + PROMPT_TOKEN * tokens


def simulate(
    arrivals: list[Arrival], policy: Policy, *, is_fair: bool, is_cached: bool
) -> list[Life]:
    scheduler = Scheduler(PageCache(PagePool(NUM_PAGES), is_on=is_cached), policy)
    lives = {str(number): Life(arrival) for number, arrival in enumerate(arrivals)}
    waiting = [sequence_of(name, life.arrival, is_fair) for name, life in lives.items()]
    now = 0.0
    while waiting or scheduler.has_work:
        while waiting and lives[waiting[0].request_id].arrival.seconds <= now:
            scheduler.add(waiting.pop(0))
        if not scheduler.has_work:
            now = lives[waiting[0].request_id].arrival.seconds
            continue
        slices = scheduler.schedule()
        scheduler.cache.run_copies(lambda source, target: None)
        now += seconds_of(slices)
        for work in slices:
            finish(scheduler, work, lives[work.sequence.request_id], now)
    return list(lives.values())


def sequence_of(name: str, arrival: Arrival, is_fair: bool) -> Sequence:
    alike = [len(arrival.tenant)] * arrival.alike
    ids = alike + [1000 + int(name)] * (arrival.prompt - arrival.alike)
    tenant = arrival.tenant if is_fair else ""
    total = arrival.prompt + arrival.answer
    return Sequence(name, arrival.prompt, total, tenant=tenant, table=PageTable(ids))


def finish(scheduler: Scheduler, work: Slice, life: Life, now: float) -> None:
    sequence = work.sequence
    if work.reaches_end:
        life.times.append(now)
        ids = sequence.table.token_ids
        assert isinstance(ids, list)
        ids.append(len(ids))
    scheduler.commit(work, 1 if work.reaches_end else 0)
    if sequence.num_tokens == sequence.max_length:
        scheduler.remove(sequence)


def report(name: str, lives: list[Life], crowd: list[Life]) -> str:
    chat = [life for life in lives if life.arrival.tenant == "chat"]
    figures = [*firsts(lives), *firsts(chat), *gaps(lives), f"{rate(lives):.1f}"]
    return (
        f"| {name} | "
        + " | ".join([*figures, *firsts(crowd), *gaps(crowd), f"{rate(crowd):.1f}"])
        + " |"
    )


def firsts(lives: list[Life]) -> list[str]:
    """Seconds at p50 and p99."""
    found = [life.first for life in lives]
    return [f"{np.percentile(found, share):.2f}" for share in (50, 99)]


def gaps(lives: list[Life]) -> list[str]:
    """Milliseconds at p50 and p99."""
    found = np.concatenate([life.gaps for life in lives])
    return [f"{1000 * np.percentile(found, share):.0f}" for share in (50, 99)]


def rate(lives: list[Life]) -> float:
    return sum(len(life.times) for life in lives) / max(life.times[-1] for life in lives)


class Steady(Policy):
    """As many tokens for prompts beside streams, however many wait."""

    def chunk(self, crowd: int) -> int:
        return self.prefill_chunk


def policies() -> Iterator[tuple[str, Policy, bool, bool]]:
    """Name, numbers, whether tenants count, whether there is a prefix cache."""
    whole = Steady(MAX_BATCH_TOKENS, prefill_chunk=MAX_BATCH_TOKENS)
    yield "first come, whole budget, no cache", whole, False, False
    yield "first come, whole budget", whole, False, True
    yield "fair, whole budget", whole, True, True
    for chunk in (256, 112, 32):
        yield f"fair, always {chunk}", Steady(MAX_BATCH_TOKENS, prefill_chunk=chunk), True, True
    for chunk in (256, 112, 64, 32):
        yield f"fair, from {chunk} on", Policy(MAX_BATCH_TOKENS, prefill_chunk=chunk), True, True
    for tokens in (0, 2048):
        policy = Policy(MAX_BATCH_TOKENS, fair_tokens=tokens)
        yield f"fair within {tokens} tokens", policy, True, True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true")
    if parser.parse_args().record:
        record(ARRIVALS)
    arrivals = recorded(ARRIVALS)
    figures = "TTFT p50 s | p99 | chat p50 | p99 | gap p50 ms | p99 | tokens/s"
    print(f"| policy | {figures} | crowd: TTFT p50 s | p99 | gap p50 ms | p99 | tokens/s |")
    print("| --- " * 13 + "|")
    for name, policy, is_fair, is_cached in policies():
        lives, crowd = (
            simulate(some, policy, is_fair=is_fair, is_cached=is_cached)
            for some in (arrivals, CROWD)
        )
        print(report(name, lives, crowd))


if __name__ == "__main__":
    main()
