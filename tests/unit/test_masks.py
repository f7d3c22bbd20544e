"""A grammar's mask in the sampler: against the definition, and at the edges of words and rows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pyrite.errors import BackendError, RequestError
from pyrite.sampling import definition
from pyrite.sampling.params import SamplingParams
from pyrite.sampling.sampler import BatchSampler, Masks, Sampled, Sampler

Bools = NDArray[np.bool_]


def packed(allowed: Bools) -> NDArray[np.uint32]:
    """(tokens,) -> (1, words); bits past the last token are set, and must not matter."""
    padded = np.ones(-(-len(allowed) // 32) * 32, np.bool_)
    padded[: len(allowed)] = allowed
    return np.packbits(padded, bitorder="little").view(np.uint32)[None]


def draw(logits: NDArray[np.float32], allowed: Bools, **params: object) -> Sampled:
    given_params = SamplingParams(**params)  # type: ignore[arg-type]
    sampler = Sampler(given_params, (), vocab_size=len(logits))
    masks = Masks(packed(allowed), np.zeros(1, np.int32))
    return BatchSampler().sample([sampler], logits[None], masks=masks)[0]


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.integers(1, 200), st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.05, 0.5, 1.0]))
def test_masks_agree_with_the_definition(size: int, seed: int, share: float) -> None:
    random = np.random.default_rng(seed)
    logits = (random.standard_normal(size) * 3).astype(np.float32)
    allowed = random.random(size) < share
    for temperature in (0.0, 1.0):
        params = SamplingParams(temperature=temperature, seed=seed, logit_bias={0: 100.0})
        drawn = draw(logits, allowed, temperature=temperature, seed=seed, logit_bias={0: 100.0})
        if not allowed.any():
            assert isinstance(drawn.error, RequestError)
            continue
        assert allowed[drawn.token_id]
        expected = definition.sample(logits, params, allowed=allowed)
        if temperature == 0:
            assert drawn.token_id == expected


@pytest.mark.parametrize("only", [0, 31, 32, 63, 64, 98])
def test_a_single_allowed_token_is_drawn_whatever_the_rest(only: int) -> None:
    allowed = np.arange(99) == only
    logits = np.full(99, 50, np.float32)
    logits[only] = -1e30
    for params in ({"temperature": 0}, {"seed": 1}, {"seed": 1, "top_k": 3, "top_p": 0.1}):
        assert draw(logits, allowed, **params).token_id == only


def test_logprobs_of_masked_tokens_are_the_models_own() -> None:
    drawn = draw(np.zeros(8, np.float32), np.arange(8) == 3, temperature=0, logprobs=8)
    assert drawn.token_id == 3
    assert drawn.logprobs is not None
    assert [entry.logprob for entry in drawn.logprobs.top] == pytest.approx([-math.log(8)] * 8)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("place", [2, 40, 70])
def test_a_mask_does_not_hide_what_is_not_a_number(bad: float, place: int) -> None:
    logits = np.zeros(71, np.float32)
    logits[place] = bad
    assert isinstance(draw(logits, np.arange(71) == 3).error, BackendError)


def test_a_mask_changes_nobody_elses_draw() -> None:
    random = np.random.default_rng(5)
    logits = random.standard_normal((3, 70)).astype(np.float32)
    samplers = [Sampler(SamplingParams(seed=one), (), vocab_size=70) for one in range(3)]
    plain = BatchSampler().sample(samplers, logits)
    masks = Masks(packed(np.arange(70) == 7), np.array([-1, 0, -1], np.int32))
    drawn = BatchSampler().sample(samplers, logits, masks=masks)
    assert [drawn[0], drawn[2]] == [plain[0], plain[2]]
    assert drawn[1].token_id == 7


def test_masks_that_do_not_fit_are_refused() -> None:
    sampler = Sampler(SamplingParams(), (), vocab_size=70)
    logits = np.zeros((1, 70), np.float32)

    def sample(words: NDArray[np.uint32], rows: list[int]) -> None:
        masks = Masks(words, np.array(rows, np.int32))
        BatchSampler().sample([sampler], logits, masks=masks)

    sample(np.full((1, 3), 2**32 - 1, np.uint32), [0])
    with pytest.raises(ValueError, match="narrower"):
        sample(np.zeros((1, 2), np.uint32), [0])
    with pytest.raises(IndexError):
        sample(np.zeros((1, 3), np.uint32), [1])
    with pytest.raises(IndexError):
        sample(np.zeros((1, 3), np.uint32), [-2])
    with pytest.raises(ValueError, match="one entry a state"):
        sample(np.zeros((1, 3), np.uint32), [])
