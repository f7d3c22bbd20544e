"""How much context and how many pages a model gets, from what is asked and what memory holds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyrite.backends.base import PAGE_TOKENS
from pyrite.config import Settings
from pyrite.errors import CapacityError, ParameterError
from pyrite.formats.checkpoint import Checkpoint
from pyrite.models.estimate import estimate_memory, kv_bytes_per_token
from pyrite.models.registry import build_plan, open_model
from pyrite.room import (
    DEFAULT_CONTEXT,
    FULL_REQUESTS,
    LEAST_SLOTS,
    MOST_SLOTS,
    SLOTS,
    Room,
    find_room,
)

PLENTY = 1 << 40
STATE_BYTES = 4_000_000


@pytest.fixture(scope="module")
def checkpoint(golden: Path) -> Checkpoint:
    return open_model(golden / "gguf_models" / "llama_q8_0.gguf")


class Machine:
    """The model's plan with a context of 32768 tokens, on a machine with some memory left."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.weights = checkpoint.tensors
        self.plan = replace(build_plan(checkpoint), context_length=32768)
        self.page_bytes = PAGE_TOKENS * kv_bytes_per_token(self.plan)
        self.fixed = estimate_memory(self.plan, self.weights, kv_tokens=0, max_tokens=512).total

    def room(self, available: int | None = PLENTY, **settings: Any) -> Room:
        return find_room(self.plan, self.weights, Settings(**settings), available)


@pytest.fixture
def machine(checkpoint: Checkpoint) -> Machine:
    return Machine(checkpoint)


def test_by_default(machine: Machine) -> None:
    pages = FULL_REQUESTS * DEFAULT_CONTEXT // PAGE_TOKENS
    assert machine.room() == Room(DEFAULT_CONTEXT, pages)
    assert machine.room(None) == machine.room(), "where memory is unknown, it is no limit"


def test_the_reason_is_said(machine: Machine) -> None:
    assert machine.room().reason == "4 whole contexts"
    assert machine.room(kv_pages=10).reason == "as asked"
    least = DEFAULT_CONTEXT // PAGE_TOKENS * machine.page_bytes
    assert machine.room(machine.fixed + 3 * least).reason.startswith("50% of the memory that")
    assert machine.room(machine.fixed + least).reason.startswith("one whole context")


def test_a_model_of_a_short_context(machine: Machine) -> None:
    machine.plan = replace(machine.plan, context_length=100)
    assert machine.room() == Room(100, FULL_REQUESTS * DEFAULT_CONTEXT // PAGE_TOKENS)


def test_a_short_context_is_for_more_requests(machine: Machine) -> None:
    """32 of 640 tokens run at once, whatever the most is that one of them may hold."""
    room = machine.room(context=1024)
    assert room.num_pages * PAGE_TOKENS >= 32 * 640
    assert room.reason == "32 whole contexts"
    short = machine.fixed + 100 * machine.page_bytes
    assert machine.room(short, context=1024) == Room(1024, 50), "half of what memory has room for"


def test_what_is_asked_is_granted(machine: Machine) -> None:
    assert machine.room(context=20000).context == 20000
    assert machine.room(kv_pages=10) == Room(320, 10)
    assert machine.room(kv_bytes=10 * machine.page_bytes + 1) == Room(320, 10)
    assert machine.room(kv_pages=10, context=100) == Room(100, 10)


def test_what_is_asked_and_contradicts(machine: Machine) -> None:
    with pytest.raises(ParameterError, match="32768"):
        machine.room(context=32769)
    with pytest.raises(ParameterError, match="at least 32 to hold one request of 1000"):
        machine.room(context=1000, kv_pages=31)
    with pytest.raises(ParameterError, match=str(machine.page_bytes)):
        machine.room(kv_bytes=machine.page_bytes - 1)


def test_where_memory_is_short_the_default_shrinks(machine: Machine) -> None:
    available = machine.fixed + 50 * machine.page_bytes
    assert machine.room(available) == Room(50 * PAGE_TOKENS, 50)
    more = machine.fixed + 3 * (DEFAULT_CONTEXT // PAGE_TOKENS) * machine.page_bytes
    assert machine.room(more) == Room(DEFAULT_CONTEXT, 3 * DEFAULT_CONTEXT // PAGE_TOKENS // 2)


def test_what_does_not_fit_is_refused_with_both_numbers(machine: Machine) -> None:
    available = machine.fixed + 50 * machine.page_bytes
    with pytest.raises(CapacityError, match=r"needs \d+ MiB .* \d+ MiB are available"):
        machine.room(available, context=51 * PAGE_TOKENS)
    with pytest.raises(CapacityError):
        machine.room(available, kv_pages=51)
    with pytest.raises(CapacityError):
        machine.room(machine.fixed - 1)


@pytest.fixture
def recurrent(machine: Machine) -> Machine:
    """The same plan with states of 4 million bytes."""
    machine.plan = replace(machine.plan, states=(STATE_BYTES // 4 - 100, 100))
    return machine


def test_small_states_have_more_slots(machine: Machine) -> None:
    machine.plan = replace(machine.plan, states=(65536,))
    assert machine.room().num_slots == 256
    machine.plan = replace(machine.plan, states=(10,))
    assert machine.room().num_slots == MOST_SLOTS


def test_slots_by_default(recurrent: Machine) -> None:
    assert recurrent.room().num_slots == recurrent.room(None).num_slots == SLOTS
    assert recurrent.room(state_slots=5).num_slots == 5
    least = recurrent.fixed + LEAST_SLOTS * STATE_BYTES
    pages = DEFAULT_CONTEXT // PAGE_TOKENS * recurrent.page_bytes
    assert recurrent.room(least + pages).num_slots == LEAST_SLOTS
    assert recurrent.room(least + pages + 10 * STATE_BYTES).num_slots == LEAST_SLOTS + 5


def test_slots_that_do_not_fit(recurrent: Machine) -> None:
    available = recurrent.fixed + 100 * recurrent.page_bytes
    with pytest.raises(CapacityError, match="MiB for states"):
        recurrent.room(available, context=320, state_slots=1 + available // STATE_BYTES)


def test_slots_of_a_model_without_states(machine: Machine) -> None:
    assert machine.room().num_slots == 1
    with pytest.raises(ParameterError, match="no recurrent states"):
        machine.room(state_slots=4)


def test_a_model_of_states_alone(recurrent: Machine) -> None:
    """Its pages cost nothing, and there are enough for every slot."""
    recurrent.plan = replace(recurrent.plan, key_heads=(), head_widths=(), value_widths=())
    pages = SLOTS // 2 * DEFAULT_CONTEXT // PAGE_TOKENS
    assert recurrent.room() == Room(DEFAULT_CONTEXT, pages, SLOTS)
    short = recurrent.fixed + 20 * STATE_BYTES
    assert recurrent.room(short).context == DEFAULT_CONTEXT
    assert recurrent.room(short).num_slots == 2 + 18 // 2
    with pytest.raises(ParameterError, match="no keys and values"):
        recurrent.room(kv_bytes=1 << 20)
