"""The native sampler against its NumPy definition, and against what its stages promise."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pyrite._native import sampling as native
from pyrite.errors import BackendError, ParameterError, RequestError
from pyrite.sampling import definition
from pyrite.sampling.params import SamplingParams
from pyrite.sampling.sampler import BatchSampler, Sampled, Sampler, breaker_ids

Floats = NDArray[np.float32]


def row(values: object) -> Floats:
    return np.array(values, np.float32)


def random_row(size: int, seed: int, spread: float = 3.0) -> Floats:
    generator = np.random.default_rng(seed)
    return (generator.standard_normal(size) * spread).astype(np.float32)


def sampled(logits: Floats, params: SamplingParams, prompt: tuple[int, ...] = ()) -> Sampled:
    sampler = Sampler(params, prompt, vocab_size=len(logits))
    return BatchSampler().sample([sampler], logits[None])[0]


def tokens(logits: Floats, params: SamplingParams, count: int) -> list[int]:
    """`count` tokens, each drawn from the same logits."""
    sampler = Sampler(params, (), vocab_size=len(logits))
    batch = BatchSampler()
    drawn = []
    for _ in range(count):
        drawn.append(batch.sample([sampler], logits[None])[0].token_id)
        sampler.accept(drawn[-1])
    return drawn


# --- against the definition ---------------------------------------------------------------------


def assert_agrees(
    logits: Floats,
    params: SamplingParams,
    prompt: list[int],
    output: list[int],
    ends: list[int],
    breakers: list[int],
) -> None:
    """The native token lies where the definition's running sum passes the number drawn.

    The tolerance is of sums of single-precision weights: 65536 * 2^-24 at most, commonly 1e-7.
    """
    sampler = Sampler(params, prompt, vocab_size=len(logits), end_ids=ends, breaker_ids=breakers)
    for token in output:
        sampler.accept(token)
    drawn = BatchSampler().sample([sampler], logits[None])[0]
    adjusted = definition.adjust(logits, params, prompt, output, ends, breakers)
    if adjusted.max() == -np.inf:
        assert isinstance(drawn.error, RequestError)
        return
    if params.greedy:
        assert drawn.token_id == np.argmax(adjusted)
        return
    assert params.seed is not None
    number, coin = definition.random_at(params.seed, 0, len(output))
    probabilities = definition.distribution(adjusted, params, coin)
    reached = np.cumsum(probabilities)
    token = drawn.token_id
    assert probabilities[token] > 0
    assert reached[token] - probabilities[token] - 1e-5 <= number <= reached[token] + 1e-5


shares = st.sampled_from([0.0, 0.05, 0.3, 0.5, 0.9, 0.999, 1.0])
params_strategy = st.builds(
    SamplingParams,
    temperature=st.sampled_from([0.0, 0.05, 0.7, 1.0, 2.0]),
    top_k=st.sampled_from([0, 0, 1, 2, 40, 1000]),
    top_p=st.just(1.0) | shares,
    min_p=st.just(0.0) | shares,
    typical_p=st.just(1.0) | shares,
    repetition_penalty=st.sampled_from([1.0, 1.0, 1.3, 0.8]),
    presence_penalty=st.sampled_from([0.0, 0.0, 0.5, -1.0]),
    frequency_penalty=st.sampled_from([0.0, 0.0, 0.5, -1.0]),
    dry_multiplier=st.sampled_from([0.0, 0.0, 0.8]),
    dry_allowed_length=st.integers(1, 3),
    dry_range=st.sampled_from([-1, 0, 3, 8]),
    xtc_probability=st.sampled_from([0.0, 0.0, 0.5, 1.0]),
    xtc_threshold=st.sampled_from([0.0, 0.05, 0.1, 0.3, 0.5]),
    logit_bias=st.dictionaries(st.integers(0, 4), st.sampled_from([-100, 1, 100.0]), max_size=3),
    seed=st.integers(-(2**63), 2**63 - 1),
    min_tokens=st.sampled_from([0, 0, 3, 50]),
)
# Whole and infinite logits make ties, single survivors and empty rows likely. No two are nearer
# than 1/64 without being equal: a filter's verdict on such a pair would hang on rounding.
small_rows = st.lists(
    st.one_of(
        st.integers(-4, 4).map(float),
        st.integers(-2000, 2000).map(lambda value: value / 64),
        st.sampled_from([-math.inf, 0.0, -0.0, 1e37, -1e37]),
    ),
    min_size=5,
    max_size=200,
)


@settings(max_examples=600, deadline=None, derandomize=True)
@given(st.data())
def test_small_rows_agree_with_the_definition(data: st.DataObject) -> None:
    logits = row(data.draw(small_rows))
    ids = st.integers(0, min(len(logits), 6) - 1)
    assert_agrees(
        logits,
        data.draw(params_strategy),
        data.draw(st.lists(ids, max_size=20)),
        data.draw(st.lists(ids, max_size=20)),
        data.draw(st.lists(ids, max_size=2)),
        data.draw(st.lists(ids, max_size=2)),
    )


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    size=st.sampled_from([1, 63, 64, 65, 1000, 4097, 50_000]),
    seed=st.integers(0, 1000),
    spread=st.sampled_from([0.0, 0.01, 1.0, 3.0, 20.0]),
    params=params_strategy.map(lambda params: replace(params, logit_bias={})),
)
@example(size=50_000, seed=1, spread=0.0, params=SamplingParams(top_p=0.5, seed=1))
@example(size=50_000, seed=1, spread=3.0, params=SamplingParams(typical_p=0.5, seed=1))
@example(size=50_000, seed=1, spread=3.0, params=SamplingParams(top_p=0.999, seed=1))
@example(size=50_000, seed=1, spread=3.0, params=SamplingParams(top_k=20_000, seed=1))
def test_large_rows_agree_with_the_definition(
    size: int, seed: int, spread: float, params: SamplingParams
) -> None:
    assert_agrees(random_row(size, seed, spread), params, [0, 0], [0], [], [])


@pytest.mark.parametrize("seed", [0, 1, -1, 2**63 - 1, 0x0123456789ABCDEF])
def test_random_numbers_are_the_definitions(seed: int) -> None:
    for choice, step in [(0, 0), (1, 0), (0, 1), (7, 2**40)]:
        assert native.random_at(seed % 2**64, choice, step) == definition.random_at(
            seed, choice, step
        )


def test_random_numbers_are_philox() -> None:
    """The generator's published answer for a key and counter of zeros: 6627e8d5 e169c58d."""
    assert definition.random_at(0, 0, 0)[0] == (0x6627E8D5E169C58D >> 11) * 2.0**-53


