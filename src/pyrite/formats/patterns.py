"""Patterns of byte-level pre-tokenizers, as tokenizer.json files spell them, and their names.

A name is one of the native core's splitters (`native/text/split.cpp`), which equals the patterns.

Source: the tokenizer.json files of published models.
"""

from __future__ import annotations

CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LEAD = r"[^\r\n\p{L}\p{N}]?"
UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
LINES = r"\s*[\r\n]+|\s+(?!\S)|\s+"


def cl100k(numbers: str) -> str:
    return rf"{CONTRACTION}|{LEAD}\p{{L}}+|{numbers}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{LINES}"


def o200k(numbers: str, suffix: str) -> str:
    words = f"{LEAD}{UPPER}*{LOWER}+{suffix}|{LEAD}{UPPER}+{LOWER}*{suffix}"
    return rf"{words}|{numbers}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{LINES}"


GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
QWEN35 = (
    rf"{CONTRACTION}|{LEAD}[\p{{L}}\p{{M}}]+|\p{{N}}"
    rf"| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{LINES}"
)
DEEPSEEK3 = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    rf"| ?[\p{{P}}\p{{S}}]+[\r\n]*|{LINES}"
)
SEED_CODER = rf"{CONTRACTION}|{LEAD}\p{{L}}+|\p{{N}}{{1}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|{LINES}"
SUPERWORD = r"(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+"
EXAONE_MOE = (
    rf"{CONTRACTION}|{LEAD}{SUPERWORD}|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]?|\s*[\r\n]"
    r"|\s+(?!\S)|\s+"
)
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"
NUMBER, NUMBERS = r"\p{N}", r"\p{N}{1,3}"
HAN_AND_HANGUL = "[一-龥ࠀ-一가-퟿]+"
CASED = (
    "A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚ"
    "Ḁ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻ"
    "Ȿ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃"
)
DEEPSEEK = (
    r"[\r\n]",
    rf"\s?[{CASED}]+",
    "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
    r"\s+$",
    HAN_AND_HANGUL,
    NUMBER,
)


def tiktoken(numbers: str) -> str:
    """cl100k as OpenAI's own file spells it."""
    return (
        rf"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{{L}}\p{{N}}]?+\p{{L}}+|{numbers}"
        r"| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
    )


# Other spellings of the same: nothing is given back where something possessive has matched.
SPELLINGS = {
    tiktoken(NUMBER): cl100k(NUMBER),
    tiktoken(NUMBERS): cl100k(NUMBERS),
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+": GPT2,
    r"\p{N}{1}": NUMBER,
}

# The patterns of a pre-tokenizer, in order -> its name in GGUF files (native/text/split.cpp).
SPLITTERS: dict[tuple[str, ...], str] = {
    (GPT2,): "gpt-2",
    (NUMBER, GPT2): "smollm",
    (cl100k(NUMBER),): "qwen2",
    (cl100k(NUMBERS),): "dbrx",
    (QWEN35,): "qwen35",
    (o200k(NUMBERS, CONTRACTION + "?"),): "gpt-4o",
    (o200k(NUMBER, ""),): "tekken",
    (NUMBERS, "[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK3): "deepseek-v3",
    (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", HAN_AND_HANGUL, NUMBER): "deepseek-coder",
    DEEPSEEK: "deepseek-llm",
    (SEED_CODER,): "seed-coder",
    (EXAONE_MOE,): "exaone-moe",
    (NUMBERS, cl100k(r"\p{N}+")): "minicpm5",
    (BLOOM,): "bloom",
    (BLOOM, NUMBER): "viking",
}
WHOLE_WORDS = {"dbrx": "llama-bpe"}  # the name where a word that is a token is taken as it is
