"""The simulator of scheduling policies, and what recorded arrivals say of the policy chosen."""

from __future__ import annotations

import numpy as np
from benchmarks.policies import (
    ARRIVALS,
    CROWD,
    MAX_BATCH_TOKENS,
    PROMPT_TOKEN,
    SEED,
    STEP,
    STREAM,
    Arrival,
    Life,
    Steady,
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


def run(policy: Policy, arrivals: list[Arrival], *, is_fair: bool = True) -> list[Life]:
    return simulate(arrivals, policy, is_fair=is_fair, is_cached=True)


WHOLE = Steady(MAX_BATCH_TOKENS, prefill_chunk=MAX_BATCH_TOKENS)
SMOOTH = Steady(MAX_BATCH_TOKENS, Settings().prefill_chunk)
CHOSEN = Policy(MAX_BATCH_TOKENS, Settings().prefill_chunk)


def test_the_default_policy_is_fair_and_smooth() -> None:
    """Against first come, first served, with a whole budget of prompts in each step."""
    arrivals = recorded(ARRIVALS)
    plain, ours = run(WHOLE, arrivals, is_fair=False), run(CHOSEN, arrivals)
    assert all(len(life.times) == life.arrival.answer for life in ours), "each has its answer"
    assert chat_first(ours) < 0.2 * chat_first(plain)
    assert chat_first(ours) < 0.85 * chat_first(run(SMOOTH, arrivals)), "what a crowd gains"
    assert gap(ours) < 0.6 * gap(plain)
    ends = [max(life.times[-1] for life in lives) for lives in (ours, plain)]
    assert ends[0] < 1.03 * ends[1], "what that costs altogether"


def test_the_default_policy_serves_a_crowd() -> None:
    """Nearly as soon as with a whole budget for prompts in each step."""
    whole, ours = run(WHOLE, CROWD), run(CHOSEN, CROWD)
    firsts = [max(life.first for life in lives) for lives in (whole, ours, run(SMOOTH, CROWD))]
    assert firsts[1] < 1.05 * firsts[0]
    assert firsts[1] < 0.9 * firsts[2]


def test_a_long_prompt_slows_streams_by_a_bounded_amount() -> None:
    """By its chunk a step, however long it is."""
    streams = [Arrival(0.0, "", 32, 0, 400) for _ in range(16)]
    alone = STEP + 16 * STREAM
    longest = alone + PROMPT_TOKEN * Settings().prefill_chunk
    for prompt in (1000, 8000):
        lives = run(CHOSEN, [*streams, Arrival(5.0, "", prompt, 0, 1)])
        late = [np.diff([at for at in life.times if at > 5]).max() for life in lives[:16]]
        assert max(late) < 1.001 * longest
        assert max(late) > 1.5 * alone, "the prompt was there"
