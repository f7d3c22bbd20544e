"""A digest of everything that decides which ids a text has. Knows no tokenizer, only its data."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from pyrite.formats.checkpoint import StringTable, TokenizerData
from pyrite.text.native_tokenizer import marks_of


def fingerprint_of(data: TokenizerData, kinds: NDArray[np.int32], pre: str) -> str:
    """Hexadecimal."""
    settings = (
        *(data.model, pre, data.bos_id, data.unknown_id, data.add_bos),
        *(data.add_space_prefix, data.space_prefix, data.whole_words, data.normalization),
        *(data.add_eos, data.begin_ids, data.end_ids, data.cuts_at_spaces),
    )
    digest = hashlib.blake2b(repr(settings).encode(), digest_size=16)
    digest.update(kinds.data)
    digest.update(marks_of(data).data)
    for table in (data.tokens, data.merges):
        if table is not None:
            digest.update(np.subtract(table.starts, table.starts[:1].sum()).data)
            digest.update(table.lengths.data)
            digest.update(_contents(table).data)
    if data.scores is not None:
        digest.update(np.ascontiguousarray(data.scores).data)
    return digest.hexdigest()


def _contents(table: StringTable) -> NDArray[np.uint8]:
    """The part of the buffer that holds the strings."""
    if not len(table):
        return table.data[:0]
    return table.data[int(table.starts.min()) : int((table.starts + table.lengths).max())]
