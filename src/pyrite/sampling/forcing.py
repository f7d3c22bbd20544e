"""Text that can only follow, found byte by byte and cut as the tokenizer would cut it.

Left to choose among the pieces of such a text, a model that wanted to say something else takes
pieces that it was never trained on. The library could find the text too, but not stop: in a grammar
without an end it goes on until memory is full. Knows a matcher, no request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

    from pyrite.sampling.compiler import Vocabulary

MOST_BYTES = 64  # looked ahead; a longer text is found piece by piece


class Forcing:
    """For one vocabulary. `tokenizer` is its own, as the library knows it."""

    def __init__(self, vocabulary: Vocabulary, tokenizer: LLTokenizer) -> None:
        self._tokenizer = tokenizer
        special = {*vocabulary.special_ids, *tokenizer.eos_tokens}
        texts = {token: text for token, text in enumerate(vocabulary.texts) if token not in special}
        self._ids = {text[0]: token for token, text in texts.items() if len(text) == 1}
        self._bytes = np.fromiter(self._ids, np.intp)  # those that are tokens
        ids = np.fromiter(self._ids.values(), np.intp)
        self._places, self._shifts = ids // 32, (ids % 32).astype(np.uint32)
        others = np.zeros(-(-tokenizer.vocab_size // 32) * 32, np.bool_)
        others[list(special)] = True
        self._others = np.packbits(others, bitorder="little").view(np.uint32)  # what is no text
        begun = {text[0] for text in texts.values() if text}
        self._works = begun <= self._ids.keys()

    def tokens(self, matcher: LLMatcher, words: NDArray[np.uint32]) -> list[int]:
        """The tokens that can only come next, as far as they are certain; `words`: the mask now.

        The matcher is left as it was.
        """
        text = bytearray()
        ahead = np.empty_like(words)
        byte = self._only_byte(words)
        while byte is not None and matcher.consume_token(self._ids[byte]):
            text.append(byte)
            if matcher.is_stopped() or len(text) == MOST_BYTES:
                break
            matcher.unsafe_compute_mask_ptr(ahead.ctypes.data, ahead.nbytes)
            byte = self._only_byte(ahead)
        if not text:
            return []
        ended = matcher.is_stopped() and not matcher.is_error()
        if not matcher.rollback(len(text)):
            return []
        tokens = self._cut(bytes(text), ended)
        return tokens if matcher.validate_tokens(tokens) == len(tokens) else []

    def _only_byte(self, words: NDArray[np.uint32]) -> int | None:
        """The byte that every allowed token begins with, if there is only one."""
        if not self._works or (words & self._others).any():
            return None
        found = np.flatnonzero(words[self._places] >> self._shifts & 1)
        return int(self._bytes[found[0]]) if len(found) == 1 else None

    def _cut(self, text: bytes, ended: bool) -> list[int]:
        if ended:
            return self._tokenizer.tokenize_bytes(text)
        return self._tokenizer.tokenize_partial(text)[0]
