"""The simulator of scheduling policies, and what recorded arrivals say of the policy chosen."""

from __future__ import annotations

import numpy as np
from benchmarks.policies import (
    ARRIVALS,
    MAX_BATCH_TOKENS,
    SEED,
    STEP,
    STREAM,
    Life,
    generated,
    recorded,
    simulate,
)

from pyrite.config import Settings
from pyrite.scheduler import Policy


def chat_first(lives: list[Life]) -> float:
    """Seconds to the first token, at p99, of the tenant that did not bring the heap."""
    firsts = [life.first for life in lives if life.arrival.tenant == "chat"]
    return float(np.percentile(firsts, 99))


def gap(lives: list[Life]) -> float:
    return float(np.percentile(np.concatenate([life.gaps for life in lives]), 99))


def test_the_arrivals_are_those_of_their_seed() -> None:
    assert recorded(ARRIVALS) == sorted(generated(SEED), key=lambda one: one.seconds)


def test_the_default_policy_is_fair_and_smooth() -> None:
    """Against first come, first served, with a whole budget of prompts in each step."""
    arrivals = recorded(ARRIVALS)
    whole = Policy(MAX_BATCH_TOKENS, prefill_chunk=MAX_BATCH_TOKENS)
    plain = simulate(arrivals, whole, is_fair=False, is_cached=True)
    chosen = Policy(MAX_BATCH_TOKENS, Settings().prefill_chunk)
    ours = simulate(arrivals, chosen, is_fair=True, is_cached=True)
    assert all(len(life.times) == life.arrival.answer for life in ours), "each has its answer"
    assert chat_first(ours) < 0.6 * chat_first(plain)
    assert gap(ours) < gap(plain) / 3
    assert gap(ours) < 3 * (STEP + 32 * STREAM)
    ends = [max(life.times[-1] for life in lives) for lives in (ours, plain)]
    assert ends[0] < 1.03 * ends[1], "what that costs altogether"