# --- greedy -------------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.0, 1e-6])
def test_greedy_takes_the_lowest_id_of_equals_whatever_the_filters(temperature: float) -> None:
    logits = row([0, 2, -1, 2, 2])
    for extra in ({}, {"top_k": 1}, {"top_p": 0.0}, {"min_p": 1.0}, {"xtc_probability": 1.0}):
        for seed in (None, 1, 2):
            params = SamplingParams(temperature=temperature, seed=seed, **extra)  # type: ignore[arg-type]
            assert sampled(logits, params).token_id == 1


def test_rows_of_a_batch_are_independent() -> None:
    """Greedy rows among drawn ones, in both orders, give what each gives alone."""
    temperatures = [0, 1, 0, 0.7, 1e-6, 2, 0, 0.3]
    logits = np.stack([random_row(500, seed) for seed in range(8)])
    params = [SamplingParams(temperature=value, seed=9) for value in temperatures]
    alone = [sampled(logits[i], params[i]).token_id for i in range(8)]
    samplers = [Sampler(each, (), vocab_size=500) for each in params]
    batch = BatchSampler()
    assert [each.token_id for each in batch.sample(samplers, logits)] == alone
    backwards = np.arange(7, -1, -1, dtype=np.int32)
    turned = batch.sample(samplers[::-1], logits, backwards)
    assert [each.token_id for each in turned] == alone[::-1]


# --- seeds --------------------------------------------------------------------------------------


