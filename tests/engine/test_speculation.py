"""Speculated equals plain, bit for bit: whatever is guessed, however it fits, in any company."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from scripted import (
    EOS,
    NUM_IDS,
    ReadingRunner,
    Result,
    alone,
    drive,
    hashed,
    make_engine,
    request,
    script,
    take_step,
)

from pyrite.engine import Engine
from pyrite.errors import BackendError
from pyrite.request import Request
from pyrite.sampling.grammar import Grammar
from pyrite.sampling.speculate import MOST_GUESSES, Guesser, Repetition
from pyrite.speculation import Speculation
from pyrite.steptimes import StepTimes


class Oracle:
    """Guesses what each request will say, and is wrong as often as it is told to be."""

    def __init__(self, answers: dict[str, list[int]], right: float, seed: int = 1) -> None:
        self.answers = answers  # prompt and answer
        self.right = right
        self.dice = random.Random(seed)

    def chances(self, request_id: str, token_ids: Sequence[int], most: int) -> list[float]:
        return [0.99**i for i in range(self.dice.randint(0, most))]

    def guesses(self, asked: Sequence[tuple[str, Sequence[int], int]]) -> list[list[int]]:
        return [self._guess(name, len(known), count) for name, known, count in asked]

    def _guess(self, name: str, start: int, count: int) -> list[int]:
        told = self.answers.get(name, [])[start : start + count]
        padded = told + [self.dice.randrange(NUM_IDS) for _ in range(count - len(told))]
        return [
            token if self.dice.random() < self.right else self.dice.randrange(NUM_IDS)
            for token in padded
        ]

    def seconds(self, num_requests: int, most: int) -> Any:
        return np.zeros(most + 1)

    def learn(self, request_id: str, num_guesses: int, num_held: int) -> None:
        assert 0 <= num_held <= num_guesses

    def forget(self, request_id: str) -> None:
        self.answers.pop(request_id, None)


class Clock(StepTimes):
    """Each row beyond the first costs so much of a step; what steps truly take is not looked at."""

    def __init__(self, slope: float) -> None:
        super().__init__()
        self.slope = slope

    def estimate(self, num_rows: int, more: int) -> Any:
        return 1 + self.slope * np.arange(num_rows - 1, num_rows + more)


def speculating(
    runner: ReadingRunner, guesser: Guesser, *, slope: float = 0.01, **options: Any
) -> Engine:
    engine = make_engine(runner, **options)
    engine._speculation = Speculation(guesser)
    engine._speculation.times = Clock(slope)
    return engine


def flat(history: tuple[int, ...]) -> Any:
    """Logits under which a draw at temperature 1 may be any letter."""
    return hashed(history) / 4


def as_told(requests: list[Request], logits: Any = hashed) -> dict[str, Result]:
    return {one.request_id: alone(one, logits) for one in requests}


def oracle(requests: list[Request], plain: dict[str, Result], right: float) -> Oracle:
    texts = {
        one.request_id: [*one.prompt_ids, *plain[one.request_id].token_ids] for one in requests
    }
    return Oracle(texts, right)


def assert_same(found: dict[str, Result], plain: dict[str, Result]) -> None:
    for name, expected in plain.items():
        result = found[name]
        assert result.token_ids == expected.token_ids, name
        assert result.text == expected.text
        assert [entry for delta in result.deltas for entry in delta.logprobs] == [
            entry for delta in expected.deltas for entry in delta.logprobs
        ]
        assert result.deltas[0].prompt_logprobs == expected.deltas[0].prompt_logprobs
        assert result.last.finish_reason == expected.last.finish_reason
        assert result.last.stopped_by == expected.last.stopped_by
        assert result.last.usage is not None
        assert expected.last.usage is not None  # alone: nothing was cached
        assert replace(result.last.usage, cached_tokens=0) == expected.last.usage
        assert all(delta.usage is None for delta in result.deltas[1:-1])


options = st.fixed_dictionaries(
    {
        "max_tokens": st.integers(1, 50),
        "temperature": st.sampled_from([0, 0.7, 1.0]),
        "seed": st.integers(0, 9),
        "repetition_penalty": st.sampled_from([1.0, 1.3]),
        "frequency_penalty": st.sampled_from([0.0, 1.0]),
        "dry_multiplier": st.sampled_from([0.0, 0.8]),
        "stop": st.lists(st.text("abcdefg ", min_size=1, max_size=2), max_size=3),
        "stop_token_ids": st.lists(st.integers(97, 122), max_size=1),
        "logprobs": st.sampled_from([None, 0, 2]),
        "prompt_logprobs": st.sampled_from([None, None, 1]),
        "logit_bias": st.dictionaries(st.integers(97, 122), st.floats(-5, 5), max_size=2),
    }
)


@settings(max_examples=40, derandomize=True, deadline=None)
@given(
    asked=st.lists(st.tuples(st.binary(min_size=1, max_size=60), options), min_size=1, max_size=5),
    right=st.sampled_from([0.0, 0.5, 0.9, 1.0]),
    num_pages=st.sampled_from([5, 9, 40]),
    max_tokens=st.sampled_from([1, 5, 20, 200]),
)
def test_speculated_as_plain(
    asked: list[tuple[bytes, dict[str, Any]]], right: float, num_pages: int, max_tokens: int
) -> None:
    requests = [
        request(str(i), prompt, **given, min_tokens=min(2, given["max_tokens"]))
        for i, (prompt, given) in enumerate(asked)
    ]
    plain = as_told(requests, flat)
    runner = ReadingRunner(flat, num_pages=num_pages, max_tokens=max_tokens)
    engine = speculating(runner, oracle(requests, plain, right), context=160)
    assert_same(drive(engine, requests), plain)


def test_guesses_that_hold_save_steps() -> None:
    one = request("a", "prompt", max_tokens=64)
    plain = as_told([one])
    guesser = oracle([one], plain, 1.0)
    guesser.chances = lambda name, known, most: [0.99] * most  # type: ignore[method-assign]
    runner = ReadingRunner()
    engine = speculating(runner, guesser)
    assert_same(drive(engine, [one]), plain)
    assert len(runner.sizes) == 1 + 63 // (MOST_GUESSES + 1) + 1
    stats = engine.stats()
    assert stats.accepted_tokens == stats.drafted_tokens == 64 - len(runner.sizes)
    assert stats.drafts == len(runner.sizes) - 1
    assert stats.accepted_at[0] == stats.drafts
    assert sum(stats.accepted_at) == stats.accepted_tokens


def test_guesses_that_fail_are_counted_and_change_nothing() -> None:
    one = request("a", "prompt", max_tokens=40)
    engine = speculating(ReadingRunner(), Oracle({}, 0.0))
    plain = as_told([one])
    assert_same(drive(engine, [one]), plain)
    stats = engine.stats()
    assert stats.drafted_tokens > 0
    assert stats.accepted_tokens < stats.drafted_tokens / 4


@pytest.mark.parametrize("place", range(1, 8))
@pytest.mark.parametrize("end", [EOS, ord("!")])
def test_what_follows_the_end_inside_a_run_of_guesses_is_not_told(place: int, end: int) -> None:
    answer = [*b"abcdefgh"[:place], end, *b"never told"]
    one = request("a", "q:", max_tokens=30, stop_token_ids=[ord("!")])
    logits = script("q:", answer)
    guesser = Oracle({"a": [*b"q:", *answer]}, 1.0)
    guesser.chances = lambda name, known, most: [0.99] * most  # type: ignore[method-assign]
    result = drive(speculating(ReadingRunner(logits), guesser), [one])["a"]
    assert result.text == "abcdefgh"[:place]
    assert result.token_ids == answer[: place + 1]
    assert result.last.stopped_by == (None if end == EOS else end)


def test_a_row_that_is_not_finite_inside_a_run_of_guesses() -> None:
    """What came before it is told; the error comes with it."""

    def logits(history: tuple[int, ...]) -> Any:
        row = hashed(history)
        if len(history) == 2 + 5:
            row[3] = np.nan
        return row

    one = request("a", "q:", max_tokens=30)
    answer = alone(request("a", "q:", max_tokens=5)).token_ids
    guesser = Oracle({"a": [*b"q:", *answer, 100, 100, 100]}, 1.0)
    guesser.chances = lambda name, known, most: [0.99] * most  # type: ignore[method-assign]
    result = drive(speculating(ReadingRunner(logits), guesser), [one])["a"]
    assert result.token_ids == answer
    assert isinstance(result.last.error, BackendError)
    assert result.last.finish_reason == "error"


@pytest.mark.parametrize("number", range(2, 8))
def test_a_run_with_guesses_fails_at_the_nth_step(number: int) -> None:
    requests = [request(name, name * 5, max_tokens=30) for name in ("good", "fine", "well")]
    plain = as_told(requests)
    runner = ReadingRunner()
    runner.fails = lambda run, _: run == number
    assert_same(drive(speculating(runner, oracle(requests, plain, 0.9)), requests), plain)


def test_no_one_is_preempted_for_guesses() -> None:
    """With pages for everything plain, guessing preempts no one, and uses what is free."""
    requests = [request(str(i), "x" * 20, max_tokens=40) for i in range(4)]
    plain = as_told(requests)
    engine = speculating(ReadingRunner(num_pages=8), oracle(requests, plain, 0.5))
    assert_same(drive(engine, requests), plain)
    assert engine.scheduler.num_preemptions == 0
    assert engine.stats().drafted_tokens > 0


def test_cancelled_between_steps_with_guesses() -> None:
    requests = [request(str(i), "x" * i, max_tokens=50) for i in range(1, 5)]
    plain = as_told(requests)
    engine = speculating(ReadingRunner(), oracle(requests, plain, 0.8))
    for one in requests:
        engine.add(one)
    results: dict[str, Result] = {}
    for _ in range(3):
        take_step(engine, results)
    assert engine.cancel("2") is not None
    while engine.has_work:
        take_step(engine, results)
    plain.pop("2")
    assert_same(results, plain)


GRAMMARS = (
    Grammar.regex("([a-z]{1,6} ){2,8}[0-9]+"),
    Grammar.choice(["abcabcabc", "abcabcxyz", "zyx"]),
    Grammar.json_schema({"type": "array", "items": {"enum": ["one", "two"]}, "minItems": 3}),
)


@pytest.mark.parametrize("right", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("temperature", [0, 1.0])
def test_constrained_as_plain(right: float, temperature: float) -> None:
    """Guesses that the grammar rejects are cut before they are computed."""
    requests = [
        request(
            str(i),
            f"answer {i}: ",
            grammar=grammar,
            max_tokens=60,
            temperature=temperature,
            seed=i,
            logprobs=1,
        )
        for i, grammar in enumerate((*GRAMMARS, None))
    ]
    plain = as_told(requests, flat)
    engine = speculating(ReadingRunner(flat), oracle(requests, plain, right))
    assert_same(drive(engine, requests), plain)
    stats = engine.stats()
    if right == 1.0:
        assert stats.accepted_tokens > 10
    assert stats.accepted_tokens <= stats.drafted_tokens


class Silent(Oracle):
    """Never guesses."""

    def chances(self, request_id: str, token_ids: Sequence[int], most: int) -> list[float]:
        return []


def test_what_a_grammar_forces_is_guessed() -> None:
    schema = {
        "type": "object",
        "properties": {"first_property": {"enum": [1, 2]}, "second_property": {"enum": [1, 2]}},
        "required": ["first_property", "second_property"],
        "additionalProperties": False,
    }
    one = request("a", "q:", grammar=Grammar.json_schema(schema), max_tokens=90)
    plain = as_told([one])
    runner = ReadingRunner()
    engine = speculating(runner, Silent({}, 0.0))
    assert_same(drive(engine, [one]), plain)
    stats = engine.stats()
    assert stats.accepted_tokens == stats.drafted_tokens > 20
    assert len(runner.sizes) < len(plain["a"].token_ids) / 2


def repeating(history: tuple[int, ...]) -> Any:
    """Says the history's first forty tokens again and again."""
    logits = np.zeros(len(hashed(history)), np.float32)
    logits[history[len(history) % 40]] = 30
    return logits


def test_text_that_repeats_its_prompt_takes_few_steps() -> None:
    prompt = hashed_text(40)
    one = request("a", prompt, max_tokens=200, temperature=1.0, seed=3)
    runner = ReadingRunner(repeating)
    engine = speculating(runner, Repetition(), slope=0.2)
    assert_same(drive(engine, [one]), as_told([one], repeating))
    assert len(runner.sizes) < 60
    stats = engine.stats()
    assert stats.accepted_tokens > 0.8 * stats.drafted_tokens


def test_text_that_does_not_repeat_is_not_guessed() -> None:
    one = request("a", hashed_text(200), max_tokens=200, temperature=1.0, seed=3)
    engine = speculating(ReadingRunner(flat), Repetition(), slope=0.2)
    assert_same(drive(engine, [one]), as_told([one], flat))
    assert engine.stats().drafted_tokens < 20


def hashed_text(count: int) -> list[int]:
    dice = random.Random(count)
    return [dice.randrange(97, 123) for _ in range(count)]
