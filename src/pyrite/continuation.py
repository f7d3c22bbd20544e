"""One request while it is continued: its tokens, its sampler, its text, and when it ends.

Knows one request: nothing of pages, batches or neighbours.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from pyrite.errors import ContextLengthError, ParameterError
from pyrite.kv.table import Parting
from pyrite.request import (
    Delta,
    FinishReason,
    PositionLogprobs,
    PrefixMiss,
    Request,
    Timings,
    Usage,
)
from pyrite.sampling.constraint import Constraint
from pyrite.sampling.params import SamplingParams
from pyrite.sampling.sampler import Sampled, Sampler, breaker_ids
from pyrite.sampling.scores import PromptScores
from pyrite.text.detokenizer import Detokenizer
from pyrite.text.tokenizer import Tokenizer


class Continuation:
    """`token_ids` is the prompt and what was sampled; the last id may be one that stopped it.

    `vocabulary` is the width of the logits; rows past the tokenizer's last id are padding.
    `context_length` bounds prompt and output together. Raises ParameterError or
    ContextLengthError for a request that cannot be continued.
    """

    def __init__(
        self, request: Request, tokenizer: Tokenizer, *, vocabulary: int, context_length: int
    ) -> None:
        num_token_ids = min(vocabulary, tokenizer.vocab_size)
        check_prompt(request.prompt_ids, num_token_ids)
        room = context_length - len(request.prompt_ids)
        if room < 0 or (room == 0 and request.params.max_tokens != 0):
            hint = "leave room for an answer: shorten the prompt, or load with a larger context"
            raise ContextLengthError(len(request.prompt_ids), context_length, hint=hint)
        self.request = request
        self.token_ids = list(request.prompt_ids)
        self.max_length = _max_length(request, context_length)
        self._named_stops = _named_stops(request.params, tokenizer)
        ends = () if request.params.ignore_eos else tokenizer.stop_ids
        self._stop_ids = frozenset((*ends, *self._named_stops))  # end the request, and are no text
        self.constraint: Constraint | None = None  # filled by the engine if there is a grammar
        self.cached_tokens = 0  # of the prompt; filled by the engine before the first token
        self.parting: Parting | None = None  # from the prompts that are cached; filled likewise
        self.adapter = -1  # the number of the request's; filled by the engine
        self.drafts: list[int] = []  # guesses of the next tokens; filled by the engine each step
        self.prompt_scores = PromptScores(
            request.prompt_ids, request.params.prompt_logprobs, valid_tokens=num_token_ids
        )
        self.sampler = Sampler(
            request.params,
            request.prompt_ids,
            vocab_size=vocabulary,
            valid_tokens=num_token_ids,
            end_ids=self._stop_ids,
            breaker_ids=_breaker_ids(request.params, tokenizer),
            choice=request.choice,
        )
        self._tokenizer = tokenizer
        self._detokenizer = Detokenizer(
            tokenizer,
            request.params.stop,
            include_stop=request.params.include_stop,
            skip_special=request.params.skip_special_tokens,
            shown=request.params.shown_token_ids,
            min_tokens=request.params.min_tokens,
        )
        self._added_at = time.perf_counter()
        self._first_at: float | None = None

    @property
    def num_sampled(self) -> int:
        return len(self.token_ids) - len(self.request.prompt_ids)

    @property
    def full(self) -> bool:
        """True when no token may come after those that there are."""
        return len(self.token_ids) == self.max_length

    def admissible(self, token_ids: list[int]) -> list[int]:
        """Of tokens that may come next those up to the first that cannot."""
        if self.constraint is None:
            return token_ids
        return token_ids[: self.constraint.num_fitting(token_ids)]

    def accept(self, sampled: Sampled) -> Delta:
        """Appends a token that was drawn for this request. Raises the error that it may be."""
        if sampled.error:
            raise sampled.error
        self.token_ids.append(sampled.token_id)
        self.sampler.accept(sampled.token_id)
        if self.constraint and sampled.token_id not in self._stop_ids:
            self.constraint.accept(sampled.token_id)
        self._first_at = self._first_at or time.perf_counter()
        return self._delta(sampled.token_id, sampled.logprobs)

    def end(self, reason: FinishReason, error: Exception | None = None) -> Delta:
        """The last delta of a request that ends without a token: cancelled, failed, or for no
        token was asked for."""
        return Delta(
            self.request.request_id,
            prompt_logprobs=tuple(self.prompt_scores.entries) if reason == "length" else (),
            finish_reason=reason,
            usage=self._usage(),
            timings=self._timings(),
            error=error,
        )

    def _delta(self, token_id: int, logprobs: PositionLogprobs | None) -> Delta:
        stopped = token_id in self._stop_ids
        text = "" if stopped else self._detokenizer.push(token_id)
        stopped = stopped or (self.constraint is not None and self.constraint.complete)
        if stopped or self.full:
            text += self._detokenizer.finish()
        stopped = stopped or self._detokenizer.stopped
        reason: FinishReason | None = "stop" if stopped else "length" if self.full else None
        first = self.num_sampled == 1
        return Delta(
            self.request.request_id,
            token_ids=(token_id,),
            text=text,
            logprobs=() if logprobs is None else (logprobs,),
            prompt_logprobs=tuple(self.prompt_scores.entries) if first else (),
            finish_reason=reason,
            stopped_by=self._detokenizer.stopped_by or self._named_stops.get(token_id),
            miss=self._miss() if first else None,
            usage=self._usage() if reason or first else None,
            timings=self._timings() if reason else None,
        )

    def _miss(self) -> PrefixMiss | None:
        if self.parting is None:
            return None
        texts = (
            self._tokenizer.decode(ids, skip_special=False)
            for ids in (self.parting.cached_ids, self.parting.prompt_ids)
        )
        return PrefixMiss(self.parting.position, *texts)

    def _usage(self) -> Usage:
        return Usage(len(self.request.prompt_ids), self.num_sampled, self.cached_tokens)

    def _timings(self) -> Timings:
        now = time.perf_counter()
        first = self._first_at or now
        return Timings(first - self._added_at, now - first)


def merged(deltas: Sequence[Delta]) -> Delta:
    """Deltas of one request that follow each other, as one."""
    if len(deltas) == 1:
        return deltas[0]
    first, last = deltas[0], deltas[-1]
    return replace(
        last,
        token_ids=tuple(token_id for delta in deltas for token_id in delta.token_ids),
        text="".join(delta.text for delta in deltas),
        logprobs=tuple(entry for delta in deltas for entry in delta.logprobs),
        prompt_logprobs=first.prompt_logprobs,
        miss=first.miss,
        usage=last.usage or first.usage,
    )


def check_prompt(token_ids: Sequence[int], num_token_ids: int) -> None:
    """Raises ParameterError unless there are tokens, all of the vocabulary."""
    if not len(token_ids):
        hint = "this model starts no text by itself: begin with at least one token"
        raise ParameterError("prompt", [], "at least one token", hint=hint)
    for token_id in token_ids:
        if not 0 <= token_id < num_token_ids:
            raise ParameterError("prompt", token_id, f"token ids from 0 to {num_token_ids - 1}")


def _max_length(request: Request, context_length: int) -> int:
    """Tokens of prompt and output together; the context may hold fewer than max_tokens asks."""
    if request.params.max_tokens is None:
        return context_length
    return min(context_length, len(request.prompt_ids) + request.params.max_tokens)


def _named_stops(params: SamplingParams, tokenizer: Tokenizer) -> dict[int, str | int]:
    """Ids that the parameters end the request at, and what named each: a stop string may spell a
    control token."""
    spelled = ((tokenizer.control_id(text), text) for text in params.stop)
    named: dict[int, str | int] = {token_id: token_id for token_id in params.stop_token_ids}
    return named | {token_id: text for token_id, text in spelled if token_id is not None}


def _breaker_ids(params: SamplingParams, tokenizer: Tokenizer) -> tuple[int, ...]:
    if params.dry_multiplier == 0:
        return ()
    return breaker_ids(lambda text: tokenizer.encode(text).tolist(), params.dry_breakers)
