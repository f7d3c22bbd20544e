"""How many guesses are worth it: the choice itself, what it learns, and what a step costs."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from pyrite.sampling.speculate import LEAST_GAIN, MOST_GUESSES, Lookup, Repetition, worthwhile
from pyrite.steptimes import SIZES, StepTimes


def expected(chances: list[list[float]], counts: tuple[int, ...], num_rows: int) -> float:
    return num_rows + sum(sum(own[:n]) for own, n in zip(chances, counts, strict=True))


@pytest.mark.parametrize("seed", range(30))
def test_no_other_choice_yields_more_a_second(seed: int) -> None:
    dice = random.Random(seed)
    chances = [
        sorted((dice.random() for _ in range(dice.randint(0, 4))), reverse=True)
        for _ in range(dice.randint(1, 4))
    ]
    most = sum(map(len, chances))
    seconds = np.cumsum([1.0, *(dice.choice([0.02, 0.3]) for _ in range(most))])
    num_rows = len(chances)
    chosen = tuple(worthwhile(chances, num_rows, seconds))
    best = max(
        expected(chances, counts, num_rows) / seconds[sum(counts)]
        for counts in itertools.product(*(range(len(own) + 1) for own in chances))
    )
    if best < num_rows / seconds[0] * LEAST_GAIN:
        assert not any(chosen), "for so little nothing is risked"
    else:
        assert expected(chances, chosen, num_rows) / seconds[sum(chosen)] == pytest.approx(best)


def test_a_step_whose_rows_cost_their_share_verifies_nothing() -> None:
    """A batch that arithmetic limits: a guess that may fail costs more than it gives."""
    seconds = np.arange(64, 64 + 16) / 64
    assert worthwhile([[0.95, 0.9]] * 5, 64, seconds) == [0] * 5


def test_guesses_beyond_what_was_estimated_are_left() -> None:
    assert worthwhile([[0.9] * 8], 1, np.ones(4)) == [3]


def losses(own: list[float], count: int) -> float:
    """Rows of a request that are computed again: the drawn token's and those of guesses that held,
    where one of `count` fails."""
    chain = [1.0, *own]
    return sum((place + 1) * (chain[place] - chain[place + 1]) for place in range(count))


@pytest.mark.parametrize("seed", range(30))
def test_nor_where_states_go_back(seed: int) -> None:
    """Of choices that take the likeliest guesses first, as the choice does."""
    dice = random.Random(seed)
    chances = [
        sorted((dice.random() for _ in range(dice.randint(1, 4))), reverse=True)
        for _ in range(dice.randint(1, 4))
    ]
    most, again, saving = sum(map(len, chances)), 0.1, dice.choice([0.01, 0.1])
    seconds = np.cumsum([1.0, *[0.1] * most])
    ranked = sorted(((p, -i) for i, own in enumerate(chances) for p in own), reverse=True)

    def rate(total: int) -> float:
        counts = tuple(sum(-owner == i for _, owner in ranked[:total]) for i in range(len(chances)))
        redone = sum(losses(own, n) for own, n in zip(chances, counts, strict=True))
        cost = seconds[total] + redone * again + sum(n > 0 for n in counts) * saving
        return expected(chances, counts, len(chances)) / cost

    chosen = sum(worthwhile(chances, len(chances), seconds, saving=saving, again=again))
    best = max(range(most + 1), key=rate)
    assert rate(chosen) == pytest.approx(rate(best), rel=LEAST_GAIN - 1)


def test_a_state_that_takes_long_to_save_is_not_saved_for_little() -> None:
    seconds = np.ones(4)
    assert worthwhile([[0.6]], 1, seconds) == [1]
    assert worthwhile([[0.6]], 1, seconds, saving=0.7) == [0]
    assert worthwhile([[0.99] * 3], 1, seconds, saving=0.7) == [3]


def told(lookup: Lookup, tokens: list[int]) -> None:
    lookup.accept(tokens)


def test_a_request_that_does_not_accept_is_left_alone_and_one_that_begins_to_is_noticed() -> None:
    dice = random.Random(4)
    lookup = Lookup([dice.randrange(3) for _ in range(400)])
    lookup.accept([dice.randrange(3) for _ in range(200)])
    assert sum(lookup.chances(MOST_GUESSES)) < 1.2, "three letters at random: one in three holds"
    phrase = [10, 11, 12, 13, 14, 15, 16, 17]
    lookup.accept(phrase * 8)
    assert sum(lookup.chances(MOST_GUESSES)) > 8
    assert lookup.guesses(5) == phrase[:5]


def test_a_lookup_is_told_only_what_is_new() -> None:
    guesser = Repetition()
    text = [1, 2, 3, 4, 5, 1, 2]
    assert guesser.chances("a", text, 4)
    assert guesser.guesses([("a", text, 3)]) == [[3, 4, 5]]
    guesser.chances("a", [*text, 3], 4)
    assert guesser.guesses([("a", [*text, 3], 3)]) == [[4, 5, 1]]
    guesser.forget("a")
    guesser.forget("a")
    assert guesser.chances("a", [1, 2, 3], 4) == []


def curve(rows: int) -> float:
    """Memory sets the time of few rows, arithmetic that of many."""
    return max(4e-3, 1e-3 * rows)


def measured(times: StepTimes, sizes: list[int], rounds: int, noise: float, seed: int = 0) -> None:
    dice = random.Random(seed)
    for _ in range(rounds):
        for size in sizes:
            busy = dice.choice([1, 1, 1, 20]) if noise else 1
            times.observe(size, curve(size) * busy * (1 + noise * dice.random()))


def test_what_was_measured_is_told() -> None:
    times = StepTimes()
    measured(times, list(SIZES[:8]), 20, noise=0)
    found = times.estimate(1, 15)
    assert found == pytest.approx([curve(rows) for rows in range(1, 17)], rel=0.15)


def test_a_busy_machine_blurs_the_curve_and_does_not_bend_it() -> None:
    times = StepTimes()
    measured(times, [1, 8, 1, 2, 4, 1, 16, 1], 60, noise=0.3)
    found = times.estimate(1, 15) / times.estimate(1, 0)
    assert 1.2 < found[7] < 3.2  # 2 in truth
    assert 2.4 < found[15] < 6.4  # 4 in truth


def test_all_steps_slow_down_together() -> None:
    times = StepTimes()
    measured(times, [1, 8], 50, noise=0)
    for _ in range(50):
        times.observe(1, 4 * curve(1))
    assert times.estimate(8, 0)[0] == pytest.approx(4 * curve(8), rel=0.2)


def test_before_anything_is_known_rows_are_thought_to_cost_something() -> None:
    times = StepTimes()
    assert (np.diff(times.estimate(1, 15)) > 0).all()
    times.observe(200, 0.2)  # a prompt
    assert (np.diff(times.estimate(1, 15)) > 0).all()
    times.observe(1, 4e-3)
    assert (np.diff(times.estimate(1, 600)) > 0).all()


def test_it_never_falls() -> None:
    times = StepTimes()
    measured(times, list(SIZES), 30, noise=1)
    assert (np.diff(times.estimate(1, 700)) >= 0).all()


def test_a_size_that_was_measured_at_a_bad_moment_is_tried_again() -> None:
    times = StepTimes()
    measured(times, [1], 5, noise=0)
    times.observe(8, 20 * curve(8))
    at_first = times.estimate(8, 0)[0]
    measured(times, [1], 1500, noise=0)
    assert times.estimate(8, 0)[0] < 0.8 * at_first
