"""The prefix cache changes what is computed, and never what is answered."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from scripted import (
    POISON,
    ReadingRunner,
    Result,
    alone,
    assert_idle,
    drive,
    make_engine,
    request,
    take_step,
)

from pyrite.engine import Engine
from pyrite.kv import cache as page_cache
from pyrite.kv import keys
from pyrite.request import PrefixMiss, Request

ALPHABET = "abcdefghijklmnopqrstuvwxyz "


def text(length: int, seed: int = 1) -> str:
    return "".join(random.Random(seed).choices(ALPHABET, k=length))


def engine(num_pages: int = 64, max_tokens: int = 64) -> Engine:
    return make_engine(ReadingRunner(num_pages=num_pages, max_tokens=max_tokens))


def ask(on: Engine, one: Request) -> Result:
    return drive(on, [one])[one.request_id]


def cached(result: Result) -> int:
    usage = result.last.usage
    assert usage is not None
    assert result.deltas[0].usage.cached_tokens == usage.cached_tokens  # type: ignore[union-attr]
    return usage.cached_tokens


def computed(on: Engine) -> int:
    return on.stats().computed_tokens


@pytest.mark.parametrize("length", [1, 2, 31, 32, 33, 63, 64, 65, 95, 96, 97, 200])
@pytest.mark.parametrize("max_tokens", [1, 9, 64, 1000])
def test_a_whole_prompt_that_is_cached(length: int, max_tokens: int) -> None:
    """The last token is computed in any case: its logits are needed."""
    on = engine(max_tokens=max_tokens)
    one = request("a", text(length), max_tokens=5)
    cold, warm, again = ask(on, one), ask(on, one), ask(on, one)
    assert cold.token_ids == warm.token_ids == again.token_ids == alone(one).token_ids
    assert cached(cold) == 0
    assert cached(warm) == (length - 1 if (length - 1) % 32 >= 4 else (length - 1) // 32 * 32)
    assert cached(again) == cached(warm)
    assert warm.last.usage.prompt_tokens == length  # type: ignore[union-attr]


def test_a_page_that_is_shared_is_not_written() -> None:
    """Two go on differently from one page that is filled in part, at the same time."""
    on = engine()
    ask(on, request("first", text(40), max_tokens=1))
    both = [request(name, text(40) + name, max_tokens=30) for name in ("left", "right")]
    results = drive(on, [*both, request("same", text(40), max_tokens=30)])
    for one in both:
        assert results[one.request_id].token_ids == alone(one).token_ids
        assert cached(results[one.request_id]) == 40


def test_a_conversation_goes_on_from_its_own_answer() -> None:
    on = engine()
    prompt = list(text(50).encode())
    known = 0
    for turn in range(4):
        one = request(f"turn {turn}", prompt, max_tokens=40)
        result = ask(on, one)
        assert result.token_ids == alone(one).token_ids
        assert cached(result) == known, "all but the last token, which was never computed"
        known = len(prompt) + 39
        prompt += result.token_ids + list(text(20, turn).encode())


def test_the_beginning_of_a_page_serves_as_far_as_it_goes() -> None:
    on = engine()
    ask(on, request("a", text(90), max_tokens=2))
    one = request("b", text(50) + "!" * 30, max_tokens=20)
    result = ask(on, one)
    assert cached(result) == 50
    assert result.token_ids == alone(one).token_ids


def test_namespaces_do_not_see_each_other() -> None:
    on = engine()
    one = request("a", text(100), max_tokens=5)
    others = [replace(one, request_id=name, cache_namespace=name) for name in ("x", "y", "x")]
    found = [cached(ask(on, each)) for each in [one, *others, one]]
    assert found == [0, 0, 0, 96, 96]


@pytest.mark.parametrize("count", [2, 4, 9])
def test_what_arrives_together_is_computed_once(count: int) -> None:
    on = engine(max_tokens=48)
    requests = [request(str(i), text(128), max_tokens=3, seed=i) for i in range(count)]
    results = drive(on, requests)
    assert computed(on) == 128 + (count - 1) + 2 * count
    assert sorted(map(cached, results.values())) == [0] + [127] * (count - 1)
    for one in requests:
        assert results[one.request_id].token_ids == alone(one).token_ids


def test_followers_with_parts_of_their_own() -> None:
    on = engine(max_tokens=32)
    requests = [request(str(i), text(96) + text(40, seed=i), max_tokens=3) for i in range(6)]
    drive(on, requests)
    assert computed(on) == 96 + 6 * (40 + 2)


def test_a_leader_that_is_cancelled_leaves_its_followers_whole() -> None:
    for steps in range(6):
        on = engine(max_tokens=16)
        requests = [request(str(i), text(90), max_tokens=4) for i in range(3)]
        results: dict[str, Result] = {}
        for one in requests:
            on.add(one)
        for _ in range(steps):
            take_step(on, results)
        on.cancel("0")
        while on.has_work:
            take_step(on, results)
        assert_idle(on)
        for one in requests[1:]:
            assert results[one.request_id].token_ids == alone(one).token_ids


@pytest.mark.parametrize("fault", ["run", "cancel", "both"])
@pytest.mark.parametrize("number", range(1, 9))
def test_nothing_is_published_that_was_not_computed(number: int, fault: str) -> None:
    """The n-th run fails, or the request is cancelled then; the same prompt comes again."""
    runner = ReadingRunner(max_tokens=16)
    on = make_engine(runner)
    one = request("a", text(90), max_tokens=6)
    runner.fails = lambda run, _: fault != "cancel" and run == number
    on.add(one)
    results: dict[str, Result] = {}
    for step in range(1, 20):
        if step == number and fault != "run":
            slices = on.scheduler.schedule()  # pages are taken, and nothing is written
            assert slices
            on.cancel("a")
        take_step(on, results)
    assert_idle(on)
    assert_published_pages_are_written(on, runner)
    runner.fails = lambda run, _: False
    assert ask(on, one).token_ids == alone(one).token_ids


def assert_published_pages_are_written(on: Engine, runner: ReadingRunner) -> None:
    index = on.scheduler.cache.index
    for page in index.check():
        entry = index.by_page(page)
        assert entry is not None
        assert tuple(runner.pages[page][: len(entry.tokens)].tolist()) == entry.tokens
    free = set(range(runner.num_pages)) - set(index.check())
    assert (runner.pages[sorted(free)] == POISON).all(), "a free page was not poisoned"


@pytest.mark.parametrize("seed", range(4))
def test_a_hash_of_eight_bits_is_harmless(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Tokens are compared on a hit, so that collisions cost hits alone."""
    whole = keys.page_key
    monkeypatch.setattr(page_cache, "page_key", lambda *parts: whole(*parts)[:1])
    dice = random.Random(seed)
    on = engine(num_pages=400)
    for number in range(100):
        prompt = text(64 * dice.randint(0, 1), 5) + text(dice.randint(30, 70), dice.randint(0, 200))
        one = request(f"r{number}", prompt, max_tokens=2)
        assert ask(on, one).token_ids == alone(one).token_ids


