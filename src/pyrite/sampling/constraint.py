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
from pyrite.sampling.limits import GRAMMAR_SECONDS, GRAMMAR_TOKEN_SECONDS, GUESS_SECONDS

if TYPE_CHECKING:
    from llguidance import LLMatcher

    from pyrite.sampling.forcing import Forcing


class Constraint:
    """Made by `GrammarCompiler`. One thread at a time.

    `name` is the parameter that errors are named after. Tokens that end an answer are allowed where
    the grammar may end, and are not to be given to `accept` when they end the request.

    The step that a token is drawn in waits for the mask, and with it everybody's: so all processor
    time is counted, and a request that goes beyond its allowance ends.
    """

    def __init__(self, matcher: LLMatcher, forcing: Forcing, name: str, num_tokens: int) -> None:
        self.num_words = -(-num_tokens // 32)  # of a mask
        self._matcher = matcher
        self._forcing = forcing
        self._forced: deque[int] = deque()
        self._name = name
        self._seconds = 0.0  # of processor time, by all calls together
        self._accept_seconds = 0.0  # by the last call of `accept`
        self._num_accepted = 0

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
        self._charge(started)
        self._check_allowance()

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
        started = time.thread_time()
        if self._forced and self._forced.popleft() != token_id:
            self._forced.clear()
        if not self._matcher.consume_token(token_id):
            raise self._error(self._matcher.get_error() or f"token {token_id} does not fit")
        self._num_accepted += 1
        self._accept_seconds = self._charge(started)
        self._check_allowance()

    def validate(self, token_ids: Sequence[int]) -> int:
        """How many of the tokens, from the first on, may come next in this order."""
        started = time.thread_time()
        count = self._matcher.validate_tokens(list(token_ids))
        self._charge(started)
        return count

    def num_fitting(self, guesses: Sequence[int]) -> int:
        """The same of guesses, as far as that is cheap to see: no request ends for its guesses."""
        if self._seconds > self._allowance / 2:
            return 0
        most = int(GUESS_SECONDS / max(self._accept_seconds, 1e-6))
        return self.validate(guesses[:most]) if most else 0

    @property
    def _allowance(self) -> float:
        return GRAMMAR_SECONDS + self._num_accepted * GRAMMAR_TOKEN_SECONDS

    def _charge(self, started: float) -> float:
        """What was taken since then."""
        seconds = time.thread_time() - started
        self._seconds += seconds
        return seconds

    def _check_allowance(self) -> None:
        """Raises ParameterError."""
        if self._seconds > self._allowance:
            raise ParameterError(
                self._name,
                f"one that took {self._seconds:.2f} s of processor time",
                f"followed in {self._allowance:.2f} s, at {self._num_accepted} tokens of an answer",
                hint="make it less ambiguous: fewer alternatives that begin alike",
            )

    def _error(self, reason: str) -> ParameterError:
        return ParameterError(self._name, shortened(reason), "a grammar that can be followed")


def shortened(reason: str, length: int = 400) -> str:
    """The compiler's words on few lines, without the traces that only its authors can read."""
    text = " ".join(reason.split("<backtrace>")[0].replace("<non-verbose/>", "").split())
    return text if len(text) <= length else text[: length - 3] + "..."
