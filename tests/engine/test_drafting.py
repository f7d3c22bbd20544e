"""A draft model that goes ahead: what it says is what it would say alone, and answers are plain."""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scripted import (
    NUM_IDS,
    ReadingRunner,
    Result,
    StateRunner,
    drive,
    hashed,
    make_engine,
    request,
    take_step,
)
from test_speculation import Clock, as_told, assert_same, hashed_text

from pyrite.drafting import CATCH_UP_TOKENS, DraftModel
from pyrite.engine import Engine
from pyrite.request import Request
from pyrite.speculation import Speculation
from pyrite.steptimes import StepTimes


def mostly_right(history: tuple[int, ...]) -> Any:
    """The model's own logits, but for one history in five."""
    if zlib.crc32(bytes(history)) % 5 == 0:
        return np.roll(hashed(history), 1)
    return hashed(history)


class Checked(DraftModel):
    """Every guess is held against what the draft says of the whole history."""

    def guesses(self, asked: Sequence[tuple[str, Sequence[int], int]]) -> list[list[int]]:
        told = super().guesses(asked)
        self.check()
        for (_, token_ids, _), tokens in zip(asked, told, strict=True):
            history = tuple(token_ids)
            for token_id in tokens:
                assert token_id == int(np.argmax(self._runner.logits(history)[:NUM_IDS]))
                history += (token_id,)
        return told


def drafting(
    runner: ReadingRunner,
    logits: Any,
    *,
    num_pages: int = 32,
    max_tokens: int = 64,
    num_slots: int = 0,
) -> tuple[Engine, ReadingRunner]:
    """`num_slots`: of a draft with states; one that goes on from a wrong one is found out."""
    engine = make_engine(runner)
    sizes = {"num_pages": num_pages, "max_tokens": max_tokens}
    ahead = (
        StateRunner(logits, num_slots=num_slots, **sizes)
        if num_slots
        else ReadingRunner(logits, **sizes)
    )
    model = Checked(ahead, num_tokens=NUM_IDS, context_length=num_pages * 32)
    engine._speculation = Speculation(model)
    engine._speculation.times = Clock(0.01)
    model._times = Clock(0.0)
    model.seconds = lambda requests, most: np.zeros(most + 1)  # type: ignore[method-assign]
    return engine, ahead


def crowd(count: int = 6, longest: int = 90) -> list[Request]:
    dice = random.Random(count)
    return [
        request(
            str(i),
            hashed_text(dice.randint(1, longest)),
            max_tokens=dice.randint(1, 60),
            temperature=i % 2 / 4,
            seed=i,
        )
        for i in range(count)
    ]


@pytest.mark.parametrize("num_pages", [5, 9, 64])
@pytest.mark.parametrize("max_tokens", [4, 64])
@pytest.mark.parametrize("num_slots", [0, 2, 5, 20])
def test_in_company_and_with_pages_for_some(
    num_pages: int, max_tokens: int, num_slots: int
) -> None:
    requests = crowd()
    engine, ahead = drafting(
        ReadingRunner(),
        mostly_right,
        num_pages=num_pages,
        max_tokens=max_tokens,
        num_slots=num_slots,
    )
    assert_same(drive(engine, requests), as_told(requests))
    guesser = engine._speculation._guesser
    assert isinstance(guesser, DraftModel), "it did not fail on the way"
    assert not guesser._progress
    assert guesser._pool.num_free == num_pages
    assert engine.stats().accepted_tokens > 0
    assert max(sum(sizes) for sizes in ahead.sizes) <= max_tokens


def test_a_draft_that_is_right_saves_steps() -> None:
    one = request("a", hashed_text(30), max_tokens=60)
    runner = ReadingRunner()
    engine, _ = drafting(runner, hashed)
    assert_same(drive(engine, [one]), as_told([one]))
    assert engine.stats().accepted_tokens == engine.stats().drafted_tokens > 40
    assert len(runner.sizes) < 15


def test_a_state_goes_back_and_what_held_is_computed_again() -> None:
    one = request("a", hashed_text(30), max_tokens=120)
    engine, ahead = drafting(ReadingRunner(), mostly_right, num_slots=2)
    assert_same(drive(engine, [one]), as_told([one]))
    stats = engine.stats()
    assert stats.drafted_tokens > stats.accepted_tokens > 40
    computed = sum(sum(sizes) for sizes in ahead.sizes)
    again = computed - len(one.prompt_ids) - 120
    assert 0 < again < 2 * stats.drafted_tokens, "a prompt is not computed again"


def test_a_state_that_went_too_far_is_made_anew() -> None:
    """Asked again with the same tokens, the last of which is always computed."""
    ahead = StateRunner(hashed, num_slots=2)
    model = DraftModel(ahead, num_tokens=NUM_IDS, context_length=512)
    text = hashed_text(20)
    ids = list(request("a", text).prompt_ids)
    told = []
    for _ in range(3):
        model.chances("a", ids, 4)
        told += model.guesses([("a", ids, 4)])
        model.check()
    assert told[0] == told[1] == told[2]
    assert len(told[0]) == 4


def test_a_draft_that_is_wrong_is_seldom_asked() -> None:
    one = request("a", hashed_text(30), max_tokens=200)
    engine, ahead = drafting(ReadingRunner(), lambda history: -hashed(history))
    engine._speculation.times = Clock(0.3)
    assert_same(drive(engine, [one]), as_told([one]))
    assert engine.stats().accepted_tokens == 0
    assert engine.stats().drafted_tokens < 60
    assert len(ahead.sizes) < 60


@pytest.mark.parametrize("model_seconds", [1.0, 1e-9])
def test_a_draft_is_measured_first_and_then_asked_if_it_is_quick(model_seconds: float) -> None:
    one = request("a", hashed_text(30), max_tokens=60)
    engine, ahead = drafting(ReadingRunner(), hashed)
    model: Any = engine._speculation._guesser
    del model.seconds
    model._times = StepTimes()
    times: Any = engine._speculation.times
    times.estimate = lambda rows, more: model_seconds * (1 + 0.01 * np.arange(more + 1))
    assert_same(drive(engine, [one]), as_told([one]))
    if model_seconds == 1.0:
        assert engine.stats().accepted_tokens > 40
    else:
        assert 0 < len(ahead.sizes) < 20, "it was tried, and found too slow"


def test_a_long_prompt_is_computed_in_parts_between_steps() -> None:
    one = request("a", hashed_text(400), max_tokens=20)
    engine, ahead = drafting(ReadingRunner(max_tokens=512), hashed, max_tokens=512)
    assert_same(drive(engine, [one]), as_told([one]))
    assert max(sum(sizes) for sizes in ahead.sizes) <= CATCH_UP_TOKENS
    assert engine.stats().accepted_tokens > 0


def test_a_draft_that_fails_ends_guessing_and_no_request() -> None:
    requests = crowd()
    engine, ahead = drafting(ReadingRunner(), hashed)
    ahead.fails = lambda run, _: run == 4
    assert_same(drive(engine, requests), as_told(requests))
    assert engine._speculation._guesser is None


def test_cancelled_while_the_draft_knows_it() -> None:
    engine, _ = drafting(ReadingRunner(), mostly_right)
    for one in crowd():
        engine.add(one)
    results: dict[str, Result] = {}
    for step in range(12):
        take_step(engine, results)
        engine.cancel(str(step // 2))
    while engine.has_work:
        take_step(engine, results)
    guesser = engine._speculation._guesser
    assert isinstance(guesser, DraftModel)
    guesser.check()
    assert guesser._pool.num_free == 32