def test_prompt_logprobs_pass_the_cache_by() -> None:
    """The same request twice, and in between one that shares its beginning."""
    on = engine()
    scored = request("a", text(100), max_tokens=3, prompt_logprobs=2)
    first = ask(on, scored)
    between = ask(on, request("b", text(70), max_tokens=3))
    second = ask(on, scored)
    assert cached(between) == 69
    assert (cached(first), cached(second)) == (0, 0)
    assert first.deltas[0].prompt_logprobs == second.deltas[0].prompt_logprobs
    assert len(second.deltas[0].prompt_logprobs) == 100
    assert first.token_ids == second.token_ids


def test_why_a_prefix_stopped_matching() -> None:
    on = engine()
    ask(on, request("a", text(50) + "apples and oranges", max_tokens=2))
    one = replace(request("b", text(50) + "apples are red", max_tokens=3), explain_cache=True)
    result = ask(on, one)
    assert result.deltas[0].miss == PrefixMiss(58, "nd orang", "re red")
    assert all(delta.miss is None for delta in result.deltas[1:])
    assert ask(on, one).deltas[0].miss is None, "all of it is cached now"
    elsewhere = replace(one, cache_namespace="other")
    assert ask(on, elsewhere).deltas[0].miss == PrefixMiss(0, "", text(50)[:8])


