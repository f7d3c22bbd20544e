"""A tokenizer as the metadata of a GGUF file: what a converter writes beside the tensors.

The inverse of `vocabulary`, for tokenizers of folders too. GGUF cannot say all that tokenizer.json
says: `untold` names what is lost. Which tensors there are is unknown here.

Source of the keys: the GGUF specification, and what llama.cpp's converter writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyrite.errors import UnsupportedError
from pyrite.formats.checkpoint import Checkpoint, Mark, StringTable, TokenizerData
from pyrite.formats.token_table import string_table
from pyrite.formats.vocabulary import PREFIX, STOP_KEYS, TEMPLATE

UNUSED = 5  # tokenizer.ggml.token_type
NORMAL, CONTROL, BYTE = 1, 3, 6
MODELS = {"bpe": "gpt2", "spm": "llama", "rwkv": "rwkv"}


def tokenizer_metadata(
    source: Checkpoint | TokenizerData,
    *,
    templates: Mapping[str, str] | None = None,
    size: int | None = None,
) -> dict[str, Any]:
    """Keys and values for `gguf_writer`: tokenizer.ggml.* and the chat templates.

    `templates`: by name, in place of the checkpoint's. `size`: the rows of the embedding, where
    there are more than tokens; the rest are unused tokens. Raises UnsupportedError for a tokenizer
    of a kind that GGUF has not.
    """
    data = source.tokenizer if isinstance(source, Checkpoint) else source
    if templates is None:
        templates = source.chat_templates if isinstance(source, Checkpoint) else {}
    found = {} if data is None else _tokenizer(data, max(size or 0, len(data.tokens)))
    for name, template in templates.items():
        key = TEMPLATE if name == "default" else f"{TEMPLATE}.{name}"
        found[key] = template
    named = [name.encode() for name in templates if name != "default"]
    if named:
        found["tokenizer.chat_templates"] = named
    return found


def ids_only_metadata(eos_ids: tuple[int, ...]) -> dict[str, Any]:
    """Of a model without a tokenizer: llama.cpp opens such a file too, for token ids alone."""
    ends = zip(STOP_KEYS, eos_ids, strict=False)
    return {PREFIX + "model": "none", **{PREFIX + key: token_id for key, token_id in ends}}


def _tokenizer(data: TokenizerData, size: int) -> dict[str, Any]:
    if data.model not in MODELS:
        raise UnsupportedError(
            f"GGUF has no tokenizer like this one: it has {data.unknown}",
            hint="byte-level BPE and SentencePiece BPE can be written",
        )
    found: dict[str, Any] = {
        "model": MODELS[data.model],
        "pre": _pre(data) or "default",
        "tokens": _tokens(data, size),
        "token_type": _types(data, size),
    }
    if data.model == "spm":
        found["scores"] = np.pad(_scores(data), (0, size - len(data.tokens)))
    elif data.merges is not None:
        found["merges"] = data.merges
    ids = {"bos": data.bos_id, "unknown": data.unknown_id, "padding": data.padding_id}
    found |= {f"{name}_token_id": one for name, one in ids.items() if one is not None}
    found |= dict(zip(STOP_KEYS, data.eos_ids, strict=False))
    found["add_bos_token"] = data.add_bos
    found["add_eos_token"] = data.add_eos
    found["add_space_prefix"] = data.add_space_prefix
    return {PREFIX + name: value for name, value in found.items()}


def _pre(data: TokenizerData) -> str | None:
    if data.model != "bpe":
        return None
    return "falcon" if data.pre == "falcon-folder" else data.pre


def _tokens(data: TokenizerData, size: int) -> StringTable:
    """Unused ids get names, for readers tell tokens by their text."""
    count = len(data.tokens)
    empty = np.flatnonzero(data.tokens.lengths == 0).tolist()
    if not empty and size == count:
        return data.tokens
    texts = [data.tokens[index].decode(errors="replace") for index in range(count)]
    texts += [""] * (size - count)
    for index in (*empty, *range(count, size)):
        texts[index] = f"[PAD{index}]"
    return string_table(texts)


def _types(data: TokenizerData, size: int) -> NDArray[np.int32]:
    types = data.types
    if types is None:
        types = np.full(len(data.tokens), NORMAL, np.int32)
    return np.pad(types.astype(np.int32), (0, size - len(types)), constant_values=UNUSED)


def _scores(data: TokenizerData) -> NDArray[np.float32]:
    """By merges: the rank of the first merge that makes a piece, negative."""
    if data.scores is not None:
        return data.scores
    assert data.merges is not None, "a tokenizer over characters has scores or merges"
    ids = {data.tokens[index]: index for index in range(len(data.tokens))}
    scores = np.full(len(data.tokens), -float(len(data.merges) + 1), np.float32)
    if data.types is not None:
        scores[(data.types != NORMAL) | (data.types == BYTE)] = 0
    for rank in range(len(data.merges) - 1, -1, -1):
        made = ids.get(data.merges[rank].replace(b" ", b"", 1))
        if made is not None:
            scores[made] = -float(rank)
    return scores


def untold(data: TokenizerData) -> tuple[str, ...]:
    """Sentences on what a GGUF file cannot say of the tokenizer: where ids may differ with it."""
    found = []
    count = len(data.tokens)
    marks = np.zeros(count, np.uint8) if data.marks is None else data.marks
    if (marks & (Mark.LEFT | Mark.RIGHT)).any():
        found.append("added tokens take the white space beside them along (lstrip, rstrip)")
    if data.types is not None and (marks[data.types == CONTROL] & Mark.PIECE).any():
        found.append("merges make some of its special tokens, and go on from them")
    if data.normalization is not None:
        found.append(f"text is normalized to {data.normalization}")
    if data.add_space_prefix and data.space_prefix != "always":
        found.append(f"a space is put before a text {data.space_prefix}")
    if data.cuts_at_spaces:
        found.append("each space begins a word, and merges never join two")
    if data.strips_space not in (None, data.add_space_prefix):
        kept = "does not take" if data.add_space_prefix else "takes"
        found.append(f"decoding {kept} a space away that begins a text")
    if data.pre == "falcon-folder":
        found.append("words are cut between the bytes of some characters, as Falcon's are")
    if data.begin_ids:
        found.append(f"texts begin with the ids {data.begin_ids}")
    if data.end_ids:
        found.append(f"whole texts end with the ids {data.end_ids}")
    if len(data.eos_ids) > len(STOP_KEYS):
        found.append(f"answers end with {len(data.eos_ids)} tokens: {len(STOP_KEYS)} can be named")
    if data.model == "spm" and data.merges is not None and not told_by_scores(data):
        found.append("its merges have an order that scores of pieces cannot tell")
    return tuple(found)


def told_by_scores(data: TokenizerData) -> bool:
    """Whether merging any two whose joint piece is a token, by that piece's rank, is the same: all
    ways to make a piece are listed, together, and no piece is without one."""
    assert data.merges is not None
    merges = [data.merges[rank] for rank in range(len(data.merges))]
    pieces = [merge.replace(b" ", b"", 1) for merge in merges]
    if len(set(pieces)) != sum(a != b for a, b in zip(pieces, [b"", *pieces[:-1]], strict=True)):
        return False
    known, listed = _normal(data), set(merges)
    return all(way in listed for piece in known for way in _ways(piece, known))


def _normal(data: TokenizerData) -> set[bytes]:
    types = _types(data, len(data.tokens))
    return {data.tokens[index] for index in np.flatnonzero(types == NORMAL).tolist()}


def _ways(piece: bytes, known: set[bytes]) -> list[bytes]:
    """b"left right" of all ways to make a piece of two that are known."""
    cuts = [cut for cut in range(1, len(piece)) if piece[cut] & 0xC0 != 0x80]
    return [
        piece[:cut] + b" " + piece[cut:]
        for cut in cuts
        if piece[:cut] in known and piece[cut:] in known
    ]
