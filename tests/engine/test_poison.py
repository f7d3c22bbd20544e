"""Pages that were given back hold NaN: whoever still reads one, or one not yet written, is found.

Real weights on the CPU backend, a pool too small for all, and a neighbour that is cancelled at each
step in turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite.engine import Engine
from pyrite.llm import Model
from pyrite.request import Request
from pyrite.sampling.params import SamplingParams

LENGTHS = {"short": 20, "long": 60, "middle": 33}
NAN = 0x7FFF  # of float16


def poison(engine: Engine) -> None:
    """From now on a page without an owner holds nothing but NaN."""
    runner: Any = engine.runner
    pages = runner.pages.view(np.uint16)
    pages[:] = NAN
    pool = engine.scheduler.cache.pool
    give_back = pool.give_back

    def poisoned(numbers: Iterable[int]) -> None:
        numbers = list(numbers)
        give_back(numbers)
        pages[[number for number in numbers if not pool.is_held(number)]] = NAN

    pool.give_back = poisoned  # type: ignore[method-assign]


def requests() -> list[Request]:
    dice = np.random.default_rng(4)
    params = SamplingParams(temperature=0, max_tokens=24, ignore_eos=True, logprobs=1)
    return [
        Request(name, tuple(dice.integers(3, 380, length).tolist()), params)
        for name, length in LENGTHS.items()
    ]


def results(engine: Engine, cancel_at: int | None = None) -> dict[str, list[Any]]:
    """Token and log-probability of each step, by request; "long" is cancelled at that step."""
    for one in requests():
        engine.add(one)
    found: dict[str, list[Any]] = {name: [] for name in LENGTHS}
    step = 0
    while engine.has_work:
        if step == cancel_at:
            engine.cancel("long")
        for delta in engine.step():
            assert delta.error is None
            found[delta.request_id] += zip(delta.token_ids, delta.logprobs, strict=True)
        engine.check()
        step += 1
    assert engine.scheduler.cache.num_free == engine.runner.num_pages
    return found


def load(golden: Path, **settings: Any) -> Model:
    path = golden / "gguf_models" / "llama_q4_0.gguf"
    return pyrite.load(path, threads=1, context=96, **settings)


@pytest.fixture(scope="module")
def expected(golden: Path) -> dict[str, list[Any]]:
    with load(golden) as model:
        return results(model.loaded.engine)


@pytest.fixture(scope="module")
def tight(golden: Path) -> Iterator[Engine]:
    """Four pages for requests that want seven together; sixteen tokens a step."""
    with load(golden, kv_pages=4, max_batch_tokens=16) as model:
        poison(model.loaded.engine)
        yield model.loaded.engine


def test_preempted_among_poisoned_pages(tight: Engine, expected: dict[str, list[Any]]) -> None:
    before = tight.scheduler.num_preemptions
    assert results(tight) == expected
    assert tight.scheduler.num_preemptions > before


@pytest.mark.parametrize("step", range(40))
def test_a_neighbour_cancelled_at_any_step(
    tight: Engine, expected: dict[str, list[Any]], step: int
) -> None:
    found = results(tight, cancel_at=step)
    cut = found.pop("long")
    assert cut == expected["long"][: len(cut)]
    assert found == {name: expected[name] for name in found}
