"""Stands in for the tokenizer of a model that brings none: ids go in and ids come out.

Texts are refused, and every token's own text is empty.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import cached_property
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from pyrite.errors import NoTokenizerError
from pyrite.text.tokenizer import Tokenizer

NO_TOKENIZER = (
    "the model holds no tokenizer (a folder has tokenizer.json or tokenizer.model, a GGUF file "
    "tokenizer.ggml.tokens): only token ids go in and come out"
)
logger = logging.getLogger("pyrite")


class IdsOnly(Tokenizer):
    """A vocabulary of `size` ids without names; `eos_ids` end an answer."""

    def __init__(self, size: int, eos_ids: tuple[int, ...] = ()) -> None:
        self._size = size
        self._eos_ids = tuple(token_id for token_id in eos_ids if 0 <= token_id < size)
        self.pre = ""
        self.warnings = (NO_TOKENIZER,)
        logger.warning(NO_TOKENIZER)

    has_texts = False

    @property
    def vocab_size(self) -> int:
        return self._size

    @property
    def bos_id(self) -> None:
        return None

    @property
    def eos_ids(self) -> tuple[int, ...]:
        return self._eos_ids

    @cached_property
    def fingerprint(self) -> str:
        return f"{self._size} ids, ended by {self._eos_ids}"

    def control_id(self, name: str) -> None:
        return None

    def marker_id(self, name: str) -> None:
        return None

    @cached_property
    def special_ids(self) -> list[int]:
        return []

    def encode_whole(self, text: str, *, special: bool = False) -> NoReturn:
        self._refuse()

    def encode_bytes(self, text: bytes, *, special: bool = False, bos: bool = False) -> NoReturn:
        self._refuse()

    def encode_segments(
        self, segments: Sequence[tuple[str, bool]], *, bos: bool = False
    ) -> NoReturn:
        self._refuse()

    def decode_bytes(
        self, ids: Sequence[int] | NDArray[np.integer], *, skip_special: bool = True
    ) -> NoReturn:
        self._refuse()

    def token_bytes(self, token_id: int) -> bytes:
        self._checked_id(token_id)
        return b""

    def is_special(self, token_id: int) -> bool:
        self._checked_id(token_id)
        return False

    def _refuse(self) -> NoReturn:
        raise NoTokenizerError(
            "the model holds no tokenizer that is read here: only token ids go in and come out",
            hint="give token ids, or put the tokenizer's files beside the weights (tokenizer.json, "
            "tokenizer_config.json), and convert again where it is a GGUF file",
        )
