"""Log-probabilities of the prompt: the softmax's own, however the prompt was cut or interrupted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scripted import (
    NUM_IDS,
    ReadingRunner,
    Result,
    alone,
    drive,
    hashed,
    make_engine,
    request,
)

from pyrite.errors import BackendError, ContextLengthError, ParameterError
from pyrite.step import SCORED_TOKENS

PROMPT = bytes(97 + (7 * i * i) % 26 for i in range(150))


def log_softmax(history: tuple[int, ...]) -> np.ndarray:
    logits = hashed(history)[:NUM_IDS].astype(np.float64)
    return logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())


def assert_scored(result: Result, prompt: bytes, num_top: int) -> None:
    entries = result.deltas[0].prompt_logprobs
    assert len(entries) == len(prompt)
    assert entries[0] is None
    assert all(not delta.prompt_logprobs for delta in result.deltas[1:])
    for i, entry in enumerate(entries[1:], start=1):
        expected = log_softmax(tuple(prompt[:i]))
        assert entry is not None
        assert entry.token.token_id == prompt[i]
        assert entry.token.logprob == pytest.approx(expected[prompt[i]], abs=1e-4)
        order = np.argsort(-expected, kind="stable")[:num_top]
        assert [top.token_id for top in entry.top] == order.tolist()
        assert [top.logprob for top in entry.top] == pytest.approx(expected[order], abs=1e-4)


@pytest.mark.parametrize("max_tokens", [1, 7, 64, 1000])
@pytest.mark.parametrize("num_top", [0, 3])
def test_each_token_of_the_prompt_however_it_is_cut(max_tokens: int, num_top: int) -> None:
    engine = make_engine(ReadingRunner(max_tokens=max_tokens))
    asked = request("a", PROMPT, prompt_logprobs=num_top, max_tokens=3, logprobs=1)
    result = drive(engine, [asked, request("b", PROMPT, max_tokens=3)])
    assert_scored(result["a"], PROMPT, num_top)
    assert result["a"].token_ids == result["b"].token_ids
    assert not result["b"].deltas[0].prompt_logprobs


def test_no_answer_is_wanted() -> None:
    result = alone(request("a", PROMPT, prompt_logprobs=1, max_tokens=0))
    assert_scored(result, PROMPT, 1)
    (delta,) = result.deltas
    assert (delta.token_ids, delta.text, delta.finish_reason) == ((), "", "length")
    assert delta.usage is not None
    assert (delta.usage.prompt_tokens, delta.usage.completion_tokens) == (len(PROMPT), 0)
    with pytest.raises(ParameterError, match="max_tokens = 0"):
        request("a", PROMPT, max_tokens=0)


def test_a_prompt_of_one_token_has_nothing_to_score() -> None:
    for count in (0, 2):
        result = alone(request("a", "x", prompt_logprobs=2, max_tokens=count))
        assert result.deltas[0].prompt_logprobs == (None,)
        assert len(result.token_ids) == count


def test_a_prompt_that_fills_the_context() -> None:
    asked = request("a", PROMPT, prompt_logprobs=0, max_tokens=0)
    assert_scored(alone(asked, context=len(PROMPT)), PROMPT, 0)
    with pytest.raises(ContextLengthError):
        alone(request("a", PROMPT, prompt_logprobs=0, max_tokens=1), context=len(PROMPT))
    with pytest.raises(ContextLengthError):
        alone(asked, context=len(PROMPT) - 1)


def test_rows_of_logits_of_one_step_are_bounded() -> None:
    """Also when many ask: they wait for each other, and those who do not ask pass by."""
    runner = ReadingRunner(num_pages=100, max_tokens=1000)
    wanted: list[int] = []
    runner.fails = lambda _, batch: bool(wanted.append(len(batch.output_rows)))
    crowd = [request(str(i), PROMPT, prompt_logprobs=0, max_tokens=2) for i in range(8)]
    results = drive(make_engine(runner), [*crowd, request("plain", PROMPT, max_tokens=2)])
    for one in crowd:
        assert_scored(results[one.request_id], PROMPT, 0)
    assert max(wanted) <= SCORED_TOKENS + len(crowd) + 1
    assert results["plain"].token_ids == alone(request("plain", PROMPT, max_tokens=2)).token_ids


@pytest.mark.parametrize("num_pages", [6, 7])
def test_preempted_as_not_preempted(num_pages: int) -> None:
    crowd = [
        request(str(i), PROMPT[i : i + 70], prompt_logprobs=2, max_tokens=60) for i in range(3)
    ]
    engine = make_engine(ReadingRunner(num_pages=num_pages, max_tokens=32))
    results = drive(engine, crowd)
    assert engine.scheduler.num_preemptions > 0
    for i, one in enumerate(crowd):
        assert_scored(results[str(i)], PROMPT[i : i + 70], 2)
        assert results[str(i)].token_ids == alone(one).token_ids


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_row_that_is_not_finite_fails_that_request_alone(value: float) -> None:
    def logits(history: tuple[int, ...]) -> Any:
        row = hashed(history)
        if history == tuple(PROMPT[:40]):
            row[17] = value
        return row

    engine = make_engine(ReadingRunner(logits))
    other = request("other", "fine", prompt_logprobs=1, max_tokens=5)
    results = drive(engine, [request("bad", PROMPT, prompt_logprobs=0, max_tokens=5), other])
    assert isinstance(results["bad"].last.error, BackendError)
    assert results["bad"].token_ids == []
    assert_scored(results["other"], b"fine", 1)


def test_a_masked_token_has_the_floor_and_never_an_infinity() -> None:
    def logits(history: tuple[int, ...]) -> Any:
        row = hashed(history)
        row[ord("b")] = -np.inf
        return row

    result = alone(request("a", "abc", prompt_logprobs=20, max_tokens=0), logits)
    entry = result.deltas[0].prompt_logprobs[1]
    assert entry is not None
    assert entry.token.logprob == -9999.0
    assert all(np.isfinite(top.logprob) for top in entry.top)
