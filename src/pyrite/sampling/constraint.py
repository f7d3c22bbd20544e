"""Where one request stands in its grammar: which tokens may come next, and whether it is done.

A thin shell around a matcher of `llguidance`. Knows no logits and no other request.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pyrite.errors import ParameterError
from pyrite.sampling.limits import FREE_MASK_SECONDS, MAX_MASK_SECONDS

if TYPE_CHECKING:
    from llguidance import LLMatcher

    from pyrite.sampling.forcing import Forcing


class Constraint:
    """Made by `GrammarCompiler`. One thread at a time.

    `name` is the parameter that errors are named after. Tokens that end an answer are allowed where
    the grammar may end, and are not to be given to `accept` when they end the request.
    """

    def __init__(self, matcher: LLMatcher, forcing: Forcing, name: str, num_tokens: int) -> None:
        self.num_words = -(-num_tokens // 32)  # of a mask
        self._matcher = matcher
        self._forcing = forcing
        self._forced: deque[int] = deque()
        self._name = name
        self._excess_seconds = 0.0

    @property
    def complete(self) -> bool:
        """Nothing may follow: the grammar is at its end, and has no way on."""
        return self._matcher.is_stopped()

    def mask(self, words: NDArray[np.uint32]) -> None:
        """Writes which tokens may come next. (num_words,): token i is bit i % 32 of word i / 32.

        Raises ParameterError when the grammar has become too costly, or leads nowhere. The lock
        of the interpreter is released meanwhile.
        """
        assert words.shape == (self.num_words,)
        assert words.flags.c_contiguous
        started = time.thread_time()
        if not self._forced:
            self._compute(words)
        if self._forced:
            words[:] = 0
            words[self._forced[0] // 32] = 1 << self._forced[0] % 32
        self._excess_seconds += max(0.0, time.thread_time() - started - FREE_MASK_SECONDS)
        if self._excess_seconds > MAX_MASK_SECONDS:
            raise self._error("it takes too long to say what may come next")

    def _compute(self, words: NDArray[np.uint32]) -> None:
        """Writes the mask, and finds what is forced."""
        try:
            self._matcher.unsafe_compute_mask_ptr(words.ctypes.data, words.nbytes)
            self._forced.extend(self._forcing.tokens(self._matcher, words))
        except BaseException as error:  # a panic in native code is no Exception
            raise self._error(str(error)) from error
        if self._matcher.is_error():  # then the mask is of no meaning
            raise self._error(self._matcher.get_error())

    def forced_tokens(self) -> list[int]:
        """Tokens that can only come next, as far as the last mask found them."""
        return list(self._forced)

    def accept(self, token_id: int) -> None:
        """Moves on by a token that the mask allowed. Raises ParameterError."""
        if self._forced and self._forced.popleft() != token_id:
            self._forced.clear()
        if not self._matcher.consume_token(token_id):
            raise self._error(self._matcher.get_error() or f"token {token_id} does not fit")

    def validate(self, token_ids: Sequence[int]) -> int:
        """How many of the tokens, from the first on, may come next in this order."""
        return self._matcher.validate_tokens(list(token_ids))

    def _error(self, reason: str) -> ParameterError:
        return ParameterError(self._name, shortened(reason), "a grammar that can be followed")


def shortened(reason: str, length: int = 400) -> str:
    """The compiler's words on few lines, without the traces that only its authors can read."""
    text = " ".join(reason.split("<backtrace>")[0].replace("<non-verbose/>", "").split())
    return text if len(text) <= length else text[: length - 3] + "..."
