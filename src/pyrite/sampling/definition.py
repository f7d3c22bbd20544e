"""What sampling means, in NumPy: the specification that the native sampler is tested against.

Clear and slow. The stages, in order:

1. `adjust`: tokens past the tokenizer's are cut off; logit bias; end ids masked before min_tokens;
   repetition, presence and frequency penalties; DRY; what the grammar forbids is masked.
2. At temperature 0 the largest logit, the lowest id among equals. Otherwise:
3. `distribution`: temperature, then the filters top_k, typical_p, top_p, min_p and XTC. Each filter
   sees the probabilities renormalised over what the one before it left, keeps at least one token,
   and prefers lower ids among equals.
4. `draw`: a number in [0, 1) that is a function of (seed, choice, step) alone picks the first
   token, in ascending order of id, at which the running sum of probabilities passes it.

`log_probabilities` are those of the model's own logits, before all of this.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pyrite.sampling.limits import LOGPROB_FLOOR
from pyrite.sampling.params import SamplingParams

LOWEST = -87.0  # a logit, scaled and relative to the largest, below which a weight counts as zero
DRY_CEILING = 1e30

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]


def sample(
    logits: Floats,
    params: SamplingParams,
    prompt: Sequence[int] = (),
    output: Sequence[int] = (),
    *,
    valid_tokens: int | None = None,
    end_ids: Sequence[int] = (),
    breakers: Sequence[int] = (),
    choice: int = 0,
    allowed: NDArray[np.bool_] | None = None,  # (tokens,) by the grammar
) -> int:
    """The next token after `prompt` and `output`. `params.seed` must be set unless greedy."""
    adjusted = adjust(logits[:valid_tokens], params, prompt, output, end_ids, breakers)
    if allowed is not None:
        adjusted[~allowed[: len(adjusted)]] = -np.inf
    if params.greedy:
        return int(np.argmax(adjusted))
    assert params.seed is not None
    number, coin = random_at(params.seed, choice, len(output))
    return draw(distribution(adjusted, params, coin), number)


def adjust(
    logits: Floats,  # (tokens,)
    params: SamplingParams,
    prompt: Sequence[int],
    output: Sequence[int],
    end_ids: Sequence[int] = (),
    breakers: Sequence[int] = (),
) -> Floats:
    row = logits.astype(np.float32)
    for token, bias in params.logit_bias.items():
        if token < len(row):
            row[token] += np.float32(bias)
    if len(output) < params.min_tokens:
        row[[token for token in (*end_ids, *params.stop_token_ids) if token < len(row)]] = -np.inf
    penalize(row, params, prompt, output)
    if params.dry_multiplier != 0:
        history = [*prompt, *output]
        start = 0 if params.dry_range < 0 else max(0, len(history) - params.dry_range)
        for token, penalty in dry_penalties(history[start:], params, set(breakers)).items():
            row[token] -= np.float32(penalty)
    return row


def penalize(
    row: Floats, params: SamplingParams, prompt: Sequence[int], output: Sequence[int]
) -> None:
    """Repetition: once for each distinct token. Presence and frequency: output tokens only."""
    repetition = np.float32(params.repetition_penalty)
    for token in {*prompt, *output}:
        row[token] = row[token] / repetition if row[token] > 0 else row[token] * repetition
    for token, count in Counter(output).items():
        frequency = np.float32(params.frequency_penalty) * np.float32(count)
        row[token] -= frequency + np.float32(params.presence_penalty)


def dry_penalties(
    history: Sequence[int], params: SamplingParams, breakers: set[int]
) -> dict[int, float]:
    """Token -> what DRY ("don't repeat yourself", p-e-w, 2024) takes off its logit.

    Where the end of the history occurred before, the token that followed it there is held back by
    multiplier * base^(length - allowed length), by the longest such stretch. A stretch never
    reaches across a breaker, and a breaker is never held back.
    """
    longest: dict[int, int] = {}
    for end in range(1, len(history)):
        follower = history[end]
        length = _common_ending(history[:end], history, breakers)
        if length >= params.dry_allowed_length and follower not in breakers:
            longest[follower] = max(length, longest.get(follower, 0))
    return {token: _dry_penalty(params, length) for token, length in longest.items()}


def _common_ending(before: Sequence[int], history: Sequence[int], breakers: set[int]) -> int:
    length = 0
    while length < len(before):
        token = history[-1 - length]
        if token in breakers or before[-1 - length] != token:
            break
        length += 1
    return length


def _dry_penalty(params: SamplingParams, length: int) -> float:
    exponent = length - params.dry_allowed_length
    try:
        power = math.pow(params.dry_base, exponent)
    except OverflowError:
        return DRY_CEILING
    return min(params.dry_multiplier * power, DRY_CEILING)


def distribution(row: Floats, params: SamplingParams, coin: float) -> Doubles:
    """Probabilities (tokens,) after temperature and filters; `coin` decides whether XTC acts.

    Logits are scaled in single precision: so much of the rounding belongs to the meaning.
    """
    with np.errstate(over="ignore"):  # minus infinity, whose weight is rightly zero
        single = (row - row.max()) * np.float32(1 / params.temperature)
    scaled = single.astype(np.float64)
    weights: Doubles = np.exp(scaled)
    weights[scaled < LOWEST] = 0
    order = np.argsort(-row.astype(np.float64), kind="stable")  # likeliest first, then lower ids
    if 0 < params.top_k < len(row):
        weights[order[params.top_k :]] = 0
    if params.typical_p < 1:
        _keep(weights, _typical_order(weights, scaled), params.typical_p)
    if params.top_p < 1:
        _keep(weights, order, params.top_p)
    if params.min_p > 0:
        weights[weights < params.min_p * weights.max()] = 0
    if coin < params.xtc_probability:
        _exclude_top_choices(weights, order, params.xtc_threshold)
    weights /= weights.sum()
    return weights


def _keep(weights: Doubles, order: NDArray[np.intp], share: float) -> None:
    """Zeroes all but the shortest beginning of `order` that holds `share` of the weight."""
    order = order[weights[order] > 0]
    reached = np.cumsum(weights[order]) >= share * weights.sum()
    last = int(np.argmax(reached)) if reached.any() else len(order) - 1
    weights[order[last + 1 :]] = 0


def _typical_order(weights: Doubles, scaled: Doubles) -> NDArray[np.intp]:
    """Tokens by how far their surprise is from the entropy (Meister and others, 2022).

    Both hold the logarithm of the sum of weights, which cancels.
    """
    alive = weights > 0
    mean = np.sum(weights[alive] * scaled[alive]) / weights.sum()
    return np.argsort(np.abs(mean - scaled), kind="stable")


def _exclude_top_choices(weights: Doubles, order: NDArray[np.intp], threshold: float) -> None:
    """XTC (p-e-w, 2024): of the tokens that reach `threshold` only the least likely stays."""
    order = order[weights[order] > 0]
    top = order[weights[order] >= threshold * weights.sum()]
    weights[top[:-1]] = 0


def draw(probabilities: Doubles, number: float) -> int:
    passed = np.cumsum(probabilities) > number * probabilities.sum()
    return int(np.argmax(passed)) if passed.any() else int(np.flatnonzero(probabilities)[-1])


def log_probabilities(logits: Floats) -> Doubles:
    """Of the model's own logits (tokens,), in natural logarithm, no lower than the floor."""
    shifted: Doubles = logits.astype(np.float64) - logits.max()
    floor = np.float64(LOGPROB_FLOOR)
    values: Doubles = np.maximum(shifted - np.log(np.exp(shifted).sum()), floor)
    return values


def random_at(seed: int, choice: int, step: int) -> tuple[float, float]:
    """Two numbers in [0, 1): the draw's and XTC's.

    Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011)
    with the seed as its key and (step, choice, 0) as its counter.
    """
    mask = 0xFFFFFFFF
    key = [seed & mask, seed >> 32 & mask]
    words = [step & mask, step >> 32 & mask, choice, 0]
    for _ in range(10):
        first, second = 0xD2511F53 * words[0], 0xCD9E8D57 * words[2]
        words = [
            second >> 32 ^ words[1] ^ key[0],
            second & mask,
            first >> 32 ^ words[3] ^ key[1],
            first & mask,
        ]
        key = [(key[0] + 0x9E3779B9) & mask, (key[1] + 0xBB67AE85) & mask]
    return _unit(words[0], words[1]), _unit(words[2], words[3])


def _unit(high: int, low: int) -> float:
    return ((high << 32 | low) >> 11) * 2.0**-53
