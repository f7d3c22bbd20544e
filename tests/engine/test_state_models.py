"""Real operations with states: what goes on from a slot or a checkpoint is what would be computed.

Answers and log-probabilities of an engine whose cache, chunks, guesses and company vary are
compared with those of one that computes each request whole and alone. Slots that are free hold NaN.
Bits are the same on the CPU backend; a product of NumPy's depends on its rows.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from test_cached_models import ids
from test_speculation import Clock, Oracle

from plans import VOCABULARY, Model, float_tensor, random_weights
from pyrite.backends.base import Batch
from pyrite.backends.cpu import CpuBackend
from pyrite.backends.reference import ReferenceBackend
from pyrite.drafting import DraftModel
from pyrite.engine import Engine
from pyrite.graph.build import GraphBuilder
from pyrite.graph.compile import compile_plan
from pyrite.graph.ops import Norm, View
from pyrite.request import Delta, Request
from pyrite.sampling.params import SamplingParams
from pyrite.scheduler import Policy
from pyrite.speculation import Speculation
from pyrite.text.ids_only import IdsOnly

WIDTH = 32


Answers = dict[str, list[Delta]]


def recurrent(builder: GraphBuilder, x: View, name: str) -> View:
    """A convolution, a scan, and a sum with the token before."""
    x = builder.short_conv(x, f"{name}.taps", 4, bias=f"{name}.bias", activation="silu")
    step = builder.linear(x, f"{name}.step", WIDTH)
    b, c = (builder.linear(x, f"{name}.{part}", 8) for part in "bc")
    y = builder.scan(x, step, b, c, a=f"{name}.a", d=f"{name}.d")
    return builder.add(y, builder.shift_tokens(y))


def attention(builder: GraphBuilder, x: View, name: str) -> View:
    parts = (builder.linear(x, f"{name}.{part}", WIDTH) for part in ("query", "key", "value"))
    return builder.attention(*parts, head_width=16, scale=0.25)


LAYERS = {"states alone": (recurrent, recurrent), "beside pages": (recurrent, attention, recurrent)}


def model_of(kinds: str) -> Model:
    builder = GraphBuilder()
    x = builder.embed("table", VOCABULARY, WIDTH)
    for number, layer in enumerate(LAYERS[kinds]):
        normed = builder.norm(x, Norm(f"{number}.norm", 1e-5))
        x = builder.add(x, layer(builder, normed, str(number)))
    last = builder.norm(builder.select_rows(x), Norm("norm", 1e-5))
    head = builder.linear(last, "head", VOCABULARY)
    plan = compile_plan(
        builder.finish(head), architecture="test", context_length=4096, vocabulary=VOCABULARY
    )
    weights = dict(random_weights(builder.weights, 1))
    for name, shape in builder.weights.items():
        if name.endswith(".a"):  # what is remembered fades
            fading = -np.random.default_rng(2).uniform(0.01, 1, shape)
            weights[name] = float_tensor(name, fading.astype(np.float32))
    return Model(plan, weights)


class Guesses(Oracle):
    """Of tokens that there are in every one of these models."""

    def _guess(self, name: str, start: int, count: int) -> list[int]:
        return [token_id % VOCABULARY for token_id in super()._guess(name, start, count)]


class House:
    """Engines of one model on one backend."""

    def __init__(self, backend: Any, model: Model) -> None:
        self.backend = backend
        self.model = model

    def engine(
        self,
        *,
        num_pages: int = 80,
        num_slots: int = 24,
        max_tokens: int = 64,
        num_threads: int = 1,
        prefix_cache: bool = True,
        guesser: Any = None,
    ) -> Engine:
        plan = self.model.plan
        runner = self.backend.prepare(
            plan,
            self.model.weights,
            num_pages=num_pages,
            num_slots=num_slots,
            max_tokens=max_tokens,
            num_threads=num_threads,
            precision="default",
        )
        made = Engine(
            runner,
            IdsOnly(plan.vocabulary, ()),
            vocabulary=plan.vocabulary,
            context_length=min(600, 32 * num_pages),
            policy=Policy(max_tokens),
            prefix_cache=prefix_cache,
            speculation=Speculation(guesser),
        )
        made._speculation.times = Clock(0.01)
        poison_states(made)
        return made

    def alone(self, requests: list[Request]) -> Answers:
        """Each whole, in one batch without company."""
        engine = self.engine(max_tokens=600, prefix_cache=False)
        answers: Answers = {}
        for one in requests:
            answers |= drive(engine, [one])
        return answers

    def assert_same(self, found: Answers, expected: Answers) -> None:
        exact = self.backend.name == "cpu"
        for name, deltas in found.items():
            assert token_ids(deltas) == token_ids(expected[name]), name
            own, other = logprobs(deltas), logprobs(expected[name])
            np.testing.assert_allclose(own, other, rtol=0, atol=0 if exact else 1e-4)


BACKENDS = (ReferenceBackend(), CpuBackend())
HOUSES = {f"{kinds}, {one.name}": (one, kinds) for kinds in LAYERS for one in BACKENDS}


@pytest.fixture(scope="module", params=HOUSES.values(), ids=HOUSES)
def house(request: pytest.FixtureRequest) -> House:
    backend, kinds = request.param
    return House(backend, model_of(kinds))


def poison_states(engine: Engine) -> None:
    run, runner, states = engine.runner.run, engine.runner, engine.scheduler.cache.states
    assert states is not None
    nothing = np.full(runner.state_bytes // 4, np.nan, np.float32).view(np.uint8)

    def poisoned(batch: Batch) -> Any:
        for slot in states._free:
            runner.write_state(slot, nothing)
        return run(batch)

    runner.run = poisoned  # type: ignore[method-assign]


def request(name: str, prompt: tuple[int, ...], count: int = 12) -> Request:
    return Request(
        name, prompt, SamplingParams(temperature=0, max_tokens=count, ignore_eos=True, logprobs=2)
    )


def drive(engine: Engine, requests: list[Request]) -> Answers:
    for one in requests:
        engine.add(one)
    answers: Answers = {}
    while engine.has_work:
        step(engine, answers)
    return answers


def step(engine: Engine, answers: Answers) -> None:
    for delta in engine.step():
        assert delta.error is None, delta.error
        answers.setdefault(delta.request_id, []).append(delta)
    engine.check()


def token_ids(deltas: list[Delta]) -> list[int]:
    return [token_id for delta in deltas for token_id in delta.token_ids]


def logprobs(deltas: list[Delta]) -> list[list[float]]:
    entries = [entry for delta in deltas for entry in delta.logprobs]
    return [[entry.token.logprob, *(one.logprob for one in entry.top)] for entry in entries]


def cached(deltas: list[Delta]) -> int:
    assert deltas[-1].usage is not None
    return deltas[-1].usage.cached_tokens


def prompts(count: int, seed: int, longest: int = 150) -> list[Request]:
    """Some begin alike."""
    dice = random.Random(seed)
    return [
        request(
            str(number),
            tokens(dice.choice([0, 0, 70, 96]), seed) + tokens(dice.randint(1, longest), number),
            dice.randint(1, 30),
        )
        for number in range(count)
    ]


def tokens(count: int, seed: int) -> tuple[int, ...]:
    return tuple(token_id % (VOCABULARY - 3) + 1 for token_id in ids(count, seed))


@pytest.mark.parametrize("max_tokens", [1, 7, 32, 600])
def test_in_a_batch_and_in_chunks_as_whole_and_alone(house: House, max_tokens: int) -> None:
    requests = prompts(8, 1)
    engine = house.engine(num_pages=200, max_tokens=max_tokens, prefix_cache=False)
    house.assert_same(drive(engine, requests), house.alone(requests))


def test_many_threads_as_one(house: House) -> None:
    requests = prompts(8, 6)
    engine = house.engine(num_pages=200, num_threads=3)
    house.assert_same(drive(engine, requests), house.alone(requests))


@pytest.mark.parametrize("length", [1, 31, 32, 33, 64, 65, 96, 130])
def test_cached_is_cold(house: House, length: int) -> None:
    """The same prompt again, and the conversation that goes on from it."""
    engine = house.engine()
    first = request("a", tokens(length, 3))
    cold = drive(engine, [first])
    warm = drive(engine, [first])
    house.assert_same(warm, cold)
    whole = (length - 1) // 32 * 32
    assert cached(warm["a"]) == (whole if whole >= 64 else 0)
    next_turn = request("b", (*first.prompt_ids, *token_ids(cold["a"]), *tokens(9, 4)))
    found = drive(engine, [next_turn])
    assert cached(found["b"]) == length + 11
    house.assert_same(found, house.alone([next_turn]))


def test_preempted_as_not_preempted(house: House) -> None:
    requests = prompts(8, 2, longest=60)
    engine = house.engine(num_pages=9)
    house.assert_same(drive(engine, requests), house.alone(requests))
    assert engine.stats().preemptions > 0


@pytest.mark.parametrize("right", [0.5, 0.9])
def test_speculated_is_plain(house: House, right: float) -> None:
    requests = prompts(6, 3)
    plain = house.alone(requests)
    told = {
        one.request_id: [*one.prompt_ids, *token_ids(plain[one.request_id])] for one in requests
    }
    engine = house.engine(guesser=Guesses(told, right), num_pages=200)
    house.assert_same(drive(engine, requests), plain)
    assert engine.stats().drafts > engine.stats().accepted_tokens / 15 > 0


@pytest.mark.parametrize("num_slots", [2, 5, 24])
def test_drafted_is_plain(house: House, num_slots: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a model with states of its own, which is off by a little: some guesses fail."""
    requests = prompts(6, 3)
    plain = house.alone(requests)
    weights = {**house.model.weights}
    head = weights["head"].read().view(np.float32).reshape(weights["head"].shape)
    off = np.random.default_rng(3).normal(0, 0.1 * head.std(), head.shape)
    weights["head"] = float_tensor("head", head + off.astype(np.float32))
    runner = house.backend.prepare(
        house.model.plan,
        weights,
        num_pages=200,
        num_slots=num_slots,
        max_tokens=64,
        num_threads=1,
        precision="default",
    )
    guesser = DraftModel(runner, num_tokens=VOCABULARY, context_length=600)
    monkeypatch.setattr(guesser, "seconds", lambda requests, most: np.zeros(most + 1))
    engine = house.engine(guesser=guesser, num_pages=200)
    house.assert_same(drive(engine, requests), plain)
    guesser.check()
    stats = engine.stats()
    assert stats.drafted_tokens > stats.accepted_tokens > 20