def test_a_seed_gives_the_same_tokens_alone_and_in_company() -> None:
    logits = random_row(300, 0, 1.0)
    params = SamplingParams(seed=42)
    alone = tokens(logits, params, 20)
    assert all(tokens(logits, params, 20) == alone for _ in range(4))
    samplers = [Sampler(SamplingParams(), (), vocab_size=300) for _ in range(7)]
    samplers.insert(3, Sampler(params, (), vocab_size=300))
    batch, company = BatchSampler(), []
    for _ in range(20):
        drawn = batch.sample(samplers, np.tile(logits, (8, 1)))
        company.append(drawn[3].token_id)
        for sampler, each in zip(samplers, drawn, strict=True):
            sampler.accept(each.token_id)
    assert company == alone


def test_a_sampler_made_anew_goes_on_where_the_old_one_was() -> None:
    logits = random_row(300, 0, 1.0)
    params = SamplingParams(seed=42, repetition_penalty=1.2, dry_multiplier=0.5)
    whole = tokens(logits, params, 20)
    again = Sampler(params, (), vocab_size=300)
    for token in whole[:12]:
        again.accept(token)
    assert again.num_accepted == 12
    assert BatchSampler().sample([again], logits[None])[0].token_id == whole[12]


def test_looking_twice_draws_the_same() -> None:
    sampler = Sampler(SamplingParams(), (), vocab_size=300)
    logits = random_row(300, 0, 1.0)[None]
    batch = BatchSampler()
    assert batch.sample([sampler], logits) == batch.sample([sampler], logits)


def test_different_seeds_choices_and_no_seed_differ() -> None:
    logits = random_row(300, 0, 0.5)
    runs = {tuple(tokens(logits, SamplingParams(seed=seed), 20)) for seed in range(1, 6)}
    assert len(runs) == 5
    assert len({tuple(tokens(logits, SamplingParams(), 20)) for _ in range(5)}) == 5
    batch = BatchSampler()
    choices = []
    for choice in (0, 1, 2, 0, 1, 2):
        sampler = Sampler(SamplingParams(seed=7), (), vocab_size=300, choice=choice)
        drawn = []
        for _ in range(20):
            drawn.append(batch.sample([sampler], logits[None])[0].token_id)
            sampler.accept(drawn[-1])
        choices.append(tuple(drawn))
    assert choices[:3] == choices[3:]
    assert len(set(choices)) == 3


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(seed=3),
        SamplingParams(seed=3, temperature=0.6, top_k=5),
        SamplingParams(seed=3, top_p=0.8, min_p=0.02),
        SamplingParams(seed=3, typical_p=0.7),
        SamplingParams(seed=3, xtc_probability=1.0, xtc_threshold=0.15),
    ],
    ids=["plain", "top_k", "top_p", "typical", "xtc"],
)
def test_draws_follow_the_distribution(params: SamplingParams) -> None:
    """Chi-square over 20000 draws; 4.5 standard deviations above its mean would be chance once in
    some 10^5 seeds."""
    logits = random_row(12, 5, 1.5)
    count = 20_000
    seen = np.bincount(tokens(logits, params, count), minlength=12)
    expected = definition.distribution(logits, params, 0.0) * count
    alive = expected > 0
    assert not seen[~alive].any()
    statistic = float(np.sum((seen[alive] - expected[alive]) ** 2 / expected[alive]))
    freedom = max(int(alive.sum()) - 1, 1)
    assert statistic < freedom + 4.5 * math.sqrt(2 * freedom)


# --- penalties ----------------------------------------------------------------------------------

TIN, LEAD, ZINC = 0, 1, 2


def penalized(params: SamplingParams, output: tuple[int, ...] = ()) -> Floats:
    """What the stages before temperature make of logits 2, -2, 0.5 after the prompt tin tin lead,
    read off the sampler: a greedy token wins exactly as long as its bias keeps it ahead."""
    logits = row([2.0, -2.0, 0.5])
    found = definition.adjust(logits, params, [TIN, TIN, LEAD], output)
    for token in range(3):
        for bias, wins in ((0.001, True), (-0.001, False)):
            others = [found[i] for i in range(3) if i != token]
            lifted = row([*logits, max(*others, found[token]) + 50])
            lifted[3] = found[token] - bias  # an unpenalised rival just below, then just above
            mask = {i: -100.0 for i in range(3) if i != token}
            greedy = replace(params, temperature=0.0, logit_bias=mask)
            sampler = Sampler(greedy, [TIN, TIN, LEAD], vocab_size=4)
            for each in output:
                sampler.accept(each)
            drawn = BatchSampler().sample([sampler], lifted[None])[0].token_id
            assert drawn == (token if wins else 3)
    return found


