"""Small tokenizers of the `tokenizers` library, in the shapes of published ones, as files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from pyrite.formats import patterns
from vocabularies import corpus

MARKERS = ("<s>", "</s>", "<|im_start|>", "<|im_end|>")


def split(*patterns: str, behavior: str = "isolated", invert: bool = False) -> Any:
    """Cuts by each pattern, then writes bytes in their alphabet."""
    steps = [pre_tokenizers.Split(Regex(one), behavior, invert) for one in patterns]
    last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence([*steps, last])


def gpt2(*before: Any) -> Any:
    last = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return pre_tokenizers.Sequence([*before, last]) if before else last


DIGITS = pre_tokenizers.Digits(individual_digits=True)
BYTE_LEVEL: dict[str, Callable[[], Any]] = {
    "gpt-2": gpt2,
    "smollm": lambda: gpt2(DIGITS),
    "qwen2": lambda: split(patterns.cl100k(r"\p{N}")),
    "llama-bpe": lambda: split(patterns.cl100k(r"\p{N}{1,3}")),
    "dbrx": lambda: split(patterns.cl100k(r"\p{N}{1,3}"), behavior="removed", invert=True),
    "qwen2-tiktoken": lambda: split(patterns.tiktoken(r"\p{N}")),
    "dbrx-tiktoken": lambda: split(patterns.tiktoken(r"\p{N}{1,3}")),
    "seed-coder": lambda: split(patterns.SEED_CODER),
    "exaone-moe": lambda: split(patterns.EXAONE_MOE),
    "minicpm5": lambda: split(r"\p{N}{1,3}", patterns.cl100k(r"\p{N}+")),
    "bloom": lambda: split(patterns.BLOOM),
    "viking": lambda: split(patterns.BLOOM, r"\p{N}"),
    "gpt-2-split": lambda: split(patterns.GPT2),
    "qwen35": lambda: split(patterns.QWEN35),
    "gpt-4o": lambda: split(patterns.o200k(r"\p{N}{1,3}", patterns.CONTRACTION + "?")),
    "tekken": lambda: split(patterns.o200k(r"\p{N}", "")),
    "deepseek-v3": lambda: split(r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", patterns.DEEPSEEK3),
    "deepseek-coder": lambda: pre_tokenizers.Sequence(
        [
            *(
                pre_tokenizers.Split(Regex(one), "isolated")
                for one in ("[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+")
            ),
            DIGITS,
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    ),
}
BYTE_LEVEL |= {
    "deepseek-llm": lambda: pre_tokenizers.Sequence(
        [
            *(pre_tokenizers.Split(Regex(one), "isolated") for one in patterns.DEEPSEEK[:-1]),
            DIGITS,
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    ),
    "falcon-folder": lambda: pre_tokenizers.Sequence(
        [
            pre_tokenizers.Punctuation("contiguous"),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
            pre_tokenizers.Digits(individual_digits=False),
            pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated"),
        ]
    ),
    "spaced": lambda: pre_tokenizers.ByteLevel(add_prefix_space=True),
}
WHOLE_WORDS = ("llama-bpe", "tekken", "minicpm5")
SPACES = normalizers.Replace(" ", "▁")
CHARACTERS: dict[str, tuple[Any, Any, bool]] = {  # normalizer, pre-tokenizer, strips a space
    "llama": (normalizers.Sequence([normalizers.Prepend("▁"), SPACES]), None, True),
    "gemma": (SPACES, pre_tokenizers.Split(" ", "merged_with_previous"), False),
    "mistral": (None, pre_tokenizers.Metaspace(prepend_scheme="first", split=False), True),
    "legacy": (None, pre_tokenizers.Metaspace(prepend_scheme="always", split=False), True),
    "bare": (None, pre_tokenizers.Metaspace(prepend_scheme="never", split=False), False),
    "cut": (None, pre_tokenizers.Metaspace(prepend_scheme="first", split=True), True),
    "cut always": (None, pre_tokenizers.Metaspace(prepend_scheme="always"), False),
    "yi": (SPACES, None, True),
}
ALL = (*BYTE_LEVEL, *CHARACTERS)


def added(text: str, **flags: bool) -> AddedToken:
    return AddedToken(text, **{"normalized": False, **flags})


def make(name: str, tokens: Sequence[AddedToken] = (), *, size: int = 700) -> Tokenizer:
    """Trained on the corpus; the markers are special, `tokens` are what their flags say."""
    made = byte_level(name, size) if name in BYTE_LEVEL else characters(name, size)
    made.add_special_tokens([added(one, special=True) for one in MARKERS])
    for token in tokens:
        (made.add_special_tokens if token.special else made.add_tokens)([token])
    return made


def byte_level(name: str, size: int) -> Tokenizer:
    made = Tokenizer(models.BPE(ignore_merges=name in WHOLE_WORDS))
    made.pre_tokenizer = BYTE_LEVEL[name]()
    made.decoder = decoders.ByteLevel()
    made.post_processor = processors.ByteLevel(trim_offsets=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=alphabet, show_progress=False, min_frequency=1
    )
    made.train_from_iterator(training(), trainer)
    return made


def characters(name: str, size: int) -> Tokenizer:
    """All bytes have pieces; of characters, only those that are common."""
    names = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256))]
    made = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    normalizer, pre_tokenizer, strips = CHARACTERS[name]
    if normalizer is not None:
        made.normalizer = normalizer
    if pre_tokenizer is not None:
        made.pre_tokenizer = pre_tokenizer
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=names, limit_alphabet=90, show_progress=False
    )
    made.train_from_iterator(training(), trainer)
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    made.decoder = decoders.Sequence([*steps, *([decoders.Strip(" ", 1, 0)] if strips else [])])
    document = json.loads(made.to_str())
    # Bytes are pieces of the model, and no text is one of them.
    document["added_tokens"] = document["added_tokens"][:1]
    return Tokenizer.from_str(json.dumps(document))


def training() -> list[str]:
    return [*corpus(400, seed=11), *("the cat sat on the mat; x = f(12) " * 3).split("; ")]


def with_start(made: Tokenizer, name: str = "<s>") -> Tokenizer:
    made.post_processor = processors.TemplateProcessing(
        single=f"{name} $A", special_tokens=[(name, made.token_to_id(name))]
    )
    return made


TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def folder_of(tiny: Path, folder: Path, **generation: Any) -> Path:
    """A tiny model with a tokenizer and a template. `generation`: of generation_config.json."""
    shutil.copytree(tiny, folder, ignore=shutil.ignore_patterns("expected.npz"))
    save(make("gpt-2", size=376), folder)
    config = {"bos_token": None, "eos_token": {"content": "<|im_end|>"}, "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "generation_config.json").write_text(json.dumps(generation))
    return folder


def save(made: Tokenizer, folder: Path, change: Callable[[dict], None] | None = None) -> Path:
    """As tokenizer.json of the folder. `change` edits its object first."""
    path = folder / "tokenizer.json"
    document = json.loads(made.to_str())
    if change is not None:
        change(document)
    path.write_text(json.dumps(document, ensure_ascii=False))
    return path
