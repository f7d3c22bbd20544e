"""Sampling parameters: every bound of the table holds, and nothing is clamped."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pyrite.errors import ParameterError
from pyrite.sampling import limits
from pyrite.sampling.limits import RANGES
from pyrite.sampling.params import SamplingParams, check_vocabulary

FLAGS = ("ignore_eos", "skip_special_tokens", "include_stop")


def refused(name: str, value: object) -> ParameterError:
    arguments: dict[str, Any] = {name: value}
    with pytest.raises(ParameterError) as caught:
        SamplingParams(**arguments)
    assert caught.value.name == name
    assert len(str(caught.value)) < 300
    return caught.value


def test_defaults_are_within_the_table() -> None:
    params = SamplingParams()
    assert not params.greedy
    assert set(RANGES) < set(SamplingParams.__dataclass_fields__)


@pytest.mark.parametrize("name", RANGES)
def test_bounds_are_included_and_what_is_beyond_is_refused(name: str) -> None:
    bounds = RANGES[name]
    step = 1 if bounds.whole else 0.001
    extra: dict[str, Any] = {"max_tokens": None} if name == "min_tokens" else {}
    extra |= {"prompt_logprobs": 0} if name == "max_tokens" else {}
    for value in (bounds.low, bounds.high):
        made = SamplingParams(**{name: value, **extra})
        assert getattr(made, name) == value
    assert str(bounds) in str(refused(name, bounds.low - step))
    refused(name, bounds.high + step)


WRONG = ("5", True, [1], {}, math.nan, math.inf, -math.inf, 10**400, -(10**5000), b"1", 1j)


@pytest.mark.parametrize("name", RANGES)
@pytest.mark.parametrize("value", WRONG, ids=range(len(WRONG)))
def test_wrong_kinds_are_refused(name: str, value: object) -> None:
    refused(name, value)


@pytest.mark.parametrize("name", [name for name, bounds in RANGES.items() if bounds.whole])
def test_whole_numbers_are_not_rounded(name: str) -> None:
    refused(name, 1.5)
    refused(name, 1.0)


@pytest.mark.parametrize("name", RANGES)
def test_none_only_where_the_table_says_so(name: str) -> None:
    if RANGES[name].optional:
        assert getattr(SamplingParams(**{name: None}), name) is None  # type: ignore[arg-type]
    else:
        refused(name, None)


@pytest.mark.parametrize("temperature", [-1, 3, 2.01, -1e-9])
def test_temperature_out_of_range(temperature: float) -> None:
    assert "0.0 to 2.0" in str(refused("temperature", temperature))


@pytest.mark.parametrize(("temperature", "greedy"), [(0, True), (1e-6, True), (1e-4, False)])
def test_greedy_below_the_documented_epsilon(temperature: float, greedy: bool) -> None:
    assert SamplingParams(temperature=temperature).greedy is greedy


@pytest.mark.parametrize("token_id", [-1, 2**31, "abc", 1.0, None, True])
def test_bias_and_stop_ids_must_be_token_ids(token_id: object) -> None:
    refused("logit_bias", {token_id: 1.0})
    refused("stop_token_ids", [token_id])


@pytest.mark.parametrize("value", [101, -100.5, math.nan, math.inf, None, "1", True])
def test_bias_values(value: object) -> None:
    refused("logit_bias", {1: value})


@pytest.mark.parametrize("count", [limits.MAX_BIAS_ENTRIES + 1, 300_000])
def test_bias_entries_are_capped(count: int) -> None:
    assert f"{count} entries" in str(refused("logit_bias", dict.fromkeys(range(count), 1.0)))


def test_a_thousand_bias_entries_are_taken() -> None:
    params = SamplingParams(logit_bias=dict.fromkeys(range(1000), -100))
    assert params.logit_bias[999] == -100.0


@pytest.mark.parametrize("value", [None, 5, b"x", {"a": 1}])
def test_lists_of_strings_must_be_lists(value: object) -> None:
    refused("stop", value)
    refused("dry_breakers", value)


@pytest.mark.parametrize("entry", ["", 5, None, "\ud83d", "x" * (limits.MAX_STOP_LENGTH + 1)])
def test_stop_strings(entry: object) -> None:
    refused("stop", ["fine", entry])


def test_counts_of_lists_are_capped() -> None:
    SamplingParams(stop=("a",) * limits.MAX_STOPS)
    refused("stop", ["a"] * (limits.MAX_STOPS + 1))
    refused("stop_token_ids", list(range(limits.MAX_STOP_IDS + 1)))
    refused("dry_breakers", ["a"] * (limits.MAX_BREAKERS + 1))


@pytest.mark.parametrize("name", FLAGS)
@pytest.mark.parametrize("value", [0, 1, None, "true"])
def test_flags_are_true_or_false(name: str, value: object) -> None:
    refused(name, value)


def test_lists_are_copied_into_our_own() -> None:
    bias, stop = {1: 2}, ["a"]
    params = SamplingParams(logit_bias=bias, stop=stop, stop_token_ids=[3])  # type: ignore[arg-type]
    bias[1] = 5
    stop.append("b")
    assert params.logit_bias == {1: 2.0}
    assert params.stop == ("a",)
    assert params.stop_token_ids == (3,)
    assert SamplingParams(stop="ab").stop == ("ab",)  # type: ignore[arg-type]


def test_min_tokens_within_max_tokens() -> None:
    SamplingParams(max_tokens=4, min_tokens=4)
    with pytest.raises(ParameterError, match="at most max_tokens"):
        SamplingParams(max_tokens=4, min_tokens=5)


def test_ids_are_checked_against_the_width_of_the_output() -> None:
    check_vocabulary(SamplingParams(logit_bias={9: 1.0}, stop_token_ids=(9,)), 10)
    for params in (SamplingParams(logit_bias={10: 1.0}), SamplingParams(stop_token_ids=(11,))):
        with pytest.raises(ParameterError, match="below the vocabulary's 10"):
            check_vocabulary(params, 10)
