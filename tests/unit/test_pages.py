"""The page pool: a state machine against plain lists of holders."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pyrite.kv.pages import PagePool

NUM_PAGES = 7


class Holders(RuleBasedStateMachine):
    """Holders take, share and give back pages; the pool's counts must be theirs at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = PagePool(NUM_PAGES)
        self.held: list[list[int]] = []

    @rule(count=st.integers(0, NUM_PAGES + 1))
    def take(self, count: int) -> None:
        free = self.pool.num_free
        taken = self.pool.take(count)
        assert (taken is None) == (count > free)
        if taken is not None:
            in_use = {page for pages in self.held for page in pages}
            assert len(set(taken)) == count
            assert not in_use & set(taken)
            self.held.append(taken)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def share(self, data: st.DataObject) -> None:
        pages = data.draw(st.sampled_from(self.held))
        shared = pages[: data.draw(st.integers(0, len(pages)))]
        self.pool.share(shared)
        assert all(self.pool.is_shared(page) for page in shared)
        self.held.append(list(shared))

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.held) - 1))
        self.pool.give_back(self.held.pop(index))

    @invariant()
    def counts_agree(self) -> None:
        self.pool.check(self.held)
        in_use = {page for pages in self.held for page in pages}
        assert self.pool.num_free == NUM_PAGES - len(in_use)


TestHolders = Holders.TestCase
TestHolders.settings = settings(
    max_examples=60, stateful_step_count=30, derandomize=True, deadline=None
)


def test_the_page_freed_last_is_taken_first() -> None:
    pool = PagePool(4)
    assert pool.take(3) == [0, 1, 2]
    pool.give_back([1])
    assert pool.take(2) == [1, 3]


def test_giving_back_twice_is_a_bug() -> None:
    pool = PagePool(2)
    pages = pool.take(1)
    assert pages is not None
    pool.give_back(pages)
    with pytest.raises(AssertionError, match="twice"):
        pool.give_back(pages)
    with pytest.raises(AssertionError, match="free"):
        pool.share(pages)


def test_check_finds_a_leak() -> None:
    pool = PagePool(2)
    pages = pool.take(1)
    assert pages is not None
    with pytest.raises(AssertionError, match="0 holders, 1 counted"):
        pool.check([])
    with pytest.raises(AssertionError, match="2 holders, 1 counted"):
        pool.check([pages, pages])