def test_repetition_penalty_is_once_for_each_distinct_token() -> None:
    found = penalized(SamplingParams(repetition_penalty=1.3))
    np.testing.assert_allclose(found, [2 / 1.3, -2 * 1.3, 0.5], rtol=1e-6)


def test_repetition_penalty_counts_the_output_too() -> None:
    found = penalized(SamplingParams(repetition_penalty=1.3), (ZINC, ZINC))
    np.testing.assert_allclose(found, [2 / 1.3, -2 * 1.3, 0.5 / 1.3], rtol=1e-6)


def test_presence_and_frequency_penalties_see_the_output_only() -> None:
    presence = SamplingParams(presence_penalty=0.5)
    frequency = SamplingParams(frequency_penalty=0.5)
    np.testing.assert_allclose(penalized(presence), [2, -2, 0.5])
    np.testing.assert_allclose(penalized(frequency), [2, -2, 0.5])
    output = (LEAD, ZINC, ZINC)
    np.testing.assert_allclose(penalized(presence, output), [2, -2.5, 0.0])
    np.testing.assert_allclose(penalized(frequency, output), [2, -2.5, -0.5])


def test_penalties_do_not_leak_into_neighbours() -> None:
    logits = row([2.0, 1.9, 0.0])
    heavy = SamplingParams(temperature=0, repetition_penalty=5.0)
    plain = SamplingParams(temperature=0)
    for order in ((heavy, plain), (plain, heavy)):
        samplers = [Sampler(params, [0], vocab_size=3) for params in order]
        drawn = BatchSampler().sample(samplers, np.stack([logits, logits]))
        for params, each in zip(order, drawn, strict=True):
            assert each.token_id == (1 if params is heavy else 0)


def test_many_distinct_tokens_are_all_counted() -> None:
    """The counts grow through many sizes: every token but one is penalised."""
    size = 5000
    sampler = Sampler(SamplingParams(temperature=0, presence_penalty=2.0), (), vocab_size=size)
    for token in range(size):
        if token != 1234:
            sampler.accept(token)
    assert BatchSampler().sample([sampler], np.ones((1, size), np.float32))[0].token_id == 1234


# --- DRY ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("history", "extra", "expected"),
    [
        ([1, 2, 3, 1, 2], {}, {3: 0.8}),
        ([1, 2, 3, 4, 1, 2, 3], {}, {4: 0.8 * 1.75}),
        ([1, 2, 3, 1, 2], {"dry_allowed_length": 3}, {}),
        ([1, 2, 3, 1, 2], {"dry_range": 4}, {}),
        ([1, 2, 3, 1, 2], {"dry_range": 5}, {3: 0.8}),
        ([5, 2, 3, 5, 2], {}, {}),  # 5 is a breaker
        ([1, 2, 5, 1, 2], {}, {}),
        ([1, 1, 1, 1], {}, {1: 0.8 * 1.75}),
        ([1, 2, 3, 9, 1, 2, 4, 9, 1, 2], {}, {3: 0.8, 4: 0.8 * 1.75}),
    ],
)
def test_dry_examples(
    history: list[int], extra: dict[str, int], expected: dict[int, float]
) -> None:
    params = SamplingParams(temperature=0, dry_multiplier=0.8, **extra)  # type: ignore[arg-type]
    found = definition.dry_penalties(
        history[len(history) - params.dry_range :] if params.dry_range > 0 else history,
        params,
        {5},
    )
    assert found == pytest.approx(expected)


