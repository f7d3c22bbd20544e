"""Pages, index and scheduler together: a state machine, with the contents of pages written down.

The machine plays the engine and the runner: it writes the tokens of each slice into a table of
pages, and says that what a sequence reads there are its own tokens, whatever was shared, copied,
evicted, preempted or abandoned in between. With states it says the same of what lies in the slots.
"""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pyrite.kv.cache import PageCache, PageTable
from pyrite.kv.keys import page_key, root_key
from pyrite.kv.pages import PAGE_TOKENS, PagePool
from pyrite.kv.prefix import CachedPage, PrefixIndex
from pyrite.kv.states import States
from pyrite.scheduler import Policy, Scheduler
from pyrite.sequence import Sequence, Slice

NUM_PAGES = 9
FREE = -7
WRONG = -5  # a guess that does not hold
LENGTHS = st.integers(0, 100)


class Engine(RuleBasedStateMachine):
    """Sequences come, are computed, fail and are cancelled at any time."""

    window = 0
    num_slots = 0

    def __init__(self) -> None:
        super().__init__()
        states = States(self.num_slots) if self.num_slots else None
        cache = PageCache(PagePool(NUM_PAGES), window=self.window, step_tokens=48, states=states)
        self.states: list[list[int]] = [[FREE]] * self.num_slots  # tokens that went through each
        self.policy = Scheduler(cache, Policy(48, prefill_chunk=20, aging_steps=7))
        self.cache = cache
        self.pages = [[FREE] * PAGE_TOKENS for _ in range(NUM_PAGES)]
        self.active: list[Sequence] = []
        self.names = 0

    @rule(
        family=st.integers(0, 1),
        alike=LENGTHS,
        other=LENGTHS,
        more=st.integers(1, 60),
        priority=st.integers(0, 2),
        tenant=st.sampled_from("ab"),
    )
    def add(
        self, family: int, alike: int, other: int, more: int, priority: int, tenant: str
    ) -> None:
        """Prompts of a family are alike at the beginning."""
        self.names += 1
        ids = [family * 1000 + i for i in range(alike)]
        ids += [5000 + self.names * 100 + i for i in range(max(other, 1))]
        table = PageTable(ids, namespace=str(family), tenant=tenant)
        one = Sequence(
            str(self.names), len(ids), len(ids) + more, priority, tenant, table, scores_prompt=False
        )
        self.policy.add(one)
        self.active.append(one)

    @precondition(lambda self: self.active)
    @rule(
        failing=st.integers(0, 30),
        abandons=st.integers(0, 12),
        guessed=st.integers(0, 4),
        held=st.integers(0, 4),
    )
    def step(self, failing: int, abandons: int, guessed: int, held: int) -> None:
        """At times a slice fails, or one is cancelled between being scheduled and computed."""
        for one in self.active:
            most = one.max_length - one.num_tokens - 1
            one.num_drafts = min(guessed, most) if one.is_stream else 0
        slices = self.policy.schedule()
        if abandons == 0:
            self.remove(slices[0].sequence)
            slices = slices[1:]
        self.cache.run_copies(self.copy)
        self.copy_states()
        for number, work in enumerate(slices):
            drawn = self.drawn(work, min(held, work.num_drafts))
            self.compute(work, drawn)
            if number == failing:
                self.remove(work.sequence)
            else:
                self.commit(work, drawn)

    @precondition(lambda self: self.active)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        self.remove(data.draw(st.sampled_from(self.active)))

    def remove(self, one: Sequence) -> None:
        self.active.remove(one)
        self.policy.remove(one)

    def copy(self, source: int, target: int) -> None:
        assert FREE not in self.pages[source][:4], "a copy of a page that was never written"
        self.pages[target] = self.pages[source].copy()

    def copy_states(self) -> None:
        if self.cache.states is not None:
            self.cache.states.run_copies(self)

    def copy_state(self, source: int, target: int) -> None:
        self.states[target] = self.states[source]

    def drawn(self, work: Slice, held: int) -> list[int]:
        """The tokens that come after a slice of which so many guesses hold."""
        first = work.sequence.num_tokens
        return [9000 + number % 3 for number in range(first, first + held + 1) if work.reaches_end]

    def compute(self, work: Slice, drawn: list[int]) -> None:
        one = work.sequence
        end = one.num_computed_tokens + work.num_tokens
        wrong = [WRONG] * (work.num_drafts - len(drawn) + 1) if drawn else []
        fed = [*one.table.token_ids[one.num_computed_tokens : end], *drawn[:-1], *wrong]
        for position, token_id in enumerate(fed, one.num_computed_tokens):
            page = one.pages[position // PAGE_TOKENS]
            assert not self.cache.pool.is_shared(page), "a page that others hold is written"
            self.pages[page][position % PAGE_TOKENS] = token_id
        if self.states:
            known = list(one.table.token_ids[: one.num_computed_tokens])
            assert self.states[one.table.slot] == known or not known
            self.states[one.table.slot] = known + fed
        first = max(0, one.num_computed_tokens - self.window + 1) if self.window else 0
        read = [
            self.pages[one.pages[position // PAGE_TOKENS]][position % PAGE_TOKENS]
            for position in range(first, end)
        ]
        assert read == list(one.table.token_ids[first:end])

    def commit(self, work: Slice, drawn: list[int]) -> None:
        one = work.sequence
        assert isinstance(one.table.token_ids, list)
        one.table.token_ids += drawn
        self.policy.commit(work, len(drawn))
        self.copy_states()
        if one.num_tokens == one.max_length:
            self.remove(one)

    @invariant()
    def all_is_well(self) -> None:
        self.policy.check()
        for page in range(NUM_PAGES):
            if not self.cache.pool.is_held(page):
                self.pages[page] = [FREE] * PAGE_TOKENS
        for page in self.cache.index.check():
            entry = self.cache.index.by_page(page)
            assert entry is not None
            assert tuple(self.pages[page][: len(entry.tokens)]) == entry.tokens
            assert entry.slot < 0 or self.states[entry.slot] == tokens_up_to(entry)
        if self.cache.states is not None:
            for slot in self.cache.states._free:
                self.states[slot] = [FREE]

    def teardown(self) -> None:
        for _ in range(3000):
            if not self.active:
                break
            self.step(failing=99, abandons=9, guessed=0, held=0)
        assert not self.active
        assert self.cache.num_free == NUM_PAGES


class WindowedEngine(Engine):
    """The same where no layer sees further than 40 positions."""

    window = 40


class EngineOfStates(Engine):
    """The same with states, and slots for a few."""

    num_slots = 5


class WindowedEngineOfStates(Engine):
    window = 40
    num_slots = 12


def tokens_up_to(entry: CachedPage) -> list[int]:
    before = [] if entry.parent is None else tokens_up_to(entry.parent)
    return [*before, *entry.tokens]


TestEngine = Engine.TestCase
TestWindowedEngine = WindowedEngine.TestCase
TestEngineOfStates = EngineOfStates.TestCase
TestWindowedEngineOfStates = WindowedEngineOfStates.TestCase
TestEngine.settings = TestWindowedEngine.settings = settings(
    max_examples=30, stateful_step_count=40, derandomize=True, deadline=None
)
TestEngineOfStates.settings = TestWindowedEngineOfStates.settings = TestEngine.settings


def test_keys_depend_on_all_that_they_cover() -> None:
    roots = [root_key(*pair) for pair in [("", ""), ("a", ""), ("", "a"), ("a", "b"), ("ab", "")]]
    tokens = [tuple(range(32)), tuple(range(31)), (0, *range(31)), (256,), (1, 0)]
    keys = [page_key(root, ids) for root in roots for ids in tokens]
    assert len({*roots, *keys}) == len(roots) + len(keys)
    assert page_key(roots[0], tokens[0]) == page_key(roots[0], list(tokens[0]))


def test_a_tag_cannot_be_forged_by_a_name() -> None:
    assert root_key("a", "b fingerprint 1:c") != root_key("a fingerprint 1:b", "c")
    assert root_key("x fingerprint 0:", "") != root_key("x", "")


def published(index: PrefixIndex, pool: PagePool, *chain: tuple[int, ...]) -> list[int]:
    """Pages of a chain that was computed and given back."""
    parent = index.root("")
    pages = pool.take(len(chain))
    assert pages is not None
    for tokens, page in zip(chain, pages, strict=True):
        entry = index.publish("", parent, page_key(parent.key, tokens), tokens, page)
        assert entry is not None
        parent = entry
    index.release(pages)
    return pages


def page(first: int, count: int = PAGE_TOKENS) -> tuple[int, ...]:
    return tuple(range(first, first + count))


def test_the_least_recently_used_goes_first_and_leaves_before_their_parents() -> None:
    pool = PagePool(6)
    index = PrefixIndex(pool)
    old = published(index, pool, page(0), page(100))
    new = published(index, pool, page(200), page(300))
    entries = [index.by_page(number) for number in old]
    index.hold([entry for entry in entries if entry])
    index.release(old)
    gone = []
    while index.num_idle:
        before = set(index.check())
        index.evict()
        gone += before - set(index.check())
    assert gone == [new[1], new[0], old[1], old[0]], "`old` was used after `new`"
    assert pool.num_free == 6


def test_what_hangs_below_an_evicted_page_is_forgotten_and_stays_with_its_holder() -> None:
    """Only where a window lets a sequence give back its first pages before the others."""
    pool = PagePool(4)
    index = PrefixIndex(pool)
    first, second, third = published(index, pool, page(0), page(100), page(200))
    held = [entry for number in (second, third) if (entry := index.by_page(number))]
    index.hold(held)
    assert index.num_idle == 1
    index.evict()
    assert index.check() == []
    pool.check([[second, third]])
    assert index.publish("", held[-1], b"key", page(300), first) is None, "its parent is gone"
    index.release([second, third])
    assert pool.num_free == 4


def test_the_nearest_child_is_the_one_with_the_longest_beginning_in_common() -> None:
    pool = PagePool(4)
    index = PrefixIndex(pool)
    published(index, pool, page(0))
    published(index, pool, (*page(0, 10), *page(50, 5)))
    published(index, pool, page(7))
    nearest, common = index.nearest(index.root(""), page(0, 12))
    assert nearest is not None
    assert (nearest.tokens, common) == (page(0), 12)
    nearest, common = index.nearest(index.root(""), (*page(0, 10), *page(50, 3)))
    assert nearest is not None
    assert (len(nearest.tokens), common) == (15, 13)
    assert index.nearest(index.root("elsewhere"), page(0)) == (None, 0)


def test_a_page_is_published_once() -> None:
    pool = PagePool(2)
    index = PrefixIndex(pool)
    (number,) = published(index, pool, page(0))
    with pytest.raises(AssertionError, match="twice"):
        index.publish("", index.root(""), b"key", page(1), number)


def test_two_that_computed_the_same_keep_one_page() -> None:
    cache = PageCache(PagePool(4))
    tables = [PageTable(list(page(0, 64))) for _ in range(2)]
    for table in tables:
        assert cache.grow(table, 64)
    for table in tables:
        cache.commit(table, 40)
    assert tables[0].pages[0] == tables[1].pages[0]
    assert tables[0].pages[1] != tables[1].pages[1]
    assert cache.num_free == 1
    cache.check(tables)
    for table in tables:
        cache.release(table, 40)
    cache.check([])
    assert cache.num_free == 4
