"""Grammars followed token by token, on a vocabulary without a model."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pyrite.sampling.compiler import Vocabulary
from pyrite.sampling.constraint import Constraint

BYTES = [bytes([value]) for value in range(256)]
WORDS = [b'{"', b'":', b'": ', b'", "', b'"}', b"true", b"null", b"ab", b"abc", b"  ", b'",']
EOS, MARKER, TOOL = 256 + len(WORDS), 257 + len(WORDS), 258 + len(WORDS)
NAMES = {"<eos>": EOS, "<marker>": MARKER, "<tool_call>": TOOL}


def vocabulary() -> Vocabulary:
    """Bytes, some longer tokens, then `<eos>`, `<marker>` (control) and `<tool_call>` (text)."""
    return Vocabulary(
        texts=[*BYTES, *WORDS, b"<eos>", b"<marker>", b"<tool_call>"],
        special_ids=[EOS, MARKER],
        end_ids=[EOS],
        encode=list,
        find=NAMES.get,
    )


def allowed(constraint: Constraint) -> list[int]:
    words = np.zeros(constraint.num_words, np.uint32)
    constraint.mask(words)
    bits = np.unpackbits(words.view(np.uint8), bitorder="little")
    return [int(token) for token in np.flatnonzero(bits)]


def follow(constraint: Constraint, choose: Callable[[list[int]], int], limit: int = 400) -> str:
    """The text that comes of it; "" when it did not end within the limit."""
    texts = vocabulary().texts
    said = b""
    for _ in range(limit):
        if constraint.complete:
            return said.decode()
        token = choose(allowed(constraint))
        if token == EOS:
            return said.decode()
        constraint.accept(token)
        said += texts[token]
    return ""
