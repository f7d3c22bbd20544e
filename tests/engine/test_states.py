"""Models with states: slots and checkpoints change what is computed, and never what is answered.

`StateRunner` compares each state that is gone on from with the tokens that the pages hold.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from scripted import (
    POISON,
    Result,
    StateRunner,
    alone,
    assert_idle,
    drive,
    make_engine,
    request,
    take_step,
)
from test_prefix_cache import ask, cached, computed, conversations, text
from test_speculation import as_told, assert_same, flat, oracle, speculating

from pyrite.backends.base import Batch
from pyrite.engine import Engine
from pyrite.errors import BackendError
from pyrite.request import Request


def engine(num_slots: int = 16, num_pages: int = 64, max_tokens: int = 64) -> Engine:
    return make_engine(StateRunner(num_slots=num_slots, num_pages=num_pages, max_tokens=max_tokens))


@pytest.mark.parametrize("length", [1, 2, 31, 32, 33, 63, 64, 65, 95, 96, 97, 200])
@pytest.mark.parametrize("max_tokens", [1, 9, 64, 1000])
def test_a_whole_prompt_that_is_cached(length: int, max_tokens: int) -> None:
    """It is gone on from its last whole page, if there is one before its last token."""
    on = engine(max_tokens=max_tokens)
    one = request("a", text(length), max_tokens=5)
    cold, warm, again = ask(on, one), ask(on, one), ask(on, one)
    assert cold.token_ids == warm.token_ids == again.token_ids == alone(one).token_ids
    whole = (length - 1) // 32 * 32
    assert cached(cold) == 0
    assert cached(warm) == cached(again) == (whole if whole >= 64 else 0)


@pytest.mark.parametrize("length", [1, 31, 32, 40, 64, 130])
def test_a_conversation_goes_on_from_its_own_answer(length: int) -> None:
    on = engine()
    prompt = list(text(length).encode())
    known = 0
    for turn in range(6):
        one = request(f"turn {turn}", prompt, max_tokens=20 + turn)
        result = ask(on, one)
        assert result.token_ids == alone(one).token_ids
        assert cached(result) == known, "all but the last token, which was never computed"
        known = len(prompt) + 19 + turn
        prompt += result.token_ids + list(text(20, turn).encode())


def test_namespaces_do_not_see_each_other() -> None:
    on = engine()
    one = request("a", text(100), max_tokens=5)
    others = [replace(one, request_id=name, cache_namespace=name) for name in ("x", "y", "x")]
    assert [cached(ask(on, each)) for each in [one, *others, one]] == [0, 0, 0, 96, 96]


def test_a_beginning_that_was_seen_twice_is_found_the_third_time() -> None:
    on = engine()
    requests = [request(str(n), text(96) + text(40, seed=n), max_tokens=3) for n in range(4)]
    results = [ask(on, one) for one in requests]
    assert [cached(result) for result in results] == [0, 0, 96, 96]
    for one, result in zip(requests, results, strict=True):
        assert result.token_ids == alone(one).token_ids


def test_a_long_beginning_is_found_the_second_time() -> None:
    on = make_engine(StateRunner(num_pages=200, max_tokens=200), context=2000)
    first, second = (
        request(name, text(600) + text(40, seed=ord(name)), max_tokens=3) for name in "ab"
    )
    ask(on, first)
    assert cached(ask(on, second)) == 512


def test_a_long_prompt_keeps_few_states() -> None:
    on = make_engine(StateRunner(num_slots=64, num_pages=400, max_tokens=512), context=12000)
    ask(on, request("a", text(11000), max_tokens=1))
    assert 5 <= on.stats().states_cached <= 10


@pytest.mark.parametrize("count", [2, 4, 9])
def test_what_arrives_together_is_computed_once(count: int) -> None:
    on = engine(max_tokens=48, num_slots=24)
    requests = [request(str(i), text(128), max_tokens=3, seed=i) for i in range(count)]
    results = drive(on, requests)
    assert computed(on) == 128 + (count - 1) * 32 + 2 * count
    assert sorted(map(cached, results.values())) == [0] + [96] * (count - 1)


def test_a_leader_stops_where_its_followers_part() -> None:
    on = engine(max_tokens=48)
    requests = [request(str(i), text(96) + text(70, seed=i), max_tokens=3) for i in range(6)]
    results = drive(on, requests)
    assert sorted(map(cached, results.values())) == [0] + [96] * 5
    assert computed(on) == 96 + 6 * (70 + 2)
    for one in requests:
        assert results[one.request_id].token_ids == alone(one).token_ids


def test_the_cache_can_be_switched_off() -> None:
    runner = StateRunner()
    on = make_engine(runner, prefix_cache=False)
    one = request("a", text(100), max_tokens=5)
    results = [ask(on, one), ask(on, one)]
    assert list(map(cached, results)) == [0, 0]
    assert on.stats().states_cached == 0
    assert results[0].token_ids == results[1].token_ids == alone(one).token_ids


@pytest.mark.parametrize("num_slots", [1, 2, 3, 5])
def test_who_gets_no_slot_waits(num_slots: int) -> None:
    """Half of the slots are for those who run, and one is always."""
    on = engine(num_slots)
    requests = [request(str(n), text(50, n), max_tokens=9) for n in range(6)]
    for one in requests:
        on.add(one)
    results: dict[str, Result] = {}
    most = 0
    while on.has_work:
        take_step(on, results)
        most = max(most, on.stats().running)
        assert on.stats().states_used <= max(1, (num_slots + 1) // 2)
    assert most == max(1, (num_slots + 1) // 2)
    for one in requests:
        assert results[one.request_id].token_ids == alone(one).token_ids


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("num_slots", [1, 2, 3, 6, 30])
@pytest.mark.parametrize("num_pages", [5, 8, 20])
def test_a_crowd_in_any_order_with_evictions_and_cancels(
    num_pages: int, num_slots: int, seed: int
) -> None:
    """Nobody's answer holds anything of another's."""
    dice = random.Random(seed)
    requests = conversations(40, seed)
    dice.shuffle(requests)
    on = engine(num_slots, num_pages, max_tokens=dice.choice([24, 64, 200]))
    results: dict[str, Result] = {}
    pending, cancelled = requests.copy(), set()
    while pending or on.has_work:
        while pending and dice.random() < 0.4:
            on.add(pending.pop())
        if dice.random() < 0.05 and on._active:
            cancelled.add(name := dice.choice(sorted(on._active)))
            on.cancel(name)
        take_step(on, results)
    assert_idle(on)
    for one in requests:
        if one.request_id not in cancelled:
            assert results[one.request_id].token_ids == alone(one).token_ids, one.request_id
    if num_slots == 30 and num_pages == 20:
        assert on.stats().prefix_hits > 0


def test_a_preempted_request_goes_on_from_where_it_was() -> None:
    """Its own state is kept as that of any that ends; where its pages went too, from less."""
    requests = [request(str(i), text(60, i), max_tokens=64, seed=i) for i in range(8)]
    on = engine(num_slots=32, num_pages=10)
    results = drive(on, requests)
    assert on.stats().preemptions > 0
    for one in requests:
        assert results[one.request_id].token_ids == alone(one).token_ids
        assert cached(results[one.request_id]) == 0, "what it computed itself does not count"


@pytest.mark.parametrize("right", [0.0, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("num_slots", [1, 3, 4, 24])
def test_speculated_is_plain(num_slots: int, right: float) -> None:
    requests = [
        request(str(n), text(40, n % 3), max_tokens=40, temperature=n % 2, seed=n, logprobs=1)
        for n in range(6)
    ]
    plain = as_told(requests, flat)
    runner = StateRunner(flat, num_slots=num_slots, num_pages=40)
    on = speculating(runner, oracle(requests, plain, right))
    assert_same(drive(on, requests), plain)
    assert (on.stats().drafts > 0) == (num_slots > 1)
    if right == 1.0 and num_slots > 1:
        assert on.stats().computed_tokens < 6 * 81, "nothing is computed twice"


@pytest.mark.parametrize("seed", range(6))
def test_a_speculating_crowd(seed: int) -> None:
    dice = random.Random(seed)
    requests = conversations(30, seed)
    plain = as_told(requests)
    runner = StateRunner(
        num_slots=dice.choice([3, 5, 9, 30]),
        num_pages=dice.choice([5, 8, 20]),
        max_tokens=dice.choice([5, 24, 64]),
    )
    on = speculating(runner, oracle(requests, plain, dice.choice([0.3, 0.7, 0.95])))
    assert_same(drive(on, requests), plain)
    assert on.stats().drafts > 0


@pytest.mark.parametrize("fault", ["run", "cancel", "both"])
@pytest.mark.parametrize("number", range(1, 9))
def test_nothing_is_kept_that_was_not_computed(number: int, fault: str) -> None:
    """The n-th run fails, or the request is cancelled then; the same prompt comes again."""
    runner = StateRunner(max_tokens=16)
    on = make_engine(runner)
    one = request("a", text(90), max_tokens=6)
    runner.fails = lambda run, _: fault != "cancel" and run == number
    on.add(one)
    results: dict[str, Result] = {}
    for step in range(1, 20):
        if step == number and fault != "run":
            assert on.scheduler.schedule(), "pages are taken, and nothing is written"
            on.cancel("a")
        take_step(on, results)
    assert_idle(on)
    for entry in on.scheduler.cache.index.entries():
        assert entry.slot < 0 or runner.states[entry.slot][0] != POISON
    runner.fails = lambda run, _: False
    assert ask(on, one).token_ids == alone(one).token_ids


@pytest.mark.parametrize("number", range(2, 20))
def test_a_batch_that_fails_is_computed_one_by_one(number: int) -> None:
    requests = [request(str(n), text(50, n), max_tokens=8) for n in range(3)]
    runner = StateRunner()
    runner.fails = lambda run, _: run == number
    results = drive(make_engine(runner), requests)
    failed = [name for name, result in results.items() if result.last.error]
    assert len(failed) <= 1
    for one in requests:
        if one.request_id not in failed:
            assert results[one.request_id].token_ids == alone(one).token_ids


@pytest.mark.parametrize("number", range(2, 8))
def test_drawing_that_fails_is_repeated_without_the_run(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The states have moved by then."""
    on = engine()
    requests = [request(str(n), text(50, n), max_tokens=8) for n in range(3)]
    sample, calls = on._sampler.sample, []

    def failing(*arguments: Any) -> Any:
        calls.append(len(arguments[0]))
        if len(calls) == number:
            raise BackendError("as scripted")
        return sample(*arguments)

    monkeypatch.setattr(on._sampler, "sample", failing)
    results = drive(on, requests)
    assert [result.last.error for result in results.values()] == [None] * 3
    for one in requests:
        assert results[one.request_id].token_ids == alone(one).token_ids


