"""What must not change a request's answer: company, chunks, preemption, cancelled neighbours."""

from __future__ import annotations

import random

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

from pyrite.request import Request


def crowd(count: int = 12, seed: int = 5, longest: int = 150) -> list[Request]:
    """Requests of many lengths, greedy and sampled, some of which stop early."""
    dice = random.Random(seed)
    return [
        request(
            f"r{number}",
            [dice.randrange(97, 123) for _ in range(dice.randint(1, longest))],
            max_tokens=dice.randint(1, 60),
            temperature=number % 3 / 2,
            seed=number,
            stop=["ab", "xyz"] if number % 4 == 0 else [],
        )
        for number in range(count)
    ]


def assert_same(results: dict[str, Result], requests: list[Request]) -> None:
    for one in requests:
        expected = alone(one)
        assert results[one.request_id].token_ids == expected.token_ids, one.request_id
        assert results[one.request_id].text == expected.text
        assert results[one.request_id].last.finish_reason == expected.last.finish_reason
        assert results[one.request_id].last.usage == expected.last.usage


@pytest.mark.parametrize("max_tokens", [1, 7, 32, 1000])
def test_in_a_batch_and_in_chunks_as_alone(max_tokens: int) -> None:
    requests = crowd()
    runner = ReadingRunner(num_pages=100, max_tokens=max_tokens)
    assert_same(drive(make_engine(runner), requests), requests)
    if max_tokens == 1000:
        assert max(len(sizes) for sizes in runner.sizes) == len(requests), "they did run together"


@pytest.mark.parametrize("num_pages", [4, 6, 9])
def test_preempted_as_not_preempted(num_pages: int) -> None:
    requests = crowd(longest=40)
    engine = make_engine(ReadingRunner(num_pages=num_pages, max_tokens=48))
    assert_same(drive(engine, requests), requests)
    assert engine.scheduler.num_preemptions > 0, "the pool was meant to be too small"


def test_arriving_at_different_steps() -> None:
    requests = crowd()
    engine = make_engine(ReadingRunner(num_pages=20))
    results: dict[str, Result] = {}
    for one in requests:
        engine.add(one)
        take_step(engine, results)
        take_step(engine, results)
    while engine.has_work:
        take_step(engine, results)
    assert_same(results, requests)


@pytest.mark.parametrize("seed", range(5))
def test_neighbours_that_are_cancelled(seed: int) -> None:
    dice = random.Random(seed)
    requests = crowd(seed=seed)
    engine = make_engine(ReadingRunner(num_pages=12, max_tokens=32))
    for one in requests:
        engine.add(one)
    doomed = {one.request_id for one in requests[::2]}
    results: dict[str, Result] = {}
    while engine.has_work:
        if doomed and dice.random() < 0.3:
            name = doomed.pop()
            delta = engine.cancel(name)
            assert delta is None or delta.finish_reason == "cancelled"
        take_step(engine, results)
    assert_idle(engine)
    assert_same(results, requests[1::2])


def test_streamed_is_joined() -> None:
    result = alone(request("a", "once", max_tokens=40))
    assert len(result.deltas) == 40
    assert all(len(delta.token_ids) == 1 for delta in result.deltas)
    assert result.text == bytes(result.token_ids).decode()
    assert [delta.finish_reason for delta in result.deltas] == [None] * 39 + ["length"]
    assert [delta.usage for delta in result.deltas[1:-1]] == [None] * 38


def test_a_seed_gives_the_same_answer_alone_and_in_company() -> None:
    def flat(history: tuple[int, ...]) -> object:
        return hashed(history) / 10

    def sampled(name: str, seed: int | None) -> Request:
        return request(name, "tell", max_tokens=12, temperature=1.0, seed=seed)

    expected = alone(sampled("s", 42), flat).token_ids
    assert [alone(sampled("s", 42), flat).token_ids for _ in range(4)] == [expected] * 4
    company = [sampled(str(number), None) for number in range(7)]
    results = drive(
        make_engine(ReadingRunner(flat)), [*company[:3], sampled("s", 42), *company[3:]]
    )
    assert results["s"].token_ids == expected
    unseeded = {tuple(results[str(number)].token_ids) for number in range(7)}
    assert len(unseeded) == 7, "without a seed answers vary"
    seeded = {tuple(alone(sampled("s", seed), flat).token_ids) for seed in range(1, 6)}
    assert len(seeded) == 5, "different seeds differ"