@pytest.mark.parametrize("steps", range(1, 6))
def test_cancelled_in_the_middle_then_repeated(house: House, steps: int) -> None:
    engine = house.engine(max_tokens=40)
    one = request("a", tokens(150, 5))
    engine.add(one)
    for _ in range(steps):
        step(engine, {})
    engine.cancel("a")
    found = drive(engine, [one])
    assert cached(found["a"]) > 0
    house.assert_same(found, house.alone([one]))


@pytest.mark.parametrize("seed", range(3))
def test_a_crowd_with_everything(house: House, seed: int) -> None:
    """Few pages, few slots, guesses, cancels, prompts that begin alike."""
    dice = random.Random(seed)
    requests = prompts(20, seed + 10)
    plain = house.alone(requests)
    told = {
        one.request_id: [*one.prompt_ids, *token_ids(plain[one.request_id])] for one in requests
    }
    engine = house.engine(
        num_pages=dice.choice([12, 30]),
        num_slots=dice.choice([3, 8, 30]),
        max_tokens=dice.choice([20, 64, 200]),
        guesser=Guesses(told, 0.8),
    )
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


def test_sampled_requests_too(house: House) -> None:
    requests = [
        replace(one, params=replace(one.params, temperature=1.0, seed=number))
        for number, one in enumerate(prompts(5, 4))
    ]
    house.assert_same(drive(house.engine(num_pages=200), requests), house.alone(requests))
