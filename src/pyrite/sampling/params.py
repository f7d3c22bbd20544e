"""The sampling parameters of one request: validated wholly at construction, then frozen.

The bounds are the table in `limits.py`. Knows no model: ids are checked against one by
`check_vocabulary`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, fields, replace
from numbers import Integral, Real
from typing import Any

from pyrite.errors import ParameterError
from pyrite.records import dataclass
from pyrite.sampling import limits
from pyrite.sampling.grammar import Grammar
from pyrite.sampling.limits import BIAS, RANGES, TOKEN_ID, Range


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """Names are the field's standard ones (OpenAI, vLLM, llama.cpp). Defaults change nothing.

    Lists become tuples, a single stop string a tuple of one, and the bias a dict of our own. Raises
    ParameterError for a value of the wrong type or out of range; nothing is clamped.
    """

    max_tokens: int | None = None  # None: until the context is full; 0: prompt_logprobs alone
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
    prompt_logprobs: int | None = None  # the same of the prompt's tokens; the first has none
    skip_special_tokens: bool = True
    shown_token_ids: tuple[int, ...] = ()  # special, and text all the same
    include_stop: bool = False
    grammar: Grammar | None = None  # the output follows it to its end, which ends the request

    def __post_init__(self) -> None:
        for name, bounds in RANGES.items():
            self._set(name, _number(name, getattr(self, name), bounds))
        for name in ("ignore_eos", "skip_special_tokens", "include_stop"):
            _check_flag(name, getattr(self, name))
        self._set("stop", _stops(self.stop))
        self._set("dry_breakers", _breakers(self.dry_breakers))
        for name in ("stop_token_ids", "shown_token_ids"):
            self._set(name, _ids(name, getattr(self, name)))
        self._set("logit_bias", _bias(self.logit_bias))
        if self.max_tokens == 0 and self.prompt_logprobs is None:
            hint = "without an answer, ask for the prompt's log-probabilities"
            raise ParameterError("max_tokens", 0, "at least 1", hint=hint)
        if not isinstance(self.grammar, (Grammar, type(None))):
            raise ParameterError("grammar", self.grammar, "a Grammar, or none")
        if self.grammar and self.ignore_eos:
            raise ParameterError("ignore_eos", True, "false with a grammar, whose end is the end")
        if self.max_tokens is not None and self.min_tokens > self.max_tokens:
            limit = f"at most max_tokens ({self.max_tokens})"
            raise ParameterError("min_tokens", self.min_tokens, limit)

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    @property
    def greedy(self) -> bool:
        return self.temperature < limits.GREEDY_BELOW


def check_vocabulary(params: SamplingParams, vocab_size: int) -> None:
    """Raises ParameterError for an id that the model's output has no row for.

    `vocab_size` is the width of the logits, which may be more than the tokenizer's count of ids.
    """
    below = f"token ids below the vocabulary's {vocab_size}"
    for token_id in params.logit_bias:
        if token_id >= vocab_size:
            raise ParameterError("logit_bias", token_id, below)
    for token_id in params.stop_token_ids:
        if token_id >= vocab_size:
            raise ParameterError("stop_token_ids", token_id, below)


def _number(name: str, value: object, bounds: Range, limit: str = "") -> int | float | None:
    if value is None and bounds.optional:
        return None
    kind = Integral if bounds.whole else Real
    if isinstance(value, bool) or not isinstance(value, kind):
        raise ParameterError(name, value, limit or str(bounds))
    # Compared before it is converted: a Python integer may be too large for a float.
    if not bounds.low <= value <= bounds.high:  # type: ignore[operator]
        raise ParameterError(name, value, limit or str(bounds))
    return int(value) if bounds.whole else float(value)  # type: ignore[call-overload]


def _check_flag(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise ParameterError(name, value, "true or false")


def _stops(value: object) -> tuple[str, ...]:
    texts = (value,) if isinstance(value, str) else value
    return _strings("stop", texts, limits.MAX_STOPS, limits.MAX_STOP_LENGTH)


def _breakers(value: object) -> tuple[str, ...]:
    return _strings("dry_breakers", value, limits.MAX_BREAKERS, limits.MAX_BREAKER_LENGTH)


def _strings(name: str, value: object, count: int, length: int) -> tuple[str, ...]:
    texts = _sequence(name, value, count, "strings")
    for text in texts:
        if not isinstance(text, str) or not 0 < len(text) <= length:
            raise ParameterError(name, text, f"strings of 1 to {length} characters")
        if not _encodable(text):
            raise ParameterError(name, text, "valid Unicode: it holds half of a surrogate pair")
    return tuple(str(text) for text in texts)


def _encodable(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _ids(name: str, value: object) -> tuple[int, ...]:
    ids = _sequence(name, value, limits.MAX_STOP_IDS, "token ids")
    return tuple(_token_id(name, token_id) for token_id in ids)


def _sequence(name: str, value: object, count: int, what: str) -> Sequence[object]:
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes, bytearray)):
        raise ParameterError(name, value, f"a list of {what}")
    if len(value) > count:
        raise ParameterError(name, f"{len(value)} entries", f"at most {count} entries")
    return value


def _bias(value: object) -> dict[int, float]:
    if not isinstance(value, Mapping):
        raise ParameterError("logit_bias", value, "a mapping of token ids to numbers")
    if len(value) > limits.MAX_BIAS_ENTRIES:
        limit = f"at most {limits.MAX_BIAS_ENTRIES} entries"
        raise ParameterError("logit_bias", f"{len(value)} entries", limit)
    return {_token_id("logit_bias", key): _bias_value(item) for key, item in value.items()}


def _token_id(name: str, value: object) -> int:
    return int(_entry(name, value, TOKEN_ID, "token ids"))


def _bias_value(value: object) -> float:
    return float(_entry("logit_bias", value, BIAS, "values"))


def _entry(name: str, value: object, bounds: Range, what: str) -> int | float:
    number = _number(name, value, bounds, f"{what}, each {bounds}")
    assert number is not None
    return number


def sampling_params(params: SamplingParams | None, given: Mapping[str, Any]) -> SamplingParams:
    """`params`, or the defaults, with the given fields. Raises ParameterError."""
    known = [one.name for one in fields(SamplingParams)]
    for name, value in given.items():
        if name not in known:
            import difflib

            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
            raise ParameterError(name, value, "absent: there is no such parameter", hint=hint)
    return replace(params or SamplingParams(), **given)
