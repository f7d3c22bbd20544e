"""How much context, how many pages and how many slots of states a model gets.

From what was asked, and what memory holds. Knows plans and sizes; nothing of requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from pyrite.backends.base import PAGE_TOKENS, Runner
from pyrite.config import Settings
from pyrite.errors import ParameterError
from pyrite.formats.checkpoint import Tensor
from pyrite.graph.plan import Plan
from pyrite.kv.pages import pages_for
from pyrite.memory import available_bytes
from pyrite.models.estimate import (
    FLOAT_BYTES,
    estimate_memory,
    kv_bytes_per_token,
    require_memory,
    state_bytes_of,
)
from pyrite.records import dataclass

DEFAULT_CONTEXT = 8192  # tokens, unless asked for: what a model can do may be far more
# Requests of a whole context that the pages hold by default, if memory allows. A context that is
# shorter than DEFAULT_CONTEXT has as many pages as that: short requests come in greater numbers.
FULL_REQUESTS = 4
KV_SHARE = 0.5  # of the memory that the weights leave: what pages may take by default
STATE_SHARE = 0.5  # of what the pages of one request leave of that: what states may take
SLOTS = 64  # by default, if memory allows: for 32 requests at once, and as many checkpoints;
MOST_SLOTS = 512  # up to so many where states are small:
SMALL_BYTES = 64 << 20  # all of them together
LEAST_SLOTS = 2  # by default: a request, and what it saves or a checkpoint


@dataclass(frozen=True, slots=True)
class Room:
    """Tokens that one request may hold, and for all together pages, and slots of states."""

    context: int
    num_pages: int
    num_slots: int = 1  # which cost nothing in a model without states
    reason: str = field(default="", compare=False)  # of the number of pages, for logs


def available_for(plan: Plan, settings: Settings) -> int | None:
    """Bytes that a model may take. A step may have the logits of every token, and hardly has."""
    logits = settings.max_batch_tokens * plan.vocabulary * FLOAT_BYTES
    return available_bytes(reserved=logits)


def find_room(
    plan: Plan, weights: Mapping[str, Tensor], settings: Settings, available: int | None
) -> Room:
    """Context, pages and slots that fit into `available` bytes (None: nobody knows).

    What is asked for is granted or refused, never reduced. By default the context is the model's,
    at most DEFAULT_CONTEXT, and less where memory is short. Pages and slots cost memory once they
    are used; the pages that hold one request of a whole context must fit.

    Raises ParameterError for settings that contradict the model or each other, CapacityError.
    """
    page_bytes = PAGE_TOKENS * kv_bytes_per_token(plan, settings.kv_type)
    asked_slots = _asked_slots(plan, settings)
    fixed = estimate_memory(
        plan,
        weights,
        kv_tokens=0,
        max_tokens=settings.max_batch_tokens,
        num_slots=asked_slots or LEAST_SLOTS,
    )
    spare = None if available is None else max(0, available - fixed.total)
    left = None if spare is None or not page_bytes else spare // page_bytes  # pages
    asked = _asked_pages(settings, page_bytes)
    context = _context(plan, settings, asked, left)
    least = pages_for(context)
    if asked is not None and asked < least:
        limit = f"at least {least} to hold one request of {context} tokens"
        raise ParameterError("kv_pages", asked, limit)
    needed = replace(fixed, keys_and_values=(asked or least) * page_bytes)
    require_memory(needed, available)
    after = None if available is None else max(0, available - needed.total)
    slots = asked_slots or _default_slots(plan, after)
    if asked is not None:
        return Room(context, asked, slots, "as asked")
    if not page_bytes:
        return Room(context, -(-slots // 2) * least, slots, "the model has none")
    num_pages, reason = _default_pages(least, left)
    return Room(context, num_pages, slots, reason)


def room_note(room: Room, runner: Runner) -> str:
    parts = []
    if runner.page_bytes:
        size, tokens = _mib(room.num_pages * runner.page_bytes), room.num_pages * PAGE_TOKENS
        parts.append(f"keys and values at most {size}, {tokens} tokens: {room.reason}")
    if runner.state_bytes:
        size = _mib(room.num_slots * runner.state_bytes)
        parts.append(f"{room.num_slots} states, together at most {size}")
    return "; ".join([*parts, "filled as they are used"])


def _mib(num_bytes: int) -> str:
    return f"{-(-num_bytes >> 20)} MiB"


def _default_pages(least: int, left: int | None) -> tuple[int, str]:
    """And why so many."""
    wanted = FULL_REQUESTS * max(least, pages_for(DEFAULT_CONTEXT))
    share = wanted if left is None else int(left * KV_SHARE)
    if share >= wanted:
        return wanted, f"{wanted // least} whole contexts"
    if share > least:
        return share, f"{KV_SHARE:.0%} of the memory that the weights leave"
    return least, "one whole context: memory is short"


def _default_slots(plan: Plan, after: int | None) -> int:
    """`after`: bytes that the weights, LEAST_SLOTS and one request's pages leave."""
    if not plan.has_state:
        return 1
    state_bytes = state_bytes_of(plan)
    wanted = min(max(SLOTS, SMALL_BYTES // state_bytes), MOST_SLOTS)
    if after is None:
        return wanted
    return min(wanted, LEAST_SLOTS + int(after * STATE_SHARE) // state_bytes)


def _asked_slots(plan: Plan, settings: Settings) -> int | None:
    if settings.state_slots is not None and not plan.has_state:
        limit = "absent: this model has no recurrent states"
        raise ParameterError("state_slots", settings.state_slots, limit)
    return settings.state_slots


def _asked_pages(settings: Settings, page_bytes: int) -> int | None:
    if settings.kv_bytes is None:
        return settings.kv_pages
    if not page_bytes:
        hint = "state_slots says how many states there are room for"
        limit = "absent: this model has no keys and values"
        raise ParameterError("kv_bytes", settings.kv_bytes, limit, hint=hint)
    if settings.kv_bytes < page_bytes:
        limit = f"at least {page_bytes}, the bytes of one page"
        raise ParameterError("kv_bytes", settings.kv_bytes, limit)
    return settings.kv_bytes // page_bytes


def _context(plan: Plan, settings: Settings, asked: int | None, left: int | None) -> int:
    """`asked` and `left`: pages that the settings name, and that memory has room for."""
    if settings.context is None:
        limits = [plan.context_length, DEFAULT_CONTEXT]
        return min(*limits, *(pages * PAGE_TOKENS for pages in (asked, left) if pages))
    if settings.context > plan.context_length:
        limit = f"at most {plan.context_length}, what the model was made for"
        raise ParameterError("context", settings.context, limit)
    return settings.context
