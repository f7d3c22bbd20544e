"""The sampling parameters of one request: validated wholly at construction, then frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """Names are the field's standard ones (OpenAI, vLLM, llama.cpp). Defaults change nothing.

    Raises ParameterError for a value out of range.
    """

    max_tokens: int | None = None  # None: until the context is full
    temperature: float = 1.0  # 0 is greedy
    top_k: int = 0  # 0: all
    top_p: float = 1.0
    min_p: float = 0.0
    typical_p: float = 1.0
    repetition_penalty: float = 1.0  # once for each distinct id of prompt and output
    presence_penalty: float = 0.0  # output only
    frequency_penalty: float = 0.0  # output only
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_range: int = -1  # tokens looked back on; -1: all
    dry_breakers: tuple[str, ...] = ("\n", ":", '"', "*")
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    seed: int | None = None  # None: a fresh one each time
    min_tokens: int = 0
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    logprobs: int | None = None  # 0: the sampled token alone; k: and the k likeliest
    skip_special_tokens: bool = True
    include_stop: bool = False
