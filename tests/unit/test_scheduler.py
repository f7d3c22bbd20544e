"""The scheduler without a model: what holds at any load, and what each rule of the policy does."""

from __future__ import annotations

import random

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from pyrite.backends.base import PAGE_TOKENS
from pyrite.errors import CapacityError
from pyrite.kv.cache import PageCache
from pyrite.kv.pages import PagePool, pages_for
from pyrite.scheduler import Policy, Scheduler
from pyrite.sequence import Sequence, Slice


def scheduler(num_pages: int = 8, max_batch_tokens: int = 64, **numbers: int) -> Scheduler:
    cache = PageCache(PagePool(num_pages), is_on=False)
    return Scheduler(cache, Policy(max_batch_tokens, **{"prefill_chunk": 512, **numbers}))


def sequence(name: str, prompt: int, total: int, priority: int = 0, tenant: str = "") -> Sequence:
    return Sequence(name, num_tokens=prompt, max_length=total, priority=priority, tenant=tenant)


def step(policy: Scheduler) -> dict[str, int]:
    """One step as the engine would: every slice computed, a token sampled where one may be."""
    slices = policy.schedule()
    for work in slices:
        finish(policy, work)
    policy.check()
    return {work.sequence.request_id: work.num_tokens for work in slices}


def finish(policy: Scheduler, work: Slice) -> None:
    policy.commit(work, 1 if work.reaches_end else 0)
    if work.sequence.num_tokens == work.sequence.max_length:
        policy.remove(work.sequence)


def test_a_prompt_is_cut_by_the_budget() -> None:
    policy = scheduler()
    policy.add(sequence("a", 150, 152))
    assert [step(policy) for _ in range(4)] == [{"a": 64}, {"a": 64}, {"a": 22}, {"a": 1}]
    assert not policy.has_work
    assert policy.cache.num_free == 8


def test_a_stream_goes_before_a_long_prompt() -> None:
    policy = scheduler(num_pages=16)
    policy.add(sequence("stream", 3, 40, priority=1))
    assert step(policy) == {"stream": 3}
    policy.add(sequence("prompt", 200, 201, priority=0))
    assert step(policy) == {"stream": 1, "prompt": 63}
    assert step(policy) == {"stream": 1, "prompt": 63}


def test_admission_counts_what_running_prompts_still_claim() -> None:
    policy = scheduler(num_pages=6, max_batch_tokens=64)
    policy.add(sequence("a", 120, 128))  # 4 pages in the end, 2 after its first step
    policy.add(sequence("b", 70, 80))  # 3 pages
    assert step(policy) == {"a": 64}
    assert step(policy) == {"a": 56}
    assert step(policy) == {"a": 1}, "b waits: 2 pages are free and it needs 3"


def test_the_last_is_preempted_and_computed_anew() -> None:
    policy = scheduler(num_pages=3, max_batch_tokens=96)
    first, last = sequence("first", 31, 96), sequence("last", 31, 96)
    policy.add(first)
    policy.add(last)
    assert step(policy) == {"first": 31, "last": 31}
    assert step(policy) == {"first": 1, "last": 1}
    assert step(policy) == {"first": 1}, "both need a second page, and one is free"
    assert policy.running == [first, last], "waiting for a page costs nothing yet"
    while first in policy.running:
        assert step(policy) == {"first": 1}
    assert policy.num_preemptions == 1, "the first needed the third page"
    assert step(policy) == {"last": 33}, "its 31 + 2 tokens are chased from zero"


def test_one_that_could_never_fit_is_refused() -> None:
    policy = scheduler(num_pages=3)
    with pytest.raises(CapacityError, match="4 pages"):
        policy.add(sequence("big", 10, 97))
    assert not policy.has_work
    policy.add(sequence("fits", 96, 96))


def test_priority_goes_before_arrival() -> None:
    policy = scheduler(max_batch_tokens=8)
    policy.add(sequence("later", 8, 9, priority=1))
    policy.add(sequence("sooner", 8, 9, priority=0))
    assert step(policy) == {"sooner": 8}


def test_removal_frees_pages_in_any_state() -> None:
    policy = scheduler(num_pages=4, max_batch_tokens=32)
    running, waiting = sequence("running", 60, 70), sequence("waiting", 60, 70)
    policy.add(running)
    policy.add(waiting)
    step(policy)
    policy.remove(waiting)
    policy.remove(running)
    policy.check()
    assert policy.cache.num_free == 4


@settings(max_examples=150, derandomize=True, deadline=None)
@given(
    num_pages=st.integers(1, 9),
    budget=st.integers(1, 80),
    requests=st.lists(st.tuples(st.integers(1, 200), st.integers(1, 90)), max_size=12),
    seed=st.integers(0, 99),
)
def test_any_load_ends_with_every_token_computed_and_every_page_free(
    num_pages: int, budget: int, requests: list[tuple[int, int]], seed: int
) -> None:
    dice = random.Random(seed)
    policy = scheduler(num_pages, budget)
    for number, (prompt, more) in enumerate(requests):
        tenant = dice.choice("ab")
        one = sequence(str(number), prompt, prompt + more, dice.randint(0, 1), tenant)
        if pages_for(one.max_length) <= num_pages:
            policy.add(one)
        if dice.random() < 0.5 and policy.has_work:
            step(policy)
    for _ in range(20_000):
        if not policy.has_work:
            break
        taken = step(policy)
        assert 0 < sum(taken.values()) <= budget
        if dice.random() < 0.05 and policy.has_work:
            policy.remove(dice.choice([*policy.waiting, *policy.running]))
            policy.check()
    assert not policy.has_work
    assert policy.cache.num_free == num_pages
    assert PAGE_TOKENS == 32, "the numbers of the tests above count on it"
