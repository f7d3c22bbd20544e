"""The sampling fields that chat completions and completions share, and what they become."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyrite.errors import ParameterError
from pyrite.sampling.params import SamplingParams
from pyrite.server.openai.formats import Formats

# Fields that have the same name and meaning in SamplingParams.
SAME = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "typical_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "dry_multiplier",
    "dry_base",
    "dry_allowed_length",
    "xtc_probability",
    "xtc_threshold",
    "seed",
    "min_tokens",
    "stop_token_ids",
    "ignore_eos",
    "skip_special_tokens",
)


class Sampling(Formats, kw_only=True):
    """Numbers are judged by SamplingParams, which names their limits."""

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    typical_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    dry_multiplier: float | None = None
    dry_base: float | None = None
    dry_allowed_length: int | None = None
    xtc_probability: float | None = None
    xtc_threshold: float | None = None
    logit_bias: dict[str, float] | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    min_tokens: int | None = None
    ignore_eos: bool | None = None
    skip_special_tokens: bool | None = None
    include_stop_str_in_output: bool | None = None

    def given(self) -> dict[str, Any]:
        """Keywords of SamplingParams. Raises ParameterError."""
        fields: dict[str, Any] = {name: getattr(self, name) for name in SAME}
        fields["include_stop"] = self.include_stop_str_in_output
        fields["max_tokens"] = self.max_tokens
        fields["stop"] = stops(self.stop)
        fields["logit_bias"] = bias(self.logit_bias)
        fields["grammar"] = self.grammar()
        return {name: value for name, value in fields.items() if value is not None}


def stops(stop: str | list[str] | None) -> tuple[str, ...] | None:
    if stop is None:
        return None
    return (stop,) if isinstance(stop, str) else tuple(stop)


def bias(given: dict[str, float] | None) -> dict[int, float] | None:
    if given is None:
        return None
    for token_id in given:
        if not (token_id.isascii() and token_id.isdigit() and len(token_id) <= 10):
            raise ParameterError("logit_bias", token_id, "an object with token ids as its keys")
    return {int(token_id): value for token_id, value in given.items()}


def params_of(fields: Mapping[str, Any], defaults: Mapping[str, Any]) -> SamplingParams:
    """`defaults`: of what the request does not state."""
    return SamplingParams(**{**defaults, **fields})
