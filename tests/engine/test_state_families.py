"""Families with states, of random weights: cut, cached, guessed, preempted and in any company each
answers as whole and alone, to the last bit."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from test_state_models import (
    Answers,
    Guesses,
    House,
    cached,
    drive,
    prompts,
    request,
    step,
    token_ids,
    tokens,
)

import pyrite
from plans import Model
from pyrite.backends.cpu import CpuBackend
from pyrite.embedding import NUM_SLOTS
from pyrite.formats.checkpoint import open_checkpoint
from pyrite.models.registry import as_model, build_plan

FAMILIES = (
    "falcon_h1",
    "granitemoehybrid",
    "jamba",
    "lfm2",
    "lfm2_moe",
    "mamba",
    "mamba2",
    "qwen3_5_moe_text",
    "qwen3_next",
    "rwkv4",
    "rwkv7",
)

CONTEXTS = ("max_position_embeddings", "context_length")


@pytest.fixture(scope="module", params=FAMILIES)
def house(request: pytest.FixtureRequest, golden: Path) -> House:
    checkpoint = open_checkpoint(golden / "tiny" / request.param)
    longer = {key: 4096 for key in CONTEXTS if key in checkpoint.metadata}
    checkpoint = as_model(replace(checkpoint, metadata={**checkpoint.metadata, **longer}))
    plan = build_plan(checkpoint)
    assert plan.has_state
    return House(CpuBackend(), Model(plan, checkpoint.tensors))


@pytest.mark.parametrize("max_tokens", [1, 30])
def test_in_a_batch_and_in_chunks_as_whole_and_alone(house: House, max_tokens: int) -> None:
    requests = prompts(5, 1)
    engine = house.engine(num_pages=200, max_tokens=max_tokens, prefix_cache=False)
    house.assert_same(drive(engine, requests), house.alone(requests))


def test_many_threads_as_one(house: House) -> None:
    requests = prompts(5, 6)
    engine = house.engine(num_pages=200, num_threads=3)
    house.assert_same(drive(engine, requests), house.alone(requests))


def test_preempted_as_not_preempted(house: House) -> None:
    requests = prompts(8, 2, longest=60)
    engine = house.engine(num_pages=9)
    house.assert_same(drive(engine, requests), house.alone(requests))
    assert engine.stats().preemptions > 0


def test_cached_is_cold(house: House) -> None:
    engine = house.engine()
    first = request("a", tokens(130, 3))
    cold = drive(engine, [first])
    warm = drive(engine, [first])
    house.assert_same(warm, cold)
    assert cached(warm["a"]) == 128
    next_turn = request("b", (*first.prompt_ids, *token_ids(cold["a"]), *tokens(9, 4)))
    found = drive(engine, [next_turn])
    assert cached(found["b"]) == 141
    house.assert_same(found, house.alone([next_turn]))


def test_speculated_is_plain(house: House) -> None:
    requests = prompts(6, 3)
    plain = house.alone(requests)
    told = {
        one.request_id: [*one.prompt_ids, *token_ids(plain[one.request_id])] for one in requests
    }
    engine = house.engine(guesser=Guesses(told, 0.8), num_pages=200)
    house.assert_same(drive(engine, requests), plain)
    assert engine.stats().accepted_tokens > 0


@pytest.mark.parametrize("seed", range(2))
def test_a_crowd_with_everything(house: House, seed: int) -> None:
    """Few pages, few slots, guesses, cancels, prompts that begin alike."""
    dice = random.Random(seed)
    requests = prompts(16, seed + 10)
    plain = house.alone(requests)
    told = {
        one.request_id: [*one.prompt_ids, *token_ids(plain[one.request_id])] for one in requests
    }
    engine = house.engine(num_pages=12, num_slots=9, max_tokens=48, guesser=Guesses(told, 0.8))
    answers: Answers = {}
    pending, gone = requests.copy(), set()
    while pending or engine.has_work:
        while pending and dice.random() < 0.4:
            engine.add(pending.pop())
        if dice.random() < 0.05 and engine._active:
            gone.add(name := dice.choice(sorted(engine._active)))
            engine.cancel(name)
        step(engine, answers)
    whole = {name: deltas for name, deltas in answers.items() if name not in gone}
    assert len(whole) == len(requests) - len(gone)
    house.assert_same(whole, plain)


@pytest.fixture(scope="module", params=FAMILIES)
def model(request: pytest.FixtureRequest, golden: Path) -> Iterator[pyrite.Model]:
    """Loaded by every layer of the engine, with what is chosen by default."""
    with pyrite.load(golden / "tiny" / request.param, threads=2, context=200) as loaded:
        yield loaded


def test_a_conversation(model: pyrite.Model) -> None:
    prompt = list(tokens(70, 1))
    for turn in range(3):
        answer = model.generate(prompt, max_tokens=20, temperature=0, ignore_eos=True)
        assert answer.usage.cached_tokens > 0 or turn == 0
        prompt += [*answer.token_ids, *tokens(5, turn)]
    stats = model.loaded.engine.stats()
    assert stats.states_used == 0
    assert stats.states_cached > 1


def test_logits_after_each_token(model: pyrite.Model) -> None:
    """Between two steps of the engine, in a slot that is free; they disturb no checkpoint."""
    prompt = list(tokens(80, 2))
    first = model.generate(prompt, max_tokens=3, temperature=0, ignore_eos=True)
    logits = model.logits([*prompt, *first.token_ids])
    chosen = logits[len(prompt) - 1 : -1].argmax(axis=1).tolist()
    assert chosen == list(first.token_ids)
    again = model.generate(prompt, max_tokens=3, temperature=0, ignore_eos=True)
    assert again.token_ids == first.token_ids
    assert again.usage.cached_tokens == 64


def test_embedded_together_as_alone(model: pyrite.Model) -> None:
    """More texts than one batch has slots, some of which are cut in two by it."""
    texts = [list(tokens(1 + 37 * number % 190, number)) for number in range(NUM_SLOTS + 9)]
    together = model.embed(texts)
    for text, vector in zip(texts, together, strict=True):
        np.testing.assert_array_equal(model.embed([text])[0], vector)
