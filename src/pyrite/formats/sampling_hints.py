"""How a model's maker would have it sampled: generation_config.json, or GGUF's general.sampling.*.

Names become those that requests use. Whether the numbers are in bounds is judged by who uses them.

Source: the fields of `transformers`' GenerationConfig that vLLM takes as defaults of requests, and
the keys that llama.cpp's converter writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pyrite.errors import FormatError

# Here -> there. `max_new_tokens` is none of them: how long an answer may be is the asker's matter.
FOLDER = {
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "typical_p": "typical_p",
    "repetition_penalty": "repetition_penalty",
}
GGUF = {
    "temperature": "general.sampling.temp",
    "top_k": "general.sampling.top_k",
    "top_p": "general.sampling.top_p",
    "min_p": "general.sampling.min_p",
    "xtc_probability": "general.sampling.xtc_probability",
    "xtc_threshold": "general.sampling.xtc_threshold",
    "repetition_penalty": "general.sampling.penalty_repeat",
}
WHOLE = ("top_k",)


def folder_hints(generation_config: Mapping[str, Any]) -> dict[str, float]:
    """Raises FormatError for what is no number."""
    return _hints(generation_config, FOLDER)


def gguf_hints(metadata: Mapping[str, Any]) -> dict[str, float]:
    """Raises FormatError for what is no number."""
    found = _hints(metadata, GGUF)
    # A float32 in the file: its shortest decimal is the number that was meant.
    return {name: float(str(np.float32(value))) if name not in WHOLE else value
            for name, value in found.items()}  # fmt: skip


def _hints(source: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, key in names.items():
        value = source.get(key)
        if value is None:
            continue
        kinds = int if name in WHOLE else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds):
            raise FormatError(f"{key} = {str(value)[:40]}: must be a number")
        found[name] = value
    if found.get("top_k", 0) < 0:  # -1 is another word for all
        found["top_k"] = 0
    return found
