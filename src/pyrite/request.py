"""What goes into the engine and what comes out of it: `Request` in, a stream of `Delta` out.

Plain values. This module knows nothing of models, pages or HTTP.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from pyrite.sampling.params import SamplingParams

FinishReason = Literal["stop", "length", "cancelled", "error"]


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """One token's log-probability under the full softmax, before any filter (natural log)."""

    token_id: int
    logprob: float


@dataclass(frozen=True, slots=True)
class PositionLogprobs:
    """What `logprobs=k` asks for, at one position: the token and the `k` likeliest."""

    token: TokenLogprob
    top: tuple[TokenLogprob, ...]


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt to be continued. Filled by the faces (Python, command line, server)."""

    request_id: str
    prompt_ids: tuple[int, ...]
    params: SamplingParams
    priority: int = 0  # lower goes first
    choice: int = 0  # numbers the answers to one prompt: with one seed, each draws its own


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of one request; `cached_tokens` of the prompt came from the prefix cache."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds: from admission to the first token, and from the first token to the last."""

    prompt_seconds: float
    decode_seconds: float


@dataclass(frozen=True, slots=True)
class Delta:
    """What one step added to one request. `text` may be empty while a character is incomplete."""

    request_id: str
    token_ids: tuple[int, ...] = ()
    text: str = ""
    logprobs: tuple[PositionLogprobs, ...] = ()
    finish_reason: FinishReason | None = None
    usage: Usage | None = None
    timings: Timings | None = None
    error: Exception | None = field(default=None, compare=False)
