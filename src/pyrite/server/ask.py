"""One internal request over which every dialect speaks, and the events that answer it.

A dialect turns JSON into an `Ask`, and events into JSON. Plain values; knows no HTTP and no engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pyrite.request import PositionLogprobs, PrefixMiss, Timings, Usage
from pyrite.sampling.params import SamplingParams
from pyrite.text.answer import Piece

Reason = Literal["stop", "length", "tool_calls"]
NEUTRAL: Mapping[str, Any] = {}  # fields of SamplingParams where nobody recommends any


@dataclass(frozen=True, slots=True)
class NamedTool:
    """The one function that must be called."""

    name: str


ToolChoice = Literal["auto", "none", "required"] | NamedTool


@dataclass(frozen=True, slots=True)
class ChatAsk:
    """A conversation to be answered. Messages, tools and calls are in the shape of OpenAI's chat
    completions, whatever the dialect: `{"type": "function", "function": {...}}`.

    `params.grammar` constrains the content; with tools or reasoning it is woven together with
    theirs. Filled by the dialects.
    """

    messages: Sequence[Mapping[str, Any]]
    params: SamplingParams
    tools: Sequence[Mapping[str, Any]] = ()
    tool_choice: ToolChoice = "auto"
    parallel_tool_calls: bool = True
    n: int = 1
    continue_final_message: bool = False  # the answer goes on with the last message
    template_options: Mapping[str, Any] = field(default_factory=dict)  # allow-listed already
    priority: int = 0
    cache_salt: str = ""
    explain_cache: bool = False
    adapter: str = ""  # of the model, by name


@dataclass(frozen=True, slots=True)
class TextAsk:
    """A prompt to be continued: text, or token ids as they are."""

    prompt: str | tuple[int, ...]
    params: SamplingParams
    suffix: str | None = None  # what comes after the answer, for models with fill-in tokens
    n: int = 1
    best_of: int = 1  # answers drawn, of which the n likeliest are given
    priority: int = 0
    cache_salt: str = ""
    explain_cache: bool = False
    adapter: str = ""  # of the model, by name


Ask = ChatAsk | TextAsk


def adapted(asks: Sequence[Any], adapter: str) -> list[Any]:
    """The same for an adapter of the model."""
    return [replace(ask, adapter=adapter) for ask in asks] if adapter else list(asks)


@dataclass(frozen=True, slots=True)
class Started:
    """A prompt has been computed; comes once an ask, before every `Part` of its choices.

    `usage` has no answer yet; `choice` is the first one of the ask.
    """

    usage: Usage
    choice: int = 0
    prompt_ids: tuple[int, ...] = ()
    prompt_logprobs: tuple[PositionLogprobs | None, ...] = ()
    miss: PrefixMiss | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """What one step added to one choice. A TextAsk's pieces are all `Content`."""

    choice: int
    pieces: tuple[Piece, ...]
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[PositionLogprobs, ...] = ()


@dataclass(frozen=True, slots=True)
class Ended:
    """The last event of one choice. What fails raises instead, a PyriteError.

    `stopped_by` is the stop string or stop id of the request that ended it, if one did.
    """

    choice: int
    reason: Reason
    usage: Usage
    timings: Timings
    stopped_by: str | int | None = None


Event = Started | Part | Ended