def test_the_cache_can_be_switched_off() -> None:
    runner = ReadingRunner()
    on = make_engine(runner, prefix_cache=False)
    one = replace(request("a", text(100), max_tokens=5), explain_cache=True)
    results = [ask(on, one), ask(on, one)]
    assert list(map(cached, results)) == [0, 0]
    assert on.stats().pages_cached == on.stats().prefix_queries == 0
    assert results[0].token_ids == results[1].token_ids == alone(one).token_ids
    assert (runner.pages == POISON).all()


def test_what_a_failed_assertion_would_print_tells_no_prompt() -> None:
    on = engine()
    ask(on, request("a", text(90), max_tokens=2))
    on.add(replace(request("b", text(90), max_tokens=9), cache_namespace="", explain_cache=True))
    on.step()
    (_, sequence), *_ = on._active.values()
    printed = repr(sequence)
    assert len(printed) < 800
    assert str(ord(text(90)[0])) + ", " not in printed
    assert "pages=" in printed


def test_statistics() -> None:
    on = engine(num_pages=20)
    one = request("a", text(70), max_tokens=10)
    on.add(one)
    assert (on.stats().waiting, on.stats().running, on.stats().pages_total) == (1, 0, 20)
    on.step()
    assert (on.stats().waiting, on.stats().running, on.stats().pages_used) == (0, 1, 2)
    drive(on)
    stats = on.stats()
    assert (stats.pages_used, stats.pages_cached, stats.computed_tokens) == (0, 3, 79)
    assert (stats.prefix_queries, stats.prefix_hits) == (70, 0)
    ask(on, one)
    assert (on.stats().prefix_queries, on.stats().prefix_hits) == (140, 69)


def conversations(count: int, seed: int) -> list[Request]:
    """Prompts that begin alike in groups, of all lengths, greedy and sampled."""
    dice = random.Random(seed)
    return [
        request(
            f"r{number}",
            text(dice.choice([0, 32, 45, 64]), dice.randint(0, 2))
            + text(dice.randint(1, 60), number),
            max_tokens=dice.randint(1, 40),
            temperature=number % 3 / 2,
            seed=number,
        )
        for number in range(count)
    ]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("num_pages", [5, 8, 20])
def test_a_crowd_in_any_order_with_evictions_and_cancels(num_pages: int, seed: int) -> None:
    """Nobody's answer holds anything of another's."""
    dice = random.Random(seed)
    requests = conversations(40, seed)
    dice.shuffle(requests)
    on = engine(num_pages=num_pages, max_tokens=dice.choice([24, 64, 200]))
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
    assert on.stats().prefix_hits > 0
    for one in requests:
        if one.request_id not in cancelled:
            assert results[one.request_id].token_ids == alone(one).token_ids, one.request_id


def test_a_pool_for_two_and_a_half_of_eight() -> None:
    """Preempted requests find their own pages again, and answer as if alone."""
    requests = [request(str(i), text(60, i), max_tokens=64, seed=i) for i in range(8)]
    on = engine(num_pages=10)
    results = drive(on, requests)
    assert on.stats().preemptions > 0
    for one in requests:
        assert results[one.request_id].token_ids == alone(one).token_ids
        assert cached(results[one.request_id]) == 0, "what it computed itself does not count"


def test_an_interrupt_before_a_copy_was_made() -> None:
    runner = ReadingRunner()
    on = make_engine(runner)
    one = request("a", text(50), max_tokens=5)
    expected = ask(on, one).token_ids
    copy_page = runner.copy_page

    def interrupted(source: int, target: int) -> None:
        raise KeyboardInterrupt

    runner.copy_page = interrupted  # type: ignore[method-assign]
    on.add(one)
    with pytest.raises(KeyboardInterrupt):
        on.step()
    on.check()
    runner.copy_page = copy_page  # type: ignore[method-assign]
    assert drive(on)["a"].token_ids == expected


def test_the_runner_reads_what_it_did_cold() -> None:
    """Histories and not only answers: the logits of every position, bit by bit."""
    rows: dict[tuple[int, ...], bytes] = {}

    def watched(history: tuple[int, ...]) -> np.ndarray:
        logits = np.zeros(260, dtype=np.float32)
        logits[97 + sum(history) % 26] = 9
        assert rows.setdefault(history, logits.tobytes()) == logits.tobytes()
        return logits

    on = make_engine(ReadingRunner(watched, num_pages=12))
    for number in range(30):
        ask(on, request(str(number), text(40 + number % 7, number % 3), max_tokens=20))
