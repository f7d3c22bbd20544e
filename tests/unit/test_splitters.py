"""Pre-tokenizers: our scanners against the published patterns, run by a regex engine."""

from __future__ import annotations

import pytest
from tokenizers import Regex, pre_tokenizers

from pyrite._native import text as native
from vocabularies import corpus

CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LEAD = r"[^\r\n\p{L}\p{N}]?"
UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
BLANK = r"\s*[\r\n]+|\s+(?!\S)|\s+"


def cl100k(numbers: str) -> str:
    return rf"{CONTRACTION}|{LEAD}\p{{L}}+|{numbers}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{BLANK}"


def o200k(numbers: str, suffix: str) -> str:
    words = f"{LEAD}{UPPER}*{LOWER}+{suffix}|{LEAD}{UPPER}+{LOWER}*{suffix}"
    return rf"{words}|{numbers}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{BLANK}"


QWEN35 = (
    rf"{CONTRACTION}|{LEAD}[\p{{L}}\p{{M}}]+|\p{{N}}"
    rf"| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{BLANK}"
)
DEEPSEEK3 = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    rf"| ?[\p{{P}}\p{{S}}]+[\r\n]*|{BLANK}"
)
BLOOM = r" ?[^(\s|.,!?…。，、।۔،)]+"
PATTERNS = {
    "gpt-2": [GPT2],
    "smollm": [r"\p{N}", GPT2],
    "qwen2": [cl100k(r"\p{N}")],
    "llama-bpe": [cl100k(r"\p{N}{1,3}")],
    "qwen35": [QWEN35],
    "gpt-4o": [o200k(r"\p{N}{1,3}", CONTRACTION + "?")],
    "tekken": [o200k(r"\p{N}", "")],
    "deepseek-v3": [r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK3],
    "deepseek-llm": [
        r"[\r\n]",
        r"\s?[\p{Lu}\p{Ll}\p{Lt}&&[^\x{560}-\x{588}\x{10D0}-\x{10FF}"
        r"\x{A790}-\x{A7FA}\x{1D400}-\x{1D7CB}]]+",
        r"\s?[!-/:-~！-／：-～‘-‟\x{3000}-。]+",
        r"\s+$",
        "[一-龥ࠀ-一가-퟿]+",
        r"\p{N}",
    ],
    "seed-coder": [
        rf"{CONTRACTION}|{LEAD}\p{{L}}+|\p{{N}}{{1}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|{BLANK}"
    ],
    "bailingmoe": [
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*"
        r"|\s*[\r\n]|\s+(?!\S)|\s+"
    ],
    "minicpm5": [r"\p{N}{1,3}", cl100k(r"\p{N}+")],
    "exaone-moe": [
        rf"{CONTRACTION}|{LEAD}(?:\p{{L}}\p{{M}}*(?: \p{{L}}\p{{M}}*)*)+|\p{{N}}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"
    ],
    "longcat": [
        cl100k(r"\p{N}"),
        " ?[！-／：-～‘-‟\u3000-。《》「」【】]+",
        "[一-龥ࠀ-一가-퟿]+",
    ],
    "youtu": [
        "[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+",
        o200k(r"\p{N}", CONTRACTION + "?"),
    ],
    "bloom": [BLOOM],
    "viking": [BLOOM, r"\p{N}"],
    "deepseek-coder": [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+", r"\p{N}"],
    "falcon": [r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"],
    "default": [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"],
}


# What ranges of code points begin and end with, and superwords.
MORE = [
    "「引用」《书》【注】，。、！：；…—“x” ‘y’ （全角） ～ ＡＢｃ １２３ \u3000。 、",
    "ㄅㄆㄇ ㄱㆎ 가힣 ︰﹏ 〿 ー ゟ゠ヿ 龥龦 ࠀ ퟿ 一x",
    "one two  three e\u0301 f\u0301 g\nhi/\n //\r\n a b1 c",
    "(a|b).c,d!e?f …g 。h ，i、j ।k ۔l ،m  n ",
    "a \n b\t\r\n \n  ",
    "Ωmega ΏѾѿ Ԁ ԯ Աև ա ა Ა ᴀ ᶚ ᶜ Ḁ ὕ Ὗ ῼ ℂ ℓ K Å ⅎ Ↄ Ⰰ ⳤ Ꙁ ꞎ Ɡ ꭰ ﬀ ﬗ 𐐀 𐓻 𞤀 𝐀 ªº ƻ ʔ",
]


def words(text: str, splitter: str) -> list[str]:
    data = text.encode()
    ends = native.word_ends(data, splitter).tolist()
    return [
        data[start:end].decode(errors="surrogateescape")
        for start, end in zip([0, *ends], ends, strict=False)
    ]


@pytest.mark.parametrize("name", PATTERNS)
def test_splitter_equals_its_pattern(name):
    stages = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in PATTERNS[name]]
    reference = pre_tokenizers.Sequence(stages)
    for text in [*corpus(3000, seed=1), *MORE]:
        expected = [word for word, _ in reference.pre_tokenize_str(text)]
        assert words(text, name) == expected, repr(text)


def test_classes_equal_the_regex_engine_for_every_letter():
    """The same version of Unicode on both sides: no letter is punctuation to one of them."""
    letters = pre_tokenizers.Split(Regex(r"\p{L}+"), "isolated")
    plane = [chr(code) for code in range(0x21, 0x32000) if not 0xD800 <= code < 0xE000]
    text = "".join(f"{char} " for char in plane)
    cut_after = {word for word, _ in letters.pre_tokenize_str(text) if len(word) == 1}
    for char in plane:
        is_letter = words(f"a{char}", "gpt-2") == [f"a{char}"]
        assert is_letter == (char in cut_after), hex(ord(char))


@pytest.mark.parametrize("name", native.splitter_names().split(", "))
def test_words_cover_the_text(name):
    for text in corpus(50, seed=2):
        joined = "".join(words(text, name)).encode(errors="surrogateescape")
        assert joined.decode() == text


@pytest.mark.parametrize("name", native.splitter_names().split(", "))
@pytest.mark.timeout(60)
def test_long_runs_are_looked_through_once(name):
    """Looking on from each place of them would take minutes."""
    for atom in (
        " ",
        "\u3000",
        "\n",
        " \n",
        "a",
        "A",
        "1",
        "!",
        "'",
        "漢",
        "é",
        "\u0301",
        " a",
        "a ",
    ):
        for last in ("", "1", "漢", "x", "!"):
            text = (atom * 250_000 + last).encode()
            assert native.word_ends(text, name)[-1] == len(text)


@pytest.mark.parametrize("name", native.splitter_names().split(", "))
def test_invalid_utf8_is_cut_without_loss(name):
    data = b"ab\xe6\xad \xff\xfe12\xf0\x9f\x98 \xc0\x80 \xed\xa0\x80z\xe6"
    ends = native.word_ends(data, name).tolist()
    assert ends == sorted(set(ends))
    assert ends[-1] == len(data)


def test_names_are_sorted_and_unique():
    names = native.splitter_names().split(", ")
    assert names == sorted(set(names))


def test_unknown_name_is_refused():
    with pytest.raises(ValueError, match="no such pre-tokenizer"):
        native.word_ends(b"x", "nobody")