def test_dry_of_a_long_repetition_is_finite_and_fast() -> None:
    sampler = Sampler(SamplingParams(temperature=0, dry_multiplier=1.0), [3] * 50_000, vocab_size=8)
    drawn = BatchSampler().sample([sampler], row([[0, 0, 0, 9, 1, 0, 0, 0]]))[0]
    assert drawn.token_id == 4
    assert drawn.error is None


def test_breakers_are_the_last_token_after_a_letter() -> None:
    vocabulary = {"a:": [10, 11], "a\n": [10, 12], 'a"': [13]}
    assert set(breaker_ids(lambda text: vocabulary[text], (":", "\n", '"'))) == {11, 12, 13}


# --- vocabulary and masks -----------------------------------------------------------------------


def test_padded_rows_are_never_sampled() -> None:
    """64 rows past the tokenizer's, with the largest logits of all."""
    logits = np.concatenate([random_row(100, 1), np.full(64, 50, np.float32)])
    for params in (
        SamplingParams(temperature=0, logprobs=20),
        SamplingParams(seed=1, logprobs=20),
        SamplingParams(seed=1, top_k=5, logprobs=20),
        SamplingParams(seed=1, top_p=0.9, logit_bias={120: 100.0}, logprobs=20),
    ):
        sampler = Sampler(params, (), vocab_size=164, valid_tokens=100)
        drawn = BatchSampler().sample([sampler], logits[None])[0]
        assert drawn.token_id < 100
        assert drawn.logprobs is not None
        assert all(entry.token_id < 100 for entry in drawn.logprobs.top)
        expected = definition.log_probabilities(logits[:100])
        assert drawn.logprobs.token.logprob == pytest.approx(expected[drawn.token_id], abs=1e-5)


def test_min_tokens_masks_end_and_stop_ids() -> None:
    params = SamplingParams(temperature=0, min_tokens=2, stop_token_ids=(1,))
    sampler = Sampler(params, (), vocab_size=4, end_ids=[0])
    logits = row([[9, 8, 7, 6]])
    batch, drawn = BatchSampler(), []
    for _ in range(3):
        drawn.append(batch.sample([sampler], logits)[0].token_id)
        sampler.accept(drawn[-1])
    assert drawn == [2, 2, 0]


def test_bias_forces_and_forbids() -> None:
    logits = row([5, 0, 0])
    assert sampled(logits, SamplingParams(temperature=0, logit_bias={1: 100})).token_id == 1
    assert sampled(logits, SamplingParams(seed=1, logit_bias={0: -100})).token_id != 0


def test_ids_outside_the_vocabulary_are_refused() -> None:
    with pytest.raises(ParameterError, match="prompt"):
        Sampler(SamplingParams(), [0, 4], vocab_size=4)
    with pytest.raises(ParameterError, match="prompt"):
        Sampler(SamplingParams(), [3], vocab_size=4, valid_tokens=3)
    with pytest.raises(ParameterError, match="logit_bias"):
        Sampler(SamplingParams(logit_bias={4: 1.0}), (), vocab_size=4)
    with pytest.raises(ParameterError, match="stop_token_ids"):
        Sampler(SamplingParams(stop_token_ids=(4,)), (), vocab_size=4)
    with pytest.raises(IndexError):
        Sampler(SamplingParams(), (), vocab_size=4).accept(4)


# --- what is not a number -----------------------------------------------------------------------


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("place", [0, 63, 64, 99])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_row_that_is_not_finite_fails_alone(bad: float, place: int, temperature: float) -> None:
    logits = np.stack([random_row(100, seed) for seed in range(3)])
    params = SamplingParams(temperature=temperature, seed=1, logprobs=2)
    samplers = [Sampler(params, (), vocab_size=100) for _ in range(3)]
    healthy = BatchSampler().sample(samplers, logits)
    logits[1, place] = bad
    drawn = BatchSampler().sample(samplers, logits)
    assert isinstance(drawn[1].error, BackendError)
    assert drawn[1].token_id == -1
    assert [drawn[0], drawn[2]] == [healthy[0], healthy[2]]


def test_a_masked_end_does_not_hide_that_it_is_not_a_number() -> None:
    params = SamplingParams(min_tokens=1)
    sampler = Sampler(params, (), vocab_size=2, end_ids=[0])
    assert isinstance(BatchSampler().sample([sampler], row([[math.nan, 0]]))[0].error, BackendError)


