"""Texts in equal chunks, each computed by itself from its first position on.

For those who measure a model over a long text. Chunks are llama.cpp's: the text is encoded as a
whole and cut; where the model wants a beginning-of-text token, each chunk's first token becomes it.
What is done with the results is unknown here.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pyrite.backends.base import Batch, Runner
from pyrite.errors import ParameterError
from pyrite.kv.pages import pages_for
from pyrite.text.tokenizer import Tokenizer

Ids = NDArray[np.int32]
Floats = NDArray[np.float32]


def cut(tokenizer: Tokenizer, text: str, chunk_tokens: int, most: int | None = None) -> Ids:
    """Whole chunks, at most `most` of them; what is left over at the end is dropped.

    (chunks, chunk_tokens). Raises ParameterError for a text that is too short.
    """
    ids = tokenizer.encode(text, bos=True)
    count = len(ids) // chunk_tokens
    if count == 0:
        limit = f"at least {chunk_tokens} tokens long, one chunk"
        hint = "take a longer text, or a smaller --chunk"
        raise ParameterError("TEXT", f"{len(ids)} tokens", limit, hint=hint)
    count = min(count, most or count)
    chunks = ids[: count * chunk_tokens].reshape(count, chunk_tokens).copy()
    beginning = tokenizer.encode("", bos=True)
    if len(beginning):
        chunks[:, 0] = beginning[0]
    return chunks


def results(
    runner: Runner, ids: Ids, first: int, last: int
) -> Iterator[tuple[NDArray[np.int32], Floats]]:
    """Runs one chunk; gives, batch by batch, some of the positions first..last and what the runner
    gives for them: (positions,), (positions, width). The array is overwritten by the next batch.
    """
    pages = np.arange(pages_for(len(ids)), dtype=np.int32)[None]
    for start in range(0, len(ids), runner.max_tokens):
        positions = np.arange(start, min(start + runner.max_tokens, len(ids)), dtype=np.int32)
        wanted = positions[(positions >= first) & (positions <= last)]
        batch = Batch(
            token_ids=ids[positions],
            positions=positions,
            sequence_starts=np.array([0, len(positions)], np.int32),
            page_tables=pages,
            output_rows=wanted - np.int32(start),
            state_slots=np.zeros(1, np.int32),
        )
        yield wanted, runner.run(batch)
