"""Fill-in-the-middle prompts: what comes before, what comes after, and the model writes between.

The tokens that mark the three are the model's own, found in its file or by their well-known names.
Knows no request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

# GGUF's keys, older ones last; and the names that families give the tokens: Qwen2.5-Coder,
# StarCoder, CodeLlama, DeepSeek-Coder. In the order before, after, middle.
KEYS = (
    ("fim_pre_token_id", "fim_suf_token_id", "fim_mid_token_id"),
    ("prefix_token_id", "suffix_token_id", "middle_token_id"),
)
NAMES = (
    ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
    ("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),
    ("<fim-prefix>", "<fim-suffix>", "<fim-middle>"),
    ("▁<PRE>", "▁<SUF>", "▁<MID>"),
    ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),
)


@dataclass(frozen=True, slots=True)
class Infill:
    """Ids of one model's marks."""

    before: int
    after: int
    middle: int

    def ids(self, prefix: tuple[int, ...], suffix: tuple[int, ...]) -> tuple[int, ...]:
        """The prompt after which the model writes what stands between."""
        return (self.before, *prefix, self.after, *suffix, self.middle)


def find_infill(
    metadata: Mapping[str, Any], control_id: Callable[[str], int | None]
) -> Infill | None:
    """None for a model that has no such tokens."""
    for keys in KEYS:
        found = [metadata.get(f"tokenizer.ggml.{key}") for key in keys]
        if all(isinstance(token_id, int) for token_id in found):
            return Infill(*found)  # type: ignore[arg-type]
    for names in NAMES:
        named = [control_id(name) for name in names]
        if all(token_id is not None for token_id in named):
            return Infill(*named)  # type: ignore[arg-type]
    return None
