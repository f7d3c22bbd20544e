"""Requests that wait for their grammar to be compiled, and the compiler for one tokenizer.

They wait beside the engine's loop; one that cannot be compiled fails alone. Knows no pages and no
batch.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait

from pyrite.continuation import Continuation
from pyrite.errors import ParameterError
from pyrite.records import dataclass
from pyrite.sampling.compiler import GrammarCompiler, Vocabulary
from pyrite.sampling.constraint import Constraint
from pyrite.sampling.limits import MAX_COMPILE_SECONDS
from pyrite.sequence import Sequence
from pyrite.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Waiting:
    continuation: Continuation
    sequence: Sequence
    constraint: Future[Constraint]
    since: float  # of time.monotonic()

    def is_over(self, ready_at: float | None) -> bool:
        """The clock runs from `ready_at` on: the first grammars wait for the compiler itself."""
        if self.constraint.done():
            return True
        if ready_at is None:
            return False
        return time.monotonic() > max(self.since, ready_at) + MAX_COMPILE_SECONDS


class WaitingRoom:
    """By request id, in order of arrival."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.compiler = GrammarCompiler(lambda: vocabulary_of(tokenizer))
        self._waiting: dict[str, Waiting] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, request_id: object) -> bool:
        return request_id in self._waiting

    def enter(self, continuation: Continuation, sequence: Sequence) -> None:
        """For a request with a grammar."""
        grammar = continuation.request.params.grammar
        assert grammar is not None, continuation.request
        constraint = self.compiler.submit(grammar)
        one = Waiting(continuation, sequence, constraint, time.monotonic())
        self._waiting[sequence.request_id] = one

    def leave(self, request_id: str) -> Continuation:
        """Whatever became of its grammar."""
        one = self._waiting.pop(request_id)
        if not one.constraint.done() and not one.constraint.cancel():
            self.compiler.let_go()
        return one.continuation

    def ready(self, seconds: float) -> Iterator[tuple[Continuation, Sequence, Exception | None]]:
        """Those whose grammar is compiled, or is not to be; each leaves. Waits for the first one,
        `seconds` at most."""
        wait([one.constraint for one in self._waiting.values()], seconds, FIRST_COMPLETED)
        ready_at = self.compiler.ready_at
        for request_id in [key for key, one in self._waiting.items() if one.is_over(ready_at)]:
            one = self._waiting[request_id]
            error = _outcome(one)
            self.leave(request_id)
            yield one.continuation, one.sequence, error


def _outcome(one: Waiting) -> Exception | None:
    grammar = one.continuation.request.params.grammar
    assert grammar is not None
    if not one.constraint.done():
        limit = f"one that compiles within {MAX_COMPILE_SECONDS} seconds"
        return ParameterError(grammar.kind, grammar.source, limit)
    error = one.constraint.exception()
    if error is None:
        one.continuation.constraint = one.constraint.result()
        return None
    if isinstance(error, Exception):
        return error
    return ParameterError(grammar.kind, grammar.source, f"one that can be compiled: {error}")


def vocabulary_of(tokenizer: Tokenizer) -> Vocabulary:
    """It does not keep the tokenizer alive: the compiler's library holds it to the very end."""
    found = weakref.ref(tokenizer)

    def encode(text: bytes) -> list[int]:
        living = found()
        return [] if living is None else encode_within(living, text)

    def find(name: str) -> int | None:
        living = found()
        return None if living is None else living.marker_id(name)

    return Vocabulary(
        texts=[tokenizer.token_bytes(token_id) for token_id in range(tokenizer.vocab_size)],
        special_ids=sorted({*tokenizer.special_ids, *tokenizer.stop_ids}),  # what ends is no text
        end_ids=tokenizer.stop_ids,
        encode=encode,
        find=find,
    )


def encode_within(tokenizer: Tokenizer, text: bytes) -> list[int]:
    """Ids of a text that does not begin one: without the space that some models put before it."""
    ids: list[int] = tokenizer.encode_bytes(text).tolist()
    if b"".join(map(tokenizer.token_bytes, ids)) == text:
        return ids
    before = tokenizer.encode_bytes(b"\n").tolist()
    after: list[int] = tokenizer.encode_bytes(b"\n" + text).tolist()
    return after[len(before) :] if after[: len(before)] == before else ids
