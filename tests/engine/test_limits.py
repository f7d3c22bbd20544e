"""How requests end, and what is refused before the model sees it."""

from __future__ import annotations

from typing import Any

import pytest
from scripted import (
    EOS,
    MARKER,
    VOCABULARY,
    ReadingRunner,
    alone,
    assert_idle,
    drive,
    make_engine,
    request,
    script,
)

from pyrite.errors import ContextLengthError, ParameterError


def answer(ids: Any, **params: Any) -> Any:
    return alone(request("a", "q:", **params), script("q:", ids))


def test_eos_stops_and_is_no_text() -> None:
    result = answer([*b"yes", EOS])
    assert result.text == "yes"
    assert result.token_ids == [*b"yes", EOS]
    assert result.last.finish_reason == "stop"
    assert result.last.usage.completion_tokens == 4
    assert result.last.usage.prompt_tokens == 2


def test_ignore_eos() -> None:
    result = answer([*b"yes", EOS, *b"no"], ignore_eos=True, max_tokens=6)
    assert result.token_ids == [*b"yes", EOS, *b"no"]
    assert result.text == "yesno"
    assert result.last.finish_reason == "length"


def test_stop_ids() -> None:
    result = answer(b"abcd", stop_token_ids=[ord("c")], ignore_eos=True)
    assert (result.text, result.last.finish_reason) == ("ab", "stop")


def test_stop_strings_are_never_sent() -> None:
    result = answer(b"xxabc and more", stop=["ab", "abc", "b"])
    assert (result.text, result.last.finish_reason) == ("xx", "stop")
    held = answer(b"xxa!", stop=["ab"], max_tokens=3)
    assert held.text == "xxa", "what was held back is flushed at the end"
    assert held.last.text == "a"


def test_a_stop_string_that_is_a_control_token() -> None:
    result = answer([*b"yes", MARKER, *b"no"], stop=["<marker>"], ignore_eos=True, max_tokens=9)
    assert (result.text, result.last.finish_reason) == ("yes", "stop")


@pytest.mark.parametrize(
    ("params", "stopped_by"),
    [
        ({}, None),  # the model's own end
        ({"stop": ["d", "bcd", "bc"]}, "bc"),  # begins first, and is whole first
        ({"stop_token_ids": [ord("c"), ord("d")]}, ord("c")),
        ({"stop": ["<marker>"]}, "<marker>"),
        ({"stop_token_ids": [EOS]}, EOS),  # the model's own end, and asked for by name
        ({"stop": ["bc"], "include_stop": True}, "bc"),
        ({"max_tokens": 2, "stop": ["bcd"]}, None),  # cut off inside a stop string
    ],
)
def test_what_ended_the_request_is_told(params: dict[str, Any], stopped_by: object) -> None:
    end = MARKER if "<marker>" in params.get("stop", ()) else EOS
    result = answer([*b"abcd", end], **params)
    assert result.last.stopped_by == stopped_by
    assert [delta.stopped_by for delta in result.deltas[:-1]] == [None] * (len(result.deltas) - 1)


def test_usage_comes_with_the_first_token_and_the_last() -> None:
    result = answer(b"abcd", max_tokens=4)
    counts = [delta.usage and delta.usage.completion_tokens for delta in result.deltas]
    assert counts == [1, None, None, 4]
    assert answer(b"a", max_tokens=1).last.usage is not None


def test_min_tokens_holds_back_every_way_to_stop() -> None:
    logits = script("q:", [EOS] * 8)
    result = alone(request("a", "q:", min_tokens=5, max_tokens=30), logits)
    assert EOS not in result.token_ids[:5]
    assert len(result.token_ids) == 6
    assert result.last.finish_reason == "stop"


def test_max_tokens() -> None:
    result = answer(b"abcdefgh", max_tokens=3)
    assert (result.text, result.last.finish_reason) == ("abc", "length")


@pytest.mark.parametrize("max_tokens", [100, 4, None])
def test_the_context_is_filled_exactly(max_tokens: int | None) -> None:
    runner = ReadingRunner(num_pages=2)
    engine = make_engine(runner, context=64)
    one = request("a", "p" * 60, max_tokens=max_tokens, ignore_eos=True)
    result = drive(engine, [one])["a"]
    assert len(result.token_ids) == 4
    assert result.last.finish_reason == "length"
    again = drive(engine, [request("b", "p" * 60, max_tokens=2)])["b"]
    assert again.token_ids == result.token_ids[:2]


@pytest.mark.parametrize("length", [64, 65, 1000])
def test_a_prompt_longer_than_the_context(length: int) -> None:
    engine = make_engine(ReadingRunner(), context=64)
    with pytest.raises(ContextLengthError) as caught:
        engine.add(request("a", "p" * length, max_tokens=1))
    assert str(length) in str(caught.value)
    assert "64" in str(caught.value)
    assert caught.value.num_tokens == length
    assert_idle(engine)
    assert len(drive(engine, [request("b", "p" * 63, max_tokens=10)])["b"].token_ids) == 1


@pytest.mark.parametrize("prompt", [[], [-1], [0, VOCABULARY], [2**31], [2**63]])
def test_prompts_that_are_refused(prompt: list[int]) -> None:
    engine = make_engine(ReadingRunner())
    good = request("good", "good", max_tokens=3)
    engine.add(good)
    with pytest.raises(ParameterError, match="prompt"):
        engine.add(request("bad", prompt))
    results = drive(engine)
    assert results.keys() == {"good"}
    assert results["good"].token_ids == alone(good).token_ids


@pytest.mark.parametrize("name", ["logit_bias", "stop_token_ids"])
def test_ids_beyond_the_vocabulary(name: str) -> None:
    engine = make_engine(ReadingRunner())
    for token_id in (VOCABULARY, VOCABULARY + 1, 2**31 - 1):
        value = {token_id: 1.0} if name == "logit_bias" else [token_id]
        with pytest.raises(ParameterError, match=name):
            engine.add(request("bad", "bad", **{name: value}))
    assert_idle(engine)


def test_an_id_is_used_once_at_a_time() -> None:
    engine = make_engine(ReadingRunner())
    engine.add(request("a", "a", max_tokens=2))
    with pytest.raises(ParameterError, match="request_id"):
        engine.add(request("a", "b"))
    drive(engine)
    assert len(drive(engine, [request("a", "a", max_tokens=2)])["a"].token_ids) == 2


def test_rows_of_padding_are_never_sampled() -> None:
    logits = script("q:", [VOCABULARY - 1] * 5)
    result = alone(request("a", "q:", max_tokens=5, ignore_eos=True), logits)
    assert all(token_id < VOCABULARY - 2 for token_id in result.token_ids)


def test_timings_and_usage_come_with_the_last_delta() -> None:
    result = answer(b"abc", max_tokens=3)
    assert result.last.timings.prompt_seconds > 0
    assert result.last.timings.decode_seconds > 0
    assert all(delta.timings is None for delta in result.deltas[:-1])
