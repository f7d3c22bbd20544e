"""Log-probabilities of a prompt: of tokens that are given, and not drawn.

Knows rows of logits; nothing of pages or steps, though these decide how many rows come at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pyrite._native import sampling as native
from pyrite.request import PositionLogprobs, TokenLogprob
from pyrite.sampling.sampler import not_finite


class PromptScores:
    """What `prompt_logprobs` asks for: nothing (None), or each token and the `num_top` likeliest.

    Only the first `valid_tokens` of a row are tokens. `entries` has one for each token scored so
    far, in order; that of the first is None, for nothing comes before it.
    """

    def __init__(
        self, prompt_ids: Sequence[int], num_top: int | None, *, valid_tokens: int
    ) -> None:
        self.entries: list[PositionLogprobs | None] = [] if num_top is None else [None]
        self._prompt_ids = prompt_ids
        self._num_top = num_top or 0
        self._valid_tokens = valid_tokens

    @property
    def complete(self) -> bool:
        return not self.entries or len(self.entries) == len(self._prompt_ids)

    def wanted(self, start: int, stop: int) -> range:
        """Of the positions from `start` to `stop`, those whose logits score the tokens after them.

        A prompt that is computed anew is not scored anew.
        """
        if self.complete:
            return range(0)
        return range(max(start, len(self.entries) - 1), min(stop, len(self._prompt_ids) - 1))

    def add(self, scratch: native.Scratch, logits: NDArray[np.float32]) -> None:
        """`logits` (wanted, vocabulary). Raises BackendError for a row with NaN or infinity."""
        first = len(self.entries)
        token_ids = self._prompt_ids[first : first + len(logits)]
        if len(logits):
            self.entries += score(scratch, logits, token_ids, self._valid_tokens, self._num_top)


def score(
    scratch: native.Scratch,
    logits: NDArray[np.float32],  # (tokens, vocabulary)
    token_ids: Sequence[int],
    valid_tokens: int,
    num_top: int,
) -> list[PositionLogprobs]:
    """Each token under the row of the same index, and the likeliest of that row."""
    count = len(token_ids)
    logprobs = np.empty(count, np.float32)
    top_tokens = np.empty((count, num_top), np.int32)
    top_logprobs = np.empty((count, num_top), np.float32)
    ids = np.array(token_ids, np.int32)
    wrong = native.score_rows(
        scratch, logits, valid_tokens, ids, logprobs, top_tokens, top_logprobs
    )
    if wrong >= 0:
        raise not_finite()
    tokens = map(TokenLogprob, token_ids, logprobs.tolist())
    tops = map(_top, top_tokens.tolist(), top_logprobs.tolist())
    return [PositionLogprobs(*pair) for pair in zip(tokens, tops, strict=True)]


def _top(token_ids: list[int], logprobs: list[float]) -> tuple[TokenLogprob, ...]:
    """A vocabulary smaller than what was asked for leaves ids of -1."""
    pairs = zip(token_ids, logprobs, strict=True)
    return tuple(TokenLogprob(*pair) for pair in pairs if pair[0] >= 0)
