"""Tokenizer data and chat templates out of GGUF metadata, checked: lengths agree, ids in range.

How text becomes tokens is unknown here (`text.tokenizer`).

Source of the keys and their defaults: the GGUF specification, and what converters write.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pyrite.errors import FormatError, UnsupportedError
from pyrite.formats.checkpoint import Checkpoint, TokenizerData
from pyrite.formats.metadata import Metadata, boolean, integer, string, strings

MODELS: dict[str, Literal["bpe", "spm", "rwkv"]] = {
    "gpt2": "bpe",
    "llama": "spm",
    "gemma4": "spm",  # by merges
    "rwkv": "rwkv",
}
NO_MODELS = (None, "none", "no_vocab")  # llama.cpp has the words
PREFIX = "tokenizer.ggml."
TEMPLATE = "tokenizer.chat_template"
STOP_KEYS = ("eos_token_id", "eot_token_id", "eom_token_id")
MAX_TYPE = 6  # 0 undefined, then as TokenizerData.types has them

# Byte-level pre-tokenizers whose models expect a start token where the file does not say.
PRE_WITH_BOS = (
    "llama3",
    "llama-v3",
    "llama-bpe",
    "falcon3",
    "falcon-h1",
    "pixtral",
    "midm-2.0",
    "lfm2",
    "jina-v5-nano",
    "tekken",
    "chameleon",
)


def read_tokenizer(metadata: Metadata) -> TokenizerData | None:
    """The tokenizer as the file states it; None when it has none of a kind that is known here.

    Raises FormatError naming the key that lies.
    """
    named = string(metadata, PREFIX + "model", default="")
    model = MODELS.get(named)
    if model is None:
        return None
    merged = named in ("gpt2", "gemma4")
    tokens = strings(metadata, PREFIX + "tokens")
    if len(tokens) == 0:
        raise FormatError(f"{PREFIX}tokens is empty")
    pre = string(metadata, PREFIX + "pre", default="") or None
    return TokenizerData(
        model=model,
        pre=pre,
        tokens=tokens,
        types=_types(metadata, len(tokens)),
        scores=_scores(metadata, len(tokens)) if model == "spm" and not merged else None,
        merges=strings(metadata, PREFIX + "merges") if merged else None,
        bos_id=_id(metadata, "bos_token_id", len(tokens)),
        eos_ids=stop_ids(metadata, len(tokens)),
        unknown_id=_id(metadata, "unknown_token_id", len(tokens)),
        padding_id=_id(metadata, "padding_token_id", len(tokens)),
        add_bos=_flag(metadata, "add_bos_token", model == "spm" or pre in PRE_WITH_BOS),
        add_eos=_flag(metadata, "add_eos_token", False),
        add_space_prefix=_flag(metadata, "add_space_prefix", named == "llama"),
    )


def takes_ids_alone(checkpoint: Checkpoint) -> bool:
    """A model that brings no tokenizer, and not one of a kind that is unknown here."""
    kind = checkpoint.metadata.get(PREFIX + "model")
    nothing = kind in NO_MODELS and PREFIX + "tokens" not in checkpoint.metadata
    return checkpoint.tokenizer is None and (checkpoint.format == "safetensors" or nothing)


def stop_ids(metadata: Metadata, count: int) -> tuple[int, ...]:
    """What ends an answer, of `count` tokens; a file may say so without a tokenizer too."""
    found = (_id(metadata, name, count) for name in STOP_KEYS)
    return tuple(dict.fromkeys(item for item in found if item is not None))


def require_tokenizer(checkpoint: Checkpoint) -> TokenizerData:
    """The tokenizer's data. Raises UnsupportedError naming the kind when it is not known here."""
    if checkpoint.tokenizer is not None:
        return checkpoint.tokenizer
    kind = checkpoint.metadata.get(PREFIX + "model")
    raise UnsupportedError(
        f"{checkpoint.path.name}: the tokenizer is of kind {kind!r}, which is not supported"
        if kind not in NO_MODELS
        else f"{checkpoint.path.name} holds no tokenizer",
        hint=f"these are supported: {', '.join(MODELS)}",
    )


# What converters write for models that have no template, and llama.cpp knows by name.
RWKV_WORLD = (
    "{% for m in messages %}{% if m.role in ('system', 'user', 'assistant') %}"
    "{{ m.role | capitalize }}: {{ m.content | trim }}\n\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}Assistant:{% endif %}"
)
NAMED_TEMPLATES = {"rwkv-world": RWKV_WORLD}


def read_templates(metadata: Metadata) -> dict[str, str]:
    """Chat templates by name; the unnamed one is "default"."""
    found = {}
    if TEMPLATE in metadata:
        template = string(metadata, TEMPLATE)
        found["default"] = NAMED_TEMPLATES.get(template, template)
    for key in metadata:
        if key.startswith(TEMPLATE + "."):
            found[key.removeprefix(TEMPLATE + ".")] = string(metadata, key)
    return found


def _id(metadata: Metadata, name: str, count: int) -> int | None:
    key = PREFIX + name
    return integer(metadata, key, 0, count - 1) if key in metadata else None


def _flag(metadata: Metadata, name: str, default: bool) -> bool:
    return boolean(metadata, PREFIX + name, default=default)


def _numbers(metadata: Metadata, name: str, count: int, kinds: str) -> NDArray[Any] | None:
    """A numeric array with one item a token; `kinds` are NumPy's letters for what may be in it."""
    key = PREFIX + name
    if key not in metadata:
        return None
    value = metadata[key]
    if not isinstance(value, np.ndarray) or value.dtype.kind not in kinds:
        raise FormatError(f"{key} must be an array of numbers")
    if len(value) != count:
        raise FormatError(f"{key} has {len(value)} items, and there are {count} tokens")
    return value


def _types(metadata: Metadata, count: int) -> NDArray[np.int32] | None:
    value = _numbers(metadata, "token_type", count, "iu")
    if value is None:
        return None
    if value.min() < 0 or value.max() > MAX_TYPE:
        raise FormatError(
            f"{PREFIX}token_type holds {value.min()} to {value.max()}: must be 0 to {MAX_TYPE}"
        )
    return value.astype(np.int32, copy=False)


def _scores(metadata: Metadata, count: int) -> NDArray[np.float32]:
    value = _numbers(metadata, "scores", count, "f")
    if value is None:
        raise FormatError(f"the key {PREFIX}scores is missing: SentencePiece BPE needs it")
    if not np.isfinite(value).all():
        raise FormatError(f"{PREFIX}scores holds a value that is not finite")
    return value.astype(np.float32, copy=False)
