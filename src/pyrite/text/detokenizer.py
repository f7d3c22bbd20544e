"""Tokens to text while they come: whole characters only, and no text that is taken back later.

What was given out in pieces is what the tokens' bytes give at once, wherever the pieces are cut.
Knows one answer: no prompt, no request.
"""

from __future__ import annotations

import codecs
from collections.abc import Collection, Sequence

from pyrite.text.tokenizer import Tokenizer


class Detokenizer:
    """The text of one answer. `stopped_by` is the stop string that has ended it.

    Of stop strings the one that begins first wins, and of those that begin together the shortest;
    text that may yet become one is held back. None is looked for before `min_tokens` tokens.
    Bytes that are not UTF-8 become U+FFFD, as do those of a character that is never completed.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        stop: Sequence[str] = (),
        *,
        include_stop: bool = False,
        skip_special: bool = True,
        shown: Collection[int] = (),
        min_tokens: int = 0,
    ) -> None:
        self.stopped_by: str | None = None
        self._tokenizer = tokenizer
        self._stop = sorted(stop, key=len)
        self._include_stop = include_stop
        self._skip_special = skip_special
        self._shown = frozenset(shown)  # special tokens that are text all the same
        self._unarmed = min_tokens  # tokens to come before stop strings count
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._held = ""  # text that has not been given out

    @property
    def stopped(self) -> bool:
        return self.stopped_by is not None

    def push(self, token_id: int) -> str:
        """The text that is certain now, which may be empty."""
        assert not self.stopped, "a token after the end"
        self._unarmed -= 1
        self._held += self._decoder.decode(self._bytes(token_id))
        if self._unarmed > 0:
            return self._give(len(self._held))
        return self._search(final=False)

    def finish(self) -> str:
        """The text that was held back, at the end of the answer."""
        if self.stopped:
            return ""
        self._held += self._decoder.decode(b"", final=True)
        return self._search(final=True)

    def _bytes(self, token_id: int) -> bytes:
        hidden = self._skip_special and token_id not in self._shown
        if hidden and self._tokenizer.is_special(token_id):
            return b""
        return self._tokenizer.token_bytes(token_id)

    def _search(self, *, final: bool) -> str:
        """Gives out what lies before the first stop string, whole or (unless final) begun."""
        whole, text = self._first_whole()
        begun = len(self._held) if final else self._first_begun()
        if begun < whole or whole == len(self._held):
            return self._give(min(begun, whole))
        self.stopped_by = text
        given = self._give(whole + (len(text) if self._include_stop else 0))
        self._held = ""
        return given

    def _first_whole(self) -> tuple[int, str]:
        """Where the first whole stop string begins, and which it is; at the end when none does."""
        places = ((self._held.find(text), text) for text in self._stop)
        found = [place for place in places if place[0] >= 0]
        return min(
            found, key=lambda place: (place[0], len(place[1])), default=(len(self._held), "")
        )

    def _first_begun(self) -> int:
        """Where the first stop string begins that the end of the text cuts off, or the end."""
        longest = len(self._stop[-1]) if self._stop else 1
        for start in range(max(0, len(self._held) - longest + 1), len(self._held)):
            if any(text.startswith(self._held[start:]) for text in self._stop):
                return start
        return len(self._held)

    def _give(self, length: int) -> str:
        given, self._held = self._held[:length], self._held[length:]
        return given
