"""An answer as a whole: the deltas of one request, joined."""

from __future__ import annotations

from collections.abc import Iterable

from pyrite.request import Delta, FinishReason, PositionLogprobs, Timings, Usage


class Completion(str):
    """The answer's text, which is a `str`, and how it came about.

    `token_ids` are all tokens that were sampled; the last may be the one that stopped it, which is
    no text. `logprobs` has one entry a token when they were asked for. `error` is set when
    `finish_reason` is "error"; the text is what came before it.
    """

    token_ids: tuple[int, ...]
    logprobs: tuple[PositionLogprobs, ...]
    finish_reason: FinishReason
    usage: Usage
    timings: Timings
    error: Exception | None

    @property
    def text(self) -> str:
        return str(self)


def join(deltas: Iterable[Delta]) -> Completion:
    """`deltas` are all of one request, from the first to the one that ends it."""
    parts = list(deltas)
    last = parts[-1]
    assert last.finish_reason is not None, last
    assert last.usage is not None, last
    assert last.timings is not None, last
    whole = Completion("".join(delta.text for delta in parts))
    whole.token_ids = tuple(token for delta in parts for token in delta.token_ids)
    whole.logprobs = tuple(entry for delta in parts for entry in delta.logprobs)
    whole.finish_reason = last.finish_reason
    whole.usage = last.usage
    whole.timings = last.timings
    whole.error = last.error
    return whole
