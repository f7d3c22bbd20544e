"""What goes into the engine and what comes out of it: `Request` in, a stream of `Delta` out.

Plain values. This module knows nothing of models, pages or HTTP.
"""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from pyrite.records import dataclass
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
    tenant: str = ""  # whose fair share of the steps it takes: the name of an API key
    cache_namespace: str = ""  # cached prefixes are found within one namespace alone
    explain_cache: bool = False  # say where the prompt parts from what is cached
    adapter: str = ""  # the name of one that was loaded with the model; none when empty


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of one request; `cached_tokens` of the prompt came from the prefix cache."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True)
class PrefixMiss:
    """Where a prompt parts from the cached one that is nearest to it."""

    position: int  # tokens that they have in common
    cached_text: str  # what follows there in the cached one; a few tokens
    prompt_text: str  # what follows there in this prompt


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds: from admission to the first token, and from the first token to the last."""

    prompt_seconds: float
    decode_seconds: float


@dataclass(frozen=True, slots=True)
class EngineStats:
    """Where the engine stands between two steps; counts of tokens and events are since its start.

    Filled by the engine. `pages_used` are held by requests, `pages_cached` by the prefix index
    alone: they are free as soon as someone needs them.
    """

    waiting: int = 0  # requests
    running: int = 0  # requests
    pages_total: int = 0
    pages_used: int = 0
    pages_cached: int = 0
    states_total: int = 0  # slots of recurrent states; 0 for a model without
    states_used: int = 0  # by requests
    states_cached: int = 0  # checkpoints of cached prefixes, which give way
    prefix_queries: int = 0  # tokens of prompts that were looked up
    prefix_hits: int = 0  # tokens of them that were found
    restored_tokens: int = 0  # of the hits, read from disk
    stored_pages: int = 0  # written to disk
    preemptions: int = 0
    computed_tokens: int = 0
    drafts: int = 0  # runs of guessed tokens that were verified
    drafted_tokens: int = 0  # of these runs together
    accepted_tokens: int = 0  # of them that held
    accepted_at: tuple[int, ...] = ()  # the same by their place in the run


@dataclass(frozen=True, slots=True)
class Delta:
    """What one step added to one request. `text` may be empty while a character is incomplete.

    `usage` is set in the delta of the first token and in the last one, `prompt_logprobs` and `miss`
    in that of the first token, when they were asked for. `stopped_by` is the stop string or the
    stop id of the parameters that ended the request; None when the model's own end did.
    """

    request_id: str
    token_ids: tuple[int, ...] = ()
    text: str = ""
    logprobs: tuple[PositionLogprobs, ...] = ()
    prompt_logprobs: tuple[PositionLogprobs | None, ...] = ()  # None: the first has none
    finish_reason: FinishReason | None = None
    stopped_by: str | int | None = None
    miss: PrefixMiss | None = None
    usage: Usage | None = None
    timings: Timings | None = None
    error: Exception | None = field(default=None, compare=False)
