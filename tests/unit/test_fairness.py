"""Whose turn it is: tenants, priorities, streams beside prompts, and those who follow another."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from pyrite.kv.cache import PageCache, PageTable
from pyrite.kv.pages import PagePool
from pyrite.leaders import STALLED_STEPS
from pyrite.scheduler import Policy, Scheduler
from pyrite.sequence import Sequence, Slice
from pyrite.shares import Shares


def scheduler(max_batch_tokens: int = 64, num_pages: int = 400, **numbers: int) -> Scheduler:
    numbers = {"prefill_chunk": 32, "fair_tokens": 100, "aging_steps": 50, **numbers}
    cache = PageCache(PagePool(num_pages), is_on=False)
    return Scheduler(cache, Policy(max_batch_tokens, **numbers))


def sequence(name: str, prompt: int, more: int = 1, **facts: object) -> Sequence:
    return Sequence(name, num_tokens=prompt, max_length=prompt + more, **facts)  # type: ignore[arg-type]


def step(policy: Scheduler) -> dict[str, int]:
    """As the engine does it; gives the tokens of each sequence that has a slice."""
    slices = policy.schedule()
    for work in slices:
        policy.commit(work, 1 if work.reaches_end else 0)
        if work.sequence.num_tokens == work.sequence.max_length:
            policy.remove(work.sequence)
    policy.check()
    return {work.sequence.request_id: work.num_tokens for work in slices}


def test_a_prompt_gets_a_chunk_beside_streams_and_all_without() -> None:
    policy = scheduler(max_batch_tokens=64, prefill_chunk=24)
    policy.add(sequence("stream", 5, more=4))
    step(policy)
    policy.add(sequence("prompt", 200))
    assert [step(policy) for _ in range(3)] == [{"stream": 1, "prompt": 24}] * 3
    assert [step(policy) for _ in range(2)] == [{"prompt": 64}] * 2


def beside(streams: str, prompts: str, **numbers: int) -> dict[str, int]:
    """The step in which new prompts of these tenants (one a letter) meet streams of those."""
    policy = scheduler(max_batch_tokens=64, prefill_chunk=8, **numbers)
    for number, tenant in enumerate(streams):
        policy.add(sequence(f"stream{number}", 1, more=50, tenant=tenant))
    step(policy)
    for number, tenant in enumerate(prompts):
        policy.add(sequence(f"prompt{number}", 200, tenant=tenant))
    found = step(policy)
    assert all(found.pop(f"stream{number}") == 1 for number in range(len(streams)))
    return found


@pytest.mark.parametrize(
    ("prompts", "tokens"), [(1, 8), (2, 8), (3, 16), (5, 24), (13, 56), (40, 60)]
)
def test_a_crowd_gets_more_of_a_step(prompts: int, tokens: int) -> None:
    """A chunk, one more for every two more prompts, and never more than the step holds."""
    assert beside("aaaa", "a" * prompts) == {"prompt0": tokens}


def test_who_would_find_no_page_is_no_crowd() -> None:
    assert sum(beside("a", "a" * 13, num_pages=1 + 7).values()) == 8


def test_a_heap_of_one_tenant_is_one_prompt_to_the_streams_of_others() -> None:
    assert sum(beside("b", "a" * 13).values()) == 8
    assert sum(beside("ab", "a" * 13).values()) == 8, "the stream that has least to do with it"
    assert sum(beside("b", "aaaabbb").values()) == 16, "its own three, and a heap"
    assert sum(beside("c", "abdef").values()) == 24, "five heaps"


def test_one_long_prompt_delays_streams_by_a_chunk_a_step() -> None:
    policy = scheduler(max_batch_tokens=64, prefill_chunk=8, num_pages=100)
    for number in range(4):
        policy.add(sequence(f"stream{number}", 1, more=400))
    step(policy)
    policy.add(sequence("long", 2000))
    for _ in range(2000 // 8):
        assert step(policy)["long"] == 8


def test_guessed_tokens_have_what_prompts_leave() -> None:
    policy = scheduler(max_batch_tokens=16, prefill_chunk=8)
    stream = sequence("stream", 4, more=50)
    policy.add(stream)
    step(policy)
    stream.num_drafts = 12
    assert policy.schedule() == [Slice(stream, 1, 12)]
    policy.add(sequence("prompt", 100))
    (own, _) = policy.schedule()
    assert own == Slice(stream, 1, 16 - 1 - 8)
    for number in range(4):
        policy.add(sequence(f"prompt{number}", 100))
    (own, _) = policy.schedule()
    assert own == Slice(stream, 1, 0), "a crowd leaves none"


def test_the_budget_holds_with_more_streams_than_fit() -> None:
    policy = scheduler(max_batch_tokens=8, prefill_chunk=8)
    for number in range(12):
        policy.add(sequence(str(number), 1, more=20))
    while policy.has_work:
        assert 0 < sum(step(policy).values()) <= 8


def test_one_tenant_with_a_heap_delays_another_by_a_bounded_amount() -> None:
    policy = scheduler()
    for number in range(20):
        policy.add(sequence(f"a{number}", 300, tenant="a"))
    for _ in range(10):
        step(policy)
    policy.add(sequence("b", 300, tenant="b"))
    computed: Counter[str] = Counter()
    while "b" in {one.request_id for one in [*policy.waiting, *policy.running]}:
        for name, count in step(policy).items():
            computed[name[0]] += count
    assert computed["b"] == 300
    assert computed["a"] <= 300 + 100 + 2 * 64, "as much as it has, what it may be ahead, a step"


def test_busy_tenants_get_the_same_whatever_the_size_of_their_prompts() -> None:
    policy = scheduler()
    for number in range(60):
        policy.add(sequence(f"a{number}", 40, tenant="a"))
    for number in range(8):
        policy.add(sequence(f"b{number}", 300, tenant="b"))
    computed: Counter[str] = Counter()
    for _ in range(60):
        for name, count in step(policy).items():
            computed[name[0]] += count
        assert abs(computed["a"] - computed["b"]) <= 100 + 64


def test_first_come_first_served_within_a_tenant() -> None:
    policy = scheduler()
    dice = random.Random(4)
    for number in range(30):
        policy.add(sequence(f"{number}", dice.randint(1, 90), tenant=dice.choice("ab")))
    tenants = {one.request_id: one.tenant for one in policy.waiting}
    begun: list[str] = []
    while policy.has_work:
        begun += [name for name in step(policy) if name not in begun]
    for tenant in "ab":
        own = [int(name) for name in begun if tenants[name] == tenant]
        assert own == sorted(own)


def test_priority_goes_before_fairness() -> None:
    policy = scheduler()
    policy.add(sequence("later", 100, tenant="poor", priority=1))
    for number in range(3):
        policy.add(sequence(f"sooner{number}", 64, tenant="rich"))
    assert [step(policy) for _ in range(3)] == [{f"sooner{i}": 64} for i in range(3)]


def test_a_level_of_priority_is_worth_so_many_steps_of_waiting() -> None:
    """Better requests come faster than they can be served, and go ahead until they are level."""
    policy = scheduler(aging_steps=10)
    policy.add(sequence("patient", 200, priority=3))
    sooner = set()
    for number in range(90):
        policy.add(sequence(f"sooner{number}", 100))
        names = set(step(policy))
        if "patient" in names:
            break
        sooner |= names
    # three levels of ten steps with 64 tokens each
    assert sooner == {f"sooner{number}" for number in range(3 * 10 * 64 // 100)}


def test_an_old_heap_does_not_go_before_the_new_prompt_of_another() -> None:
    policy = scheduler(aging_steps=10, fair_tokens=100)
    for number in range(100):
        policy.add(sequence(f"heap{number}", 200, tenant="a"))
    for _ in range(50):
        step(policy)
    policy.add(sequence("new", 60, tenant="b"))
    names = [name for _ in range(5) for name in step(policy)]
    assert "new" in names, "what waited for five levels goes first"


def test_one_of_low_priority_is_not_preempted_for_ever() -> None:
    policy = scheduler(num_pages=6, aging_steps=10)
    patient = sequence("patient", 60, more=60, priority=2)
    policy.add(patient)
    dice = random.Random(1)
    for number in range(1000):
        if number % 12 == 0:
            policy.add(sequence(f"s{number}", dice.randint(20, 60), more=dice.randint(10, 60)))
        step(policy)
        if patient.num_tokens == patient.max_length:
            break
    assert policy.num_preemptions > 0
    assert number < 999, "it starved"


def test_shares_of_those_who_come_and_go() -> None:
    shares = Shares()
    shares.enter("a")
    shares.charge("a", 1000)
    shares.enter("b")
    assert shares.used("b") == 1000, "level with the busy: idling earned nothing"
    shares.charge("b", 500)
    shares.leave("b")
    shares.enter("b")
    assert shares.used("b") == 1500, "a pause does not wipe out what it is ahead"
    shares.leave("b")
    shares.charge("a", 800)
    shares.enter("c")
    shares.leave("c")
    shares.check(["a"])
    shares.enter("b")
    assert shares.used("b") == 1800
    for tenant in "ab":
        shares.leave(tenant)
    shares.check([])


def followers(num_pages: int = 40) -> tuple[Scheduler, Sequence, Sequence]:
    """A leader that has computed 32 of 128 tokens, and one with the same prompt."""
    policy = Scheduler(PageCache(PagePool(num_pages)), Policy(32))
    pair = [Sequence(name, 128, 130, table=PageTable([7] * 130)) for name in ("first", "second")]
    for one in pair:
        policy.add(one)
    assert step(policy) == {"first": 32}
    return policy, pair[0], pair[1]


def test_a_follower_computes_its_last_token_alone() -> None:
    policy, _, second = followers()
    assert [step(policy) for _ in range(3)] == [{"first": 32}] * 3
    assert step(policy) == {"first": 1, "second": 1}
    assert second.num_cached_tokens == 127
    assert policy.num_computed_tokens == 128 + 2


def test_a_leader_that_does_not_advance_is_not_waited_for() -> None:
    policy, first, second = followers()
    policy.add(Sequence("other", 1, 100, table=PageTable([5] * 100)))
    extend = policy._extend

    def extend_others(one: Sequence, budget: object) -> None:
        if one is not first:
            extend(one, budget)  # type: ignore[arg-type]

    policy._extend = extend_others  # type: ignore[method-assign]
    steps = 0
    while not second.is_running:
        steps += 1
        step(policy)
    assert steps == STALLED_STEPS + 1
    assert second.num_cached_tokens == 32


def test_a_leader_that_ends_is_not_waited_for() -> None:
    policy, first, second = followers()
    policy.remove(first)
    policy.check()
    assert step(policy) == {"second": 32}
    assert second.num_cached_tokens == 32