def test_a_row_without_an_allowed_token_is_an_error() -> None:
    assert isinstance(sampled(row([-math.inf] * 3), SamplingParams()).error, RequestError)


# --- log-probabilities --------------------------------------------------------------------------


def test_logprobs_are_of_the_raw_distribution() -> None:
    """Filters, temperature and bias choose the token; its log-probability is the model's."""
    logits = random_row(1000, 3)
    params = SamplingParams(seed=5, top_k=1, temperature=0.1, logit_bias={7: 100}, logprobs=20)
    drawn = sampled(logits, params)
    expected = definition.log_probabilities(logits)
    assert drawn.token_id == 7
    assert drawn.logprobs is not None
    assert drawn.logprobs.token.logprob == pytest.approx(expected[7], abs=1e-5)
    order = np.argsort(-logits, kind="stable")[:20]
    assert [entry.token_id for entry in drawn.logprobs.top] == order.tolist()
    found = [entry.logprob for entry in drawn.logprobs.top]
    np.testing.assert_allclose(found, expected[order], atol=1e-5)


def test_exponentials_of_all_logprobs_sum_to_one() -> None:
    drawn = sampled(random_row(20, 3), SamplingParams(logprobs=20))
    assert drawn.logprobs is not None
    total = sum(math.exp(entry.logprob) for entry in drawn.logprobs.top)
    assert total == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(("asked", "count"), [(0, 0), (1, 1), (20, 20)])
def test_logprobs_count(asked: int, count: int) -> None:
    drawn = sampled(random_row(100, 3), SamplingParams(logprobs=asked))
    assert drawn.logprobs is not None
    assert len(drawn.logprobs.top) == count
    assert drawn.logprobs.token.token_id == drawn.token_id


def test_no_logprobs_unless_asked() -> None:
    assert sampled(random_row(100, 3), SamplingParams()).logprobs is None


def test_requests_of_one_batch_ask_for_different_counts() -> None:
    counts = [None, 0, 5, 20]
    samplers = [Sampler(SamplingParams(logprobs=count), (), vocab_size=9) for count in counts]
    drawn = BatchSampler().sample(samplers, np.zeros((4, 9), np.float32))
    lengths = [None if each.logprobs is None else len(each.logprobs.top) for each in drawn]
    assert lengths == [None, 0, 5, 9]


def test_equal_logprobs_come_in_order_of_id() -> None:
    drawn = sampled(np.zeros(300, np.float32), SamplingParams(logprobs=4))
    assert drawn.logprobs is not None
    assert [entry.token_id for entry in drawn.logprobs.top] == [0, 1, 2, 3]


def test_logprobs_are_never_infinite() -> None:
    """A masked token is left out of the likeliest; one far below is held at the floor."""
    drawn = sampled(row([0, -math.inf, -1e30]), SamplingParams(temperature=0, logprobs=20))
    assert drawn.logprobs is not None
    found = {entry.token_id: entry.logprob for entry in drawn.logprobs.top}
    assert found == {0: 0.0, 2: -9999.0}


# --- the native door ----------------------------------------------------------------------------


def test_arrays_that_do_not_fit_are_refused() -> None:
    sampler = Sampler(SamplingParams(), (), vocab_size=10)
    batch = BatchSampler()
    with pytest.raises(ValueError, match="narrower"):
        batch.sample([sampler], np.zeros((1, 9), np.float32))
    with pytest.raises(IndexError):
        batch.sample([sampler], np.zeros((1, 10), np.float32), np.array([1], np.int32))
    with pytest.raises(ValueError, match="one entry a state"):
        batch.sample([sampler], np.zeros((2, 10), np.float32), np.array([0, 1], np.int32))
    with pytest.raises(TypeError):
        batch.sample([sampler], np.zeros((1, 10), np.float64))  # type: ignore[arg-type]


def test_an_empty_batch_is_nothing() -> None:
    assert BatchSampler().sample([], np.zeros((0, 10), np.float32)) == []