@pytest.mark.parametrize("steps", range(1, 7))
@pytest.mark.parametrize("when", ["before", "after"])
def test_an_interrupt_leaves_the_engine_whole(when: str, steps: int) -> None:
    """Before a run or after it: whether the states have moved is not known."""
    runner = StateRunner(max_tokens=32)
    on = make_engine(runner)
    requests = [request(str(n), text(70, n), max_tokens=9) for n in range(2)]
    for one in requests:
        on.add(one)
    results: dict[str, Result] = {}
    for _ in range(steps):
        take_step(on, results)
    run = runner.run

    def interrupted(batch: Batch) -> Any:
        if when == "after":
            run(batch)
        raise KeyboardInterrupt

    runner.run = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        on.step()
    on.check()
    runner.run = run  # type: ignore[method-assign]
    while on.has_work:
        take_step(on, results)
    assert_idle(on)
    for one in requests:
        assert results[one.request_id].token_ids == alone(one).token_ids


@pytest.mark.parametrize("steps", range(8))
def test_cancelled_in_the_middle_then_repeated(steps: int) -> None:
    on = engine(max_tokens=20)
    one = request("a", text(110), max_tokens=6)
    on.add(one)
    results: dict[str, Result] = {}
    for _ in range(steps):
        take_step(on, results)
    on.cancel("a")
    assert_idle(on)
    result = ask(on, one)
    assert result.token_ids == alone(one).token_ids
    assert (cached(result) > 0) == (steps > 0)


