"""Statistics of a run. A percentile is the smallest value that so many percent do not exceed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyrite.cli.load.answer import Answer
from pyrite.cli.load.drive import Run

PERCENTILES = (50, 90, 99)


@dataclass(frozen=True, slots=True)
class Spread:
    """Seconds. None where nothing was measured."""

    p50: float | None
    p90: float | None
    p99: float | None
    max: float | None
    mean: float | None
    count: int


@dataclass(frozen=True, slots=True)
class Summary:
    """Tokens and latencies are of the requests that were answered in whole; rates are over the
    whole run. `by_chunks` counts parts of streams: less than tokens where one brings several."""

    requests: int
    answered: int
    faults: dict[str, int]  # status or kind: how often
    first_fault: str  # what the server said to it
    seconds: float
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    output_tokens_by_chunks: int
    fewest_prompt_tokens: int
    most_prompt_tokens: int
    output_tokens_per_second: float
    total_tokens_per_second: float
    requests_per_second: float
    first_token: Spread
    gap: Spread  # between neighbouring parts of a stream
    per_output_token: Spread  # after the first, a request: its mean
    latency: Spread
    client_processor_seconds: float
    client_core_share: float  # of one core, while the run lasted


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Nearest rank, of values in order."""
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def spread(values: Iterable[float]) -> Spread:
    ordered = sorted(values)
    if not ordered:
        return Spread(None, None, None, None, None, 0)
    p50, p90, p99 = (percentile(ordered, percent) for percent in PERCENTILES)
    return Spread(p50, p90, p99, ordered[-1], math.fsum(ordered) / len(ordered), len(ordered))


def summarize(run: Run) -> Summary:
    whole = [answer for answer in run.answers if answer.fault is None]
    faulty = [answer for answer in run.answers if answer.fault is not None]
    prompts = [answer.usage.prompt_tokens for answer in whole if answer.usage] or [0]
    output = sum(answer.tokens for answer in whole)
    return Summary(
        requests=len(run.answers),
        answered=len(whole),
        faults=dict(Counter(str(answer.fault) for answer in faulty).most_common()),
        first_fault=next((answer.message for answer in faulty if answer.message), ""),
        seconds=run.seconds,
        prompt_tokens=sum(prompts),
        cached_tokens=sum(map(_cached, whole)),
        output_tokens=output,
        output_tokens_by_chunks=sum(len(answer.chunks) for answer in whole),
        fewest_prompt_tokens=min(prompts),
        most_prompt_tokens=max(prompts),
        output_tokens_per_second=output / run.seconds,
        total_tokens_per_second=(output + sum(prompts)) / run.seconds,
        requests_per_second=len(whole) / run.seconds,
        first_token=spread(answer.first_seconds for answer in whole),
        gap=spread(gap for answer in whole for gap in answer.gaps),
        per_output_token=spread(map(_per_token, (one for one in whole if one.tokens > 1))),
        latency=spread(answer.seconds for answer in whole),
        client_processor_seconds=run.processor_seconds,
        client_core_share=run.processor_seconds / run.seconds,
    )


def _cached(answer: Answer) -> int:
    details = answer.usage.prompt_tokens_details if answer.usage else None
    return (details.cached_tokens or 0) if details else 0


def _per_token(answer: Answer) -> float:
    return (answer.chunks[-1] - answer.chunks[0]) / (answer.tokens - 1)
