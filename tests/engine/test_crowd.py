"""A crowd with code words: nobody's answer holds another's word, or differs from its answer alone.

Random lengths, prefixes in common, several choices, grammars, some that are
cancelled while they wait or speak, and a pool too small for them. Bit for bit: what is compared is
log-probabilities, which every token that was read moves.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.engine.scripted import (
    History,
    ReadingRunner,
    Result,
    alone,
    assert_idle,
    drive,
    hashed,
    make_engine,
    request,
    take_step,
)

import pyrite
from pyrite.engine import Engine
from pyrite.llm import Model
from pyrite.request import Request
from pyrite.sampling.grammar import Grammar
from pyrite.sampling.params import SamplingParams

CROWD = 64
LETTERS = "bcdfghjklmnprstvz"  # no word of a language


@dataclass(frozen=True)
class Guest:
    word: str
    request: Request


def words(dice: random.Random, count: int) -> list[str]:
    found: set[str] = set()
    while len(found) < count:
        found.add("".join(dice.choices(LETTERS, k=6)))
    return sorted(found, key=lambda word: dice.random())


def schema(word: str) -> Grammar:
    return Grammar.json_schema(
        {
            "type": "object",
            "properties": {"word": {"const": word}},
            "required": ["word"],
            "additionalProperties": False,
        }
    )


def mingle(engine: Engine, guests: Sequence[Guest], dice: random.Random) -> dict[str, Result]:
    """All come within some steps; a fifth is cancelled on the way, at any time."""
    results: dict[str, Result] = {}
    coming = list(guests)
    doomed = [guest.request.request_id for guest in dice.sample(guests, len(guests) // 5)]
    present: set[str] = set()
    while coming or engine.has_work:
        for guest in coming[: dice.randint(0, 8)]:
            engine.add(guest.request)
            present.add(guest.request.request_id)
            coming.remove(guest)
        if doomed and doomed[-1] in present and dice.random() < 0.5:
            delta = engine.cancel(doomed.pop())
            if delta is not None:
                results.setdefault(delta.request_id, Result()).deltas.append(delta)
        take_step(engine, results)
    assert_idle(engine)
    return results


def told(result: Result) -> list[object]:
    """Every token and the log-probabilities of its place."""
    tokens = [token for delta in result.deltas for token in delta.token_ids]
    places = [place for delta in result.deltas for place in delta.logprobs]
    assert len(tokens) == len(places)
    return list(zip(tokens, places, strict=True))


def assert_own(guests: Iterable[Guest], crowd: dict[str, Result], solo: dict[str, Result]) -> None:
    everyone = {guest.word for guest in guests}
    for guest in guests:
        name = guest.request.request_id
        found, expected = crowd[name], solo[name]
        foreign = {word for word in everyone - {guest.word} if word in found.text}
        assert not foreign, f"{name} holds what belongs to others: {foreign}"
        if found.last.finish_reason == "cancelled":
            assert told(found) == told(expected)[: len(told(found))], name
            continue
        assert told(found) == told(expected), name
        assert found.text == expected.text
        assert found.last.finish_reason == expected.last.finish_reason


def parrot(history: History) -> NDArray[np.float32]:
    """Says the word in the last brackets again and again; the rest is by chance of the history."""
    text = bytes(history)
    start = text.rindex(b"[")
    end = text.index(b"]", start)
    word = text[start + 1 : end] + b" "
    row = hashed(history)
    row[word[(len(text) - end - 1) % len(word)]] += 30
    return row


def scripted_crowd(dice: random.Random) -> list[Guest]:
    prefixes = ["".join(dice.choices(LETTERS, k=length)) for length in (0, 31, 48, 90)]
    guests = []
    for number, word in enumerate(words(dice, CROWD)):
        prompt = dice.choice(prefixes) + "-" * dice.randint(0, 40) + f"[{word}]"
        params = {"logprobs": 2, "seed": number, "temperature": number % 2}
        if number % 5 == 0:
            params |= {"grammar": schema(word), "max_tokens": 60}
        else:
            params |= {"max_tokens": dice.randint(1, 40), "stop": [word * 2, "\n"]}
        one = request(f"g{number}", prompt, **params)
        guests += [Guest(word, replace(one, request_id=f"g{number}.{k}", choice=k)) for k in (0, 1)]
    return guests[:CROWD]


@pytest.mark.parametrize(("seed", "num_pages"), [(1, 14), (2, 24), (3, 60)])
def test_a_scripted_crowd(seed: int, num_pages: int) -> None:
    dice = random.Random(seed)
    guests = scripted_crowd(dice)
    solo = {guest.request.request_id: alone(guest.request, parrot) for guest in guests}
    assert sum(guest.word in solo[guest.request.request_id].text for guest in guests) > CROWD / 2
    engine = make_engine(ReadingRunner(parrot, num_pages=num_pages, max_tokens=80))
    for _ in range(2):  # the second time with whatever the first has left in caches
        assert_own(guests, mingle(engine, guests, dice), solo)
    if num_pages < 60:
        assert engine.scheduler.num_preemptions > 0, "the pool was meant to be too small"


def test_the_crowd_test_sees_a_foreign_page() -> None:
    """What it is for: one page read by another's request is found."""
    dice = random.Random(4)
    guests = scripted_crowd(dice)[:8]
    solo = {guest.request.request_id: alone(guest.request, parrot) for guest in guests}
    runner = ReadingRunner(parrot, num_pages=60, max_tokens=80)
    run = runner.run

    def mixed_up(batch):  # type: ignore[no-untyped-def]
        if len(batch.page_tables) > 4:
            batch.page_tables[1, 0] = batch.page_tables[0, 0]
        return run(batch)

    runner.run = mixed_up  # type: ignore[method-assign]
    with pytest.raises((AssertionError, ValueError)):
        assert_own(guests, mingle(make_engine(runner), guests, dice), solo)


def real_crowd(model: Model, dice: random.Random) -> list[Guest]:
    """Short prompts, for a real model is asked twice for every token."""
    systems = ["", "You say words again. ", "Read with care, then answer with the word. "]
    guests = []
    for number, word in enumerate(words(dice, CROWD)):
        text = dice.choice(systems) + "so " * dice.randint(0, 9)
        ids = model.tokenize(f"{text}The code word is {word}. Again: the code word is")
        params = SamplingParams(
            temperature=number % 2,
            seed=number,
            max_tokens=dice.randint(3, 8),
            logprobs=1,
            grammar=Grammar.regex(f" ?({word}|[a-z]{{3}})") if number % 5 == 0 else None,
        )
        guests.append(Guest(word, Request(f"g{number}", tuple(ids), params)))
    return guests


def test_a_crowd_with_real_weights(smollm2_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven pages for sixty-four; each alone, then all together."""
    dice = random.Random(6)
    with pyrite.load(smollm2_path, threads=2, context=96, kv_pages=7) as model:
        guests = real_crowd(model, dice)
        engine = model.loaded.engine
        solo = {}
        for guest in guests:
            solo |= drive(engine, [guest.request])
        index = engine.scheduler.cache.index
        evict, evictions = index.evict, itertools.count()
        monkeypatch.setattr(index, "evict", lambda: (next(evictions), evict()))
        assert_own(guests, mingle(engine, guests, dice), solo)
        assert next(evictions) > CROWD, "the pool was meant to be too small"
    said = sum(guest.word[:4] in solo[guest.request.request_id].text for guest in guests)
    assert said > CROWD / 4, "the model does say the words"
    grammars = [guest for guest in guests if guest.request.params.grammar]
    assert all(solo[guest.request.request_id].text.strip() for guest in grammars)
