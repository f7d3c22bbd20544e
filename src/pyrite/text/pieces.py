"""What a piece of a vocabulary stands for, in bytes: in each of the ways that pieces are written.

For vocabularies that the native tokenizer does not hold. Knows no text but a single piece's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

BYTE_PIECE = re.compile(r"<0x([0-9A-F]{2})>")


def reader_of(steps: Sequence[Mapping[str, Any]]) -> Callable[[str], bytes]:
    """By the steps of a tokenizer.json's decoder; without any, pieces are words apart."""
    kinds = {step.get("type"): step for step in steps}
    if "ByteLevel" in kinds:
        return byte_level
    if "WordPiece" in kinds:
        prefix = kinds["WordPiece"].get("prefix", "##")
        return lambda text: word_piece(text, prefix)
    if "BPEDecoder" in kinds:
        suffix = kinds["BPEDecoder"].get("suffix", "</w>")
        return lambda text: text.replace(suffix, " ").encode()
    return bounded if kinds else lambda text: (" " + text).encode()


def byte_level(text: str) -> bytes:
    if all(character in ALPHABET for character in text):
        return bytes(ALPHABET[character] for character in text)
    return text.encode()


def word_piece(text: str, prefix: str) -> bytes:
    return (text.removeprefix(prefix) if text.startswith(prefix) else " " + text).encode()


def bounded(text: str) -> bytes:
    byte = BYTE_PIECE.fullmatch(text)
    return bytes.fromhex(byte[1]) if byte else text.replace("\u2581", " ").encode()


def _alphabet() -> dict[str, int]:
    """Of byte-level vocabularies (GPT-2's encoder.py)."""
    prints = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = (byte for byte in range(256) if byte not in prints)
    return {chr(byte): byte for byte in prints} | {
        chr(0x100 + index): byte for index, byte in enumerate(others)
    }


ALPHABET = _alphabet()
