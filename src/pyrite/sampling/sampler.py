"""Logits in, token ids out: one `Sampler` a request, one native call for all of a step's rows.

The arithmetic is native (`native/sampling`), its meaning is `definition.py`, and the stages are
listed there. Knows no pages and no text; whoever makes a Sampler resolves strings to ids.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from pyrite._native import sampling as native
from pyrite.errors import BackendError, ParameterError, PyriteError, RequestError
from pyrite.records import dataclass
from pyrite.request import PositionLogprobs, TokenLogprob
from pyrite.sampling.params import SamplingParams, check_vocabulary

# Fields of SamplingParams that the native settings take as they are.
COPIED = (
    "top_k",
    "top_p",
    "min_p",
    "typical_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "dry_multiplier",
    "dry_base",
    "dry_allowed_length",
    "dry_range",
    "xtc_probability",
    "xtc_threshold",
    "min_tokens",
)
DRAWN, NOT_FINITE, NONE_ALLOWED = range(3)  # as in native/sampling/sampler.h


NO_MASKS = np.empty((0, 0), np.uint32)


@dataclass(frozen=True, slots=True)
class Masks:
    """What grammars allow: token i of a row is bit i % 32 of its word i / 32."""

    words: NDArray[np.uint32]  # (masks, words), at least a bit a token
    rows: NDArray[np.int32]  # (samplers,) each one's mask; -1: every token is allowed


@dataclass(frozen=True, slots=True)
class Sampled:
    """One row's outcome. `error` is set when there is no token; it concerns that request alone."""

    token_id: int
    logprobs: PositionLogprobs | None = None
    error: PyriteError | None = None


class Sampler:
    """One request's choice of tokens: what was asked, and the tokens so far.

    `vocab_size` is the width of the logits, of which only the first `valid_tokens` are tokens: the
    rest is never looked at. `end_ids` (end of sequence and the like) are masked together with the
    params' stop ids until `min_tokens` are out. `choice` numbers the answers to one prompt: each
    draws numbers of its own from the same seed. Raises ParameterError for an id out of range.
    """

    def __init__(
        self,
        params: SamplingParams,
        prompt_ids: Sequence[int],
        *,
        vocab_size: int,
        valid_tokens: int | None = None,
        end_ids: Iterable[int] = (),
        breaker_ids: Iterable[int] = (),
        choice: int = 0,
    ) -> None:
        check_vocabulary(params, vocab_size)
        self.vocab_size = vocab_size
        self.valid_tokens = vocab_size if valid_tokens is None else valid_tokens
        self.num_logprobs = -1 if params.logprobs is None else params.logprobs
        self.seed = secrets.randbits(63) if params.seed is None else params.seed
        bias = {key: value for key, value in params.logit_bias.items() if self._valid(key)}
        ends = [token for token in {*end_ids, *params.stop_token_ids} if self._valid(token)]
        self.state = native.State(
            self._settings(params, choice),
            self.valid_tokens,
            self._prompt(prompt_ids),
            _ids(bias),
            np.fromiter(bias.values(), np.float32, len(bias)),
            _ids(ends),
            _ids([token for token in set(breaker_ids) if self._valid(token)]),
        )

    @property
    def num_accepted(self) -> int:
        return self.state.step

    def accept(self, token_id: int) -> None:
        """Appends `token_id` to the output: penalties and the next draw depend on it."""
        self.state.accept(token_id)

    def _valid(self, token_id: int) -> bool:
        return 0 <= token_id < self.valid_tokens

    def _prompt(self, prompt_ids: Sequence[int]) -> NDArray[np.int32]:
        ids = np.asarray(prompt_ids, np.int64)
        outside = ids[(ids < 0) | (ids >= self.valid_tokens)]
        if len(outside):
            limit = f"token ids from 0 to {self.valid_tokens - 1}"
            raise ParameterError("prompt", int(outside[0]), limit)
        return ids.astype(np.int32)

    def _settings(self, params: SamplingParams, choice: int) -> native.Settings:
        settings = native.Settings()
        for name in COPIED:
            setattr(settings, name, getattr(params, name))
        settings.temperature = 0.0 if params.greedy else params.temperature
        settings.seed = self.seed % 2**64
        settings.choice = choice
        settings.logprobs = self.num_logprobs
        return settings


