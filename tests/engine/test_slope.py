"""Requests leave nothing behind: after hundreds of every kind there is no more than before."""

from __future__ import annotations

import gc
import itertools
import random
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace

from scripted import ReadingRunner, assert_idle, drive, make_engine, request

from pyrite.engine import Engine
from pyrite.request import Request
from pyrite.sampling.grammar import Grammar
from pyrite.sampling.speculate import Repetition
from pyrite.speculation import Speculation

ROUND = 60  # requests
MOST_BYTES = 40  # of Python's memory for each request, by which noise may grow it


def requests() -> Iterator[Request]:
    """Unique prompts of many keys; some repeat themselves, some follow a grammar."""
    dice = random.Random(1)
    for number in itertools.count():
        prompt = "".join(dice.choices("abcdefgh ", k=dice.randrange(1, 150)))
        params: dict[str, object] = {"max_tokens": dice.randrange(1, 12)}
        if number % 5 == 0:
            params["grammar"] = Grammar.regex("[a-z]{2,9}")
        one = request(str(number), prompt * 2 if number % 3 else prompt, **params)
        yield replace(one, tenant=f"key {number % 40}", cache_namespace=f"key {number % 40}")


def run_round(engine: Engine, source: Iterator[Request]) -> int:
    """Bytes that Python holds after it."""
    waiting = list(itertools.islice(source, ROUND))
    for start in range(0, ROUND, 8):
        for one in waiting[start : start + 8]:
            engine.add(one)
        engine.step()
        engine.cancel(waiting[start].request_id)
        drive(engine)
    assert_idle(engine)
    del waiting
    engine.runner.sizes.clear()  # the runner of tests remembers every run
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def test_hundreds_of_requests_leave_nothing_behind() -> None:
    engine = make_engine(
        ReadingRunner(num_pages=64, max_tokens=256), speculation=Speculation(Repetition())
    )
    source = requests()
    tracemalloc.start()
    try:
        held = [run_round(engine, source) for _ in range(5)]
    finally:
        tracemalloc.stop()
    assert held[-1] - held[2] < 2 * ROUND * MOST_BYTES, held