def test_tenants_share_checkpoints_fairly() -> None:
    """A flood of one tenant's prompts leaves the other's conversation where it was."""
    on = engine(num_slots=8)
    quiet = replace(request("quiet", text(80), max_tokens=4), tenant="quiet")
    answer = ask(on, quiet)
    for number in range(12):
        flood = request(f"f{number}", text(70, number + 5), max_tokens=2)
        ask(on, replace(flood, tenant="loud"))
    again = [*quiet.prompt_ids, *answer.token_ids, *text(9).encode()]
    one = replace(request("again", again, max_tokens=3), tenant="quiet")
    assert cached(ask(on, one)) == 83


def test_statistics() -> None:
    on = engine(num_slots=6)
    assert (on.stats().states_total, on.stats().states_used, on.stats().states_cached) == (6, 0, 0)
    on.add(request("a", text(100), max_tokens=9))
    on.step()
    assert (on.stats().states_used, on.stats().states_cached) == (1, 0)
    on.step()
    assert (on.stats().states_used, on.stats().states_cached) == (1, 1)
    drive(on)
    assert (on.stats().states_used, on.stats().states_cached) == (0, 2)


def sixty_four(seed: int) -> list[Request]:
    """PB-077's: each has a word of its own, some begin alike, lengths are random."""
    dice = random.Random(seed)
    return [
        request(
            f"code {number}",
            text(dice.choice([0, 40, 70]), seed)
            + f"repeat {text(8, number)} " * dice.randint(1, 5),
            max_tokens=dice.randint(1, 30),
        )
        for number in range(64)
    ]


def test_sixty_four_with_words_of_their_own() -> None:
    dice = random.Random(3)
    requests = sixty_four(1)
    runner = StateRunner(num_slots=20, num_pages=20, max_tokens=80)
    plain = as_told(requests)
    on = speculating(runner, oracle(requests, plain, 0.8))
    results: dict[str, Result] = {}
    cancelled: set[str] = set()
    for one in requests:
        on.add(one)
    while on.has_work:
        take_step(on, results)
        if dice.random() < 0.1 and on._active:
            cancelled.add(name := dice.choice(sorted(on._active)))
            on.cancel(name)
    assert_idle(on)
    for one in requests:
        if one.request_id not in cancelled:
            assert results[one.request_id].token_ids == plain[one.request_id].token_ids