class BatchSampler:
    """Draws for many requests in one native call. Holds the memory that rows use in turn.

    One thread at a time; the interpreter lock is released meanwhile.
    """

    def __init__(self) -> None:
        self.scratch = native.Scratch()

    def sample(
        self,
        samplers: Sequence[Sampler],
        logits: NDArray[np.float32],  # (rows, vocabulary)
        rows: NDArray[np.int32] | None = None,  # (samplers,) row of each; None: in order
        masks: Masks | None = None,  # None: every token is allowed
    ) -> list[Sampled]:
        """The next token of each sampler. None is accepted yet: `Sampler.accept` does that.

        A row with a NaN or an infinite logit, or without an allowed token, is an error of its own
        request; the others are drawn as if it were not there.
        """
        count = len(samplers)
        masks = masks or Masks(NO_MASKS, np.full(count, -1, np.int32))
        width = max((sampler.num_logprobs for sampler in samplers), default=0)
        tokens = np.empty(count, np.int32)
        statuses = np.empty(count, np.int32)
        logprobs = np.empty(count, np.float32)
        top_tokens = np.empty((count, max(width, 0)), np.int32)
        top_logprobs = np.empty((count, max(width, 0)), np.float32)
        native.sample_batch(
            self.scratch,
            [sampler.state for sampler in samplers],
            logits,
            np.arange(count, dtype=np.int32) if rows is None else rows,
            masks.words,
            masks.rows,
            tokens,
            statuses,
            logprobs,
            top_tokens,
            top_logprobs,
        )
        if width < 0 and not statuses.any():
            return [Sampled(token) for token in tokens.tolist()]
        return [
            _outcome(
                sampler,
                int(tokens[i]),
                int(statuses[i]),
                float(logprobs[i]),
                zip(top_tokens[i].tolist(), top_logprobs[i].tolist(), strict=True),
            )
            for i, sampler in enumerate(samplers)
        ]


def breaker_ids(encode: Callable[[str], Sequence[int]], breakers: Iterable[str]) -> tuple[int, ...]:
    """DRY's breakers as ids: the last token of each one when it follows a letter.

    `encode` is the tokenizer's, without special tokens. A breaker of several tokens is known by its
    last one, as in the method's first implementation (see `definition.py`).
    """
    return tuple({encode("a" + breaker)[-1] for breaker in breakers})


def _ids(ids: Iterable[int]) -> NDArray[np.int32]:
    return np.array(list(ids), np.int32)


def _outcome(
    sampler: Sampler,
    token_id: int,
    status: int,
    logprob: float,
    top: Iterable[tuple[int, float]],
) -> Sampled:
    if status != DRAWN:
        return Sampled(token_id, error=_error(status))
    if sampler.num_logprobs < 0:
        return Sampled(token_id)
    likeliest = tuple(TokenLogprob(*pair) for pair in list(top)[: sampler.num_logprobs])
    existing = tuple(entry for entry in likeliest if entry.token_id >= 0)
    return Sampled(token_id, PositionLogprobs(TokenLogprob(token_id, logprob), existing))


def not_finite() -> BackendError:
    return BackendError(
        "the model gave a logit that is not a finite number",
        hint="check the model file with `pyrite doctor`",
    )


def _error(status: int) -> PyriteError:
    if status == NOT_FINITE:
        return not_finite()
    return RequestError(
        "no token is allowed at this step: the model and the parameters mask all of them",
        hint="relax logit_bias, min_tokens or the stop ids",
    )
