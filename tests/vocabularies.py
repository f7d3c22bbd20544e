"""Small vocabularies and hard texts for the tests of the tokenizer."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from pyrite.formats.checkpoint import StringTable, TokenizerData

NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = range(1, 7)

# Pieces that pre-tokenizers, merges and markers have stumbled over.
ATOMS = (
    *(
        " ",
        "  ",
        "   ",
        "\t",
        "\n",
        "\r\n",
        "\r",
        "\x00",
        "\x1c",
        "\x85",
        "\xa0",
        "\u3000",
        "\u2028",
    ),
    *("'s", "'S", "'ſx", "'LL", "'ll", "'re", "'", "don't", "a", "B", "Hello", "wORLD", "éa", "É"),
    *(
        "e\u0301",
        "\u0301",
        "z\u0308",
        "ǅ",
        "ʰ",
        "ß",
        "İ",
        "漢字",
        "北京市",
        "あいう",
        "ー",
        "한국어",
    ),
    *(
        "1",
        "22",
        "4567",
        "3.14",
        "1234567",
        "١٢٣",
        "½ ¼",
        "Ⅷ",
        "!",
        "?!",
        "/",
        "//",
        "__",
        "`",
        "$",
    ),
    *(
        "+",
        "<|",
        "|>",
        "😀",
        "👨‍👩‍👧",
        "👩🏽‍🚀",
        "\u200d",
        "\ufe0f",
        "\ufeff",
        "שלום",
        "مرحبا",
        "ہ",
        "हिन्दी",
    ),
    *(
        "ไทย",
        "\U0001d400",
        "\u0378",
        "…",
        "«",
        "€",
        "।",
        "def f(x):\n    return x\n",
        "<s>",
        "\u2581",
    ),
)


def corpus(lines: int, seed: int = 0) -> list[str]:
    choose = random.Random(seed)
    return ["".join(choose.choices(ATOMS, k=choose.randint(1, 16))) for _ in range(lines)]


def table(strings: Sequence[bytes]) -> StringTable:
    lengths = np.array([len(item) for item in strings], np.int32)
    starts = np.cumsum(lengths, dtype=np.int64) - lengths
    return StringTable(np.frombuffer(b"".join(strings), np.uint8), starts, lengths)


def byte_alphabet() -> list[str]:
    """The character of each byte in byte-level vocabularies (GPT-2's encoder.py)."""
    prints = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in prints else next(others)) for byte in range(256)]


def byte_level(
    merges: Sequence[str] = (),
    markers: Sequence[tuple[str, int]] = (),
    *,
    pre: str | None = "gpt-2",
    **fields,
) -> TokenizerData:
    """All bytes, what the merges make, and the markers, in this order. Merges are "left right"."""
    pieces = [*byte_alphabet(), *(merge.replace(" ", "") for merge in merges)]
    types = [NORMAL] * len(pieces) + [kind for _, kind in markers]
    pieces += [name for name, _ in markers]
    return TokenizerData(
        model="bpe",
        pre=pre,
        tokens=table([piece.encode() for piece in pieces]),
        types=np.array(types, np.int32),
        scores=None,
        merges=table([merge.encode() for merge in merges]),
        **fields,
    )


def sentence_piece(
    pieces: Sequence[tuple[str, float]], markers: Sequence[tuple[str, int]] = (), **fields
) -> TokenizerData:
    """<unk>, all bytes, the scored pieces and the markers, in this order."""
    names = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), *(name for name, _ in pieces)]
    types = [UNKNOWN] + [BYTE] * 256 + [NORMAL] * len(pieces) + [kind for _, kind in markers]
    scores = [0.0] * 257 + [score for _, score in pieces] + [0.0] * len(markers)
    names += [name for name, _ in markers]
    return TokenizerData(
        model="spm",
        pre=None,
        tokens=table([name.encode() for name in names]),
        types=np.array(types, np.int32),
        scores=np.array(scores, np.float32),
        merges=None,
        unknown_id=0,
        **fields,
    )
