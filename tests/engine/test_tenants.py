"""What is cached is shared fairly: who floods the cache evicts itself, and nobody else."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
from scripted import ReadingRunner, assert_idle, drive, make_engine, request, take_step

from pyrite.engine import Engine
from pyrite.request import Request

NUM_PAGES = 64
PROMPT = 200  # tokens, in 7 pages
CACHED = PROMPT - 1  # of them, when it is found whole
names = map(str, itertools.count())


def text(length: int, seed: int) -> str:
    return "".join(random.Random(seed).choices("abcdefghijklmnopqrstuvwxyz ", k=length))


def asked(tenant: str, prompt: str, **params: object) -> Request:
    params.setdefault("max_tokens", 2)
    return replace(request(next(names), prompt, **params), tenant=tenant)


def flood(tenant: str = "flood") -> Iterator[Request]:
    for seed in itertools.count(1000):
        yield asked(tenant, text(PROMPT, seed))


def make(context: int = 512) -> Engine:
    return make_engine(ReadingRunner(num_pages=NUM_PAGES, max_tokens=256), context=context)


def num_cached(on: Engine, one: Request) -> int:
    result = drive(on, [one])[one.request_id]
    assert result.last.usage is not None
    return result.last.usage.cached_tokens


def test_a_flood_leaves_the_others_their_prefixes() -> None:
    on, unique = make(), flood()
    victims = [asked(name, text(PROMPT, seed)) for seed, name in enumerate(["a", "b"])]
    drive(on, victims)
    for _ in range(5):
        for one in itertools.islice(unique, 12):
            drive(on, [one])
        for victim in victims:
            again = replace(victim, request_id=next(names))
            assert num_cached(on, again) == CACHED


def test_a_flood_of_many_at_once_does_too() -> None:
    """They would fill all pages, were some not kept."""
    on, unique = make(), flood()
    victim = asked("victim", text(PROMPT, 1))
    drive(on, [victim])
    for _ in range(4):
        results = drive(on, itertools.islice(unique, 20))
        assert all(result.last.finish_reason == "length" for result in results.values())
        assert num_cached(on, replace(victim, request_id=next(names))) == CACHED


def test_a_tenant_alone_may_have_it_all() -> None:
    on, unique = make(), flood()
    for one in itertools.islice(unique, 12):
        drive(on, [one])
    assert on.stats().pages_cached >= NUM_PAGES - 7
    drive(on, [asked("other", text(PROMPT, 1))])
    assert on.stats().pages_cached >= NUM_PAGES - 7


def test_requests_alone_fill_all_pages() -> None:
    on, unique = make(), flood()
    for one in itertools.islice(unique, 20):
        on.add(replace(one, params=replace(one.params, max_tokens=40)))
    most = 0
    while on.has_work:
        take_step(on, {})
        most = max(most, on.stats().pages_used)
    assert most > NUM_PAGES - 7
    assert_idle(on)


@pytest.mark.parametrize("order", [["victim", "flood"], ["flood", "victim"]])
def test_a_page_of_several_is_not_lost_by_the_one_that_floods(order: list[str]) -> None:
    on, unique = make(), flood()
    prompt = text(PROMPT, 1)
    for tenant in order:
        drive(on, [asked(tenant, prompt)])
    for _ in range(4):
        for one in itertools.islice(unique, 12):
            drive(on, [one])
        assert num_cached(on, asked("victim", prompt)) == CACHED


def test_what_others_hang_below_stays_with_them() -> None:
    """The flood was first with a common beginning, and the victim's own pages hang below it."""
    on, unique = make(), flood()
    common = text(64, 1)
    drive(on, [asked("flood", common + text(PROMPT, 2))])
    victim = asked("victim", common + text(PROMPT, 3))
    drive(on, [victim])
    for _ in range(4):
        for one in itertools.islice(unique, 12):
            drive(on, [one])
        assert num_cached(on, replace(victim, request_id=next(names))) == 64 + CACHED


def test_a_large_request_is_not_kept_out_by_what_is_cached_for_others() -> None:
    on, unique = make(context=NUM_PAGES * 32), flood()
    for tenant in "abc":
        drive(on, [asked(tenant, text(PROMPT, ord(tenant)))])
    small = list(itertools.islice(unique, 3))
    large = asked("large", text(NUM_PAGES * 32 - 500, 9), max_tokens=4)
    for one in [small[0], large, *small[1:]]:
        on.add(one)
    results = drive(on)
    assert len(results[large.request_id].token_ids) == 4
