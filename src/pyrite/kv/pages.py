"""Which pages of keys and values are free, and how many holders each of the others has.

A page is a number here; what lies in it is the backend's. Knows nothing of requests or arrays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

PAGE_TOKENS = 32  # tokens a page of keys and values holds; also attention's fixed block of keys


def pages_for(num_tokens: int) -> int:
    return -(-num_tokens // PAGE_TOKENS)


class PagePool:
    """`num_pages` pages, each free (no holder) or held by one holder or more.

    The page freed last is taken first: the pool is virtual memory that costs only what was ever
    touched, so the fewest pages are touched that way.
    """

    def __init__(self, num_pages: int) -> None:
        assert num_pages > 0, num_pages
        self.num_pages = num_pages
        self._free = list(range(num_pages - 1, -1, -1))  # a stack: page 0 is taken first
        self._holders = [0] * num_pages

    @property
    def num_free(self) -> int:
        return len(self._free)

    def take(self, count: int) -> list[int] | None:
        """`count` pages with one holder each, or None when fewer are free: all or nothing."""
        assert count >= 0, count
        if count > len(self._free):
            return None
        taken = [self._free.pop() for _ in range(count)]
        for page in taken:
            self._holders[page] = 1
        return taken

    def share(self, pages: Iterable[int]) -> None:
        """One more holder for each page, none of which is free."""
        for page in pages:
            assert self._holders[page] > 0, f"page {page} is free and cannot be shared"
            self._holders[page] += 1

    def give_back(self, pages: Iterable[int]) -> None:
        """One holder fewer for each page; a page without a holder is free."""
        for page in pages:
            assert self._holders[page] > 0, f"page {page} is given back twice"
            self._holders[page] -= 1
            if self._holders[page] == 0:
                self._free.append(page)

    def num_holders(self, page: int) -> int:
        return self._holders[page]

    def is_held(self, page: int) -> bool:
        return self._holders[page] > 0

    def is_shared(self, page: int) -> bool:
        """True when the page has other holders, so that a write must go to a copy."""
        return self._holders[page] > 1

    def check(self, held: Iterable[Iterable[int]]) -> None:
        """Asserts that the counts are exactly those of `held`, the page lists of all holders."""
        counts = Counter(page for pages in held for page in pages)
        free = set(self._free)
        assert len(free) == len(self._free), "a page is in the free list twice"
        for page in range(self.num_pages):
            counted, stated = counts[page], self._holders[page]
            assert counted == stated, f"page {page}: {counted} holders, {stated} counted"
            assert (page in free) == (stated == 0), f"page {page}: {stated} holders and free"
        assert counts.keys() <= set(range(self.num_pages)), "a holder has a page of no pool"
