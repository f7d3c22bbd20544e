"""Where a prompt stops for a moment, so that its state can be kept: at ends of whole pages.

Each stop may cost the prompt a step, and its checkpoint a slot. Knows counts of pages and tokens.
"""

from __future__ import annotations

from bisect import insort

from pyrite.kv.pages import PAGE_TOKENS

REGULAR_PAGES = 16  # between stops where there is no better reason for one, or more:
MOST_REGULAR = 8  # stops of that kind at most
FAR_TOKENS = 8 * PAGE_TOKENS
LEAST_TOKENS = 2 * PAGE_TOKENS  # between any two, and after what is there already


def stops_of(num_computed: int, num_known: int, num_tokens: int, *, kept: int = 0) -> list[int]:
    """Positions, ascending, for a prompt of `num_tokens` tokens of which some are computed, and
    whose first `num_known` pages are known; after `kept` tokens a page with a checkpoint ends.

    Where it parts from what is known, for what two have in common a third may have too; at its
    last whole page, for the same prompt again or a choice beside it; and at regular distances. A
    conversation that grows by little goes on from states inside of pages, which are not kept on
    disk: it stops at the end of one, perhaps in the answer, when the last kept one is far behind.
    """
    last = (num_tokens - 1) // PAGE_TOKENS
    between = max(REGULAR_PAGES, -(-last // MOST_REGULAR))
    stops: list[int] = []
    for number in [min(num_known, last), last, *range(between, last, between)]:
        position = number * PAGE_TOKENS
        is_far = position - num_computed >= LEAST_TOKENS
        if is_far and all(abs(position - other) >= LEAST_TOKENS for other in stops):
            insort(stops, position)
    far = max(num_computed, kept + FAR_TOKENS - 1) // PAGE_TOKENS + 1
    return stops or [far * PAGE_TOKENS]
