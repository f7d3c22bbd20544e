"""Several answers to one prompt, and log-probabilities of tokens that are never drawn."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from scripted import ReadingRunner, alone, drive, hashed, make_engine, request

from pyrite.request import Request


def flat(history: tuple[int, ...]) -> Any:
    return hashed(history) / 10


def choices(seed: int | None, count: int = 3) -> list[Request]:
    one = request("c", "tell", max_tokens=12, temperature=1.0, seed=seed)
    return [replace(one, request_id=f"c{i}", choice=i) for i in range(count)]


def told(requests: list[Request]) -> list[list[int]]:
    results = drive(make_engine(ReadingRunner(flat)), requests)
    return [results[one.request_id].token_ids for one in requests]


def test_choices_draw_numbers_of_their_own_and_the_same_each_time() -> None:
    """Together or one by one; the first is what a request without choices says."""
    first = told(choices(42))
    assert told(choices(42)) == first
    assert [alone(one, flat).token_ids for one in choices(42)] == first
    assert len({tuple(tokens) for tokens in first}) == 3
    plain = request("plain", "tell", max_tokens=12, temperature=1.0, seed=42)
    assert alone(plain, flat).token_ids == first[0]
    assert told(choices(43))[1] != first[1]


def test_without_a_seed_choices_vary_and_so_do_runs() -> None:
    runs = [*told(choices(None)), *told(choices(None))]
    assert len({tuple(tokens) for tokens in runs}) == 6


def test_greedy_choices_are_one_answer() -> None:
    requests = [replace(one, params=replace(one.params, temperature=0)) for one in choices(1)]
    assert len({tuple(tokens) for tokens in told(requests)}) == 1


@pytest.mark.parametrize(
    "params",
    [{"top_k": 1}, {"logit_bias": {97: -100, 98: -100}}, {"min_tokens": 4}, {"min_p": 1.0}],
)
def test_log_probabilities_are_numbers_of_json(params: dict[str, Any]) -> None:
    """Also of tokens that the parameters mask, and that the model itself masks."""

    def logits(history: tuple[int, ...]) -> Any:
        row = hashed(history)
        row[99:] = -math.inf
        return row

    result = alone(request("a", "q:", max_tokens=4, logprobs=20, **params), logits)
    entries = [entry for delta in result.deltas for entry in delta.logprobs]
    assert len(entries) == 4
    for entry in entries:
        numbers = [entry.token.logprob, *(top.logprob for top in entry.top)]
        assert len(entry.top) == 20
        json.dumps(numbers, allow_nan=False)
        assert all(-9999 <= number <= 0 for number in numbers)
        assert sum(map(math.exp, numbers[1:])) <= 1 + 1e-4
