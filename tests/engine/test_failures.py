"""A request can fail only itself, and what it took is free again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scripted import (
    ReadingRunner,
    Result,
    alone,
    assert_idle,
    drive,
    hashed,
    make_engine,
    request,
    take_step,
)

from pyrite.backends.base import Batch
from pyrite.errors import BackendError

FRIENDS = ("good", "fine", "well")


def friends() -> list[Any]:
    return [request(name, name * 9, max_tokens=20) for name in FRIENDS]


def assert_unharmed(results: dict[str, Result]) -> None:
    for one in friends():
        assert results[one.request_id].token_ids == alone(one).token_ids
        assert results[one.request_id].last.error is None


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("after", [0, 3])
def test_numbers_that_are_not_finite_end_that_request_alone(value: float, after: int) -> None:
    def logits(history: tuple[int, ...]) -> Any:
        row = hashed(history)
        if history[:3] == tuple(b"bad") and len(history) >= 3 + after:
            row[17] = value
        return row

    engine = make_engine(ReadingRunner(logits))
    results = drive(engine, [request("bad", "bad", max_tokens=20), *friends()])
    last = results["bad"].last
    assert last.finish_reason == "error"
    assert isinstance(last.error, BackendError)
    assert "finite" in str(last.error)
    assert last.usage is not None
    assert len(results["bad"].token_ids) == last.usage.completion_tokens == after
    assert_unharmed(results)
    assert_unharmed(drive(engine, friends()))


def test_a_run_that_fails_with_one_request_fails_that_one_alone() -> None:
    def fails(_: int, batch: Batch) -> bool:
        return bool((batch.token_ids == ord("!")).any())

    runner = ReadingRunner()
    runner.fails = fails
    results = drive(make_engine(runner), [*friends(), request("bad", "oh!", max_tokens=5)])
    assert isinstance(results["bad"].last.error, BackendError)
    assert results["bad"].last.finish_reason == "error"
    assert_unharmed(results)


@pytest.mark.parametrize("number", range(1, 25))
def test_run_fails_at_the_nth_step(number: int) -> None:
    """Alone: that request fails. In company: it is repeated for each by itself, and none fails."""
    runner = ReadingRunner(num_pages=4, max_tokens=16)
    runner.fails = lambda run, _: run == number
    engine = make_engine(runner, context=128)
    results = drive(engine, friends())
    failed = {name for name, result in results.items() if result.last.error}
    assert len(failed) <= 1
    expected = {one.request_id: alone(one).token_ids for one in friends()}
    for name, result in results.items():
        length = len(result.token_ids)
        assert result.token_ids == expected[name][:length]
        assert length == 20 or name in failed
    runner.fails = lambda run, _: False
    assert_unharmed(drive(engine, friends()))


def test_every_run_fails() -> None:
    runner = ReadingRunner()
    runner.fails = lambda run, _: True
    engine = make_engine(runner)
    results = drive(engine, friends())
    assert all(isinstance(result.last.error, BackendError) for result in results.values())
    assert len(results) == len(FRIENDS)
    runner.fails = lambda run, _: False
    assert_unharmed(drive(engine, friends()))


@pytest.mark.parametrize("number", range(1, 12))
def test_the_sampler_fails_at_the_nth_token(number: int) -> None:
    engine = make_engine(ReadingRunner())
    engine.add(request("bad", "bad", max_tokens=20))
    sampler = engine._active["bad"][0].sampler
    sample = engine._sampler.sample

    def failing(samplers: list[Any], logits: Any, *rest: Any) -> Any:
        if sampler in samplers and sampler.num_accepted == number - 1:
            raise RuntimeError("the sampler broke")
        return sample(samplers, logits, *rest)

    engine._sampler.sample = failing  # type: ignore[method-assign, assignment]
    results = drive(engine, friends())
    assert results["bad"].last.finish_reason == "error"
    assert str(results["bad"].last.error) == "the sampler broke"
    assert len(results["bad"].token_ids) == number - 1
    assert_unharmed(results)


@pytest.mark.parametrize("steps", range(6))
def test_cancel_frees_pages_in_every_state(steps: int) -> None:
    """Queued, in the middle of its prompt, streaming; and cancelling again changes nothing."""
    engine = make_engine(ReadingRunner(max_tokens=16))
    engine.add(request("a", "a" * 40, max_tokens=50))
    results: dict[str, Result] = {}
    for _ in range(steps):
        take_step(engine, results)
    delta = engine.cancel("a")
    assert delta is not None
    assert delta.finish_reason == "cancelled"
    assert delta.usage is not None
    assert delta.usage.completion_tokens == max(0, steps - 2)
    assert_idle(engine)
    assert engine.cancel("a") is None
    assert engine.step() == []


def test_an_interrupt_during_a_run_leaves_the_engine_whole() -> None:
    runner = ReadingRunner()
    engine = make_engine(runner)
    for name in FRIENDS:
        engine.add(request(name, name, max_tokens=20))
    engine.step()

    def interrupted(_: int, __: Batch) -> bool:
        raise KeyboardInterrupt

    runner.fails = interrupted
    with pytest.raises(KeyboardInterrupt):
        engine.step()
    engine.check()
    runner.fails = lambda run, _: False
    results = drive(engine)
    for name in FRIENDS:
        expected = alone(request(name, name, max_tokens=20)).token_ids
        assert results[name].token_ids == expected[1:]
