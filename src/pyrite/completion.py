"""An answer as a whole: the deltas of one request, joined."""

from __future__ import annotations

from collections.abc import Iterable

from pyrite.records import dataclass
from pyrite.request import Delta, FinishReason, PositionLogprobs, Timings, Usage
from pyrite.text.answer import CallArguments, CallStart, Content, Piece, Reasoning


@dataclass(frozen=True, slots=True)
class ToolCall:
    """`arguments` is JSON text: an object, unless the answer broke off inside it."""

    call_id: str
    name: str
    arguments: str


class Completion(str):
    """The answer's text, which is a `str`, and how it came about. A chat's text is its content;
    `reasoning` and `tool_calls` are what else was in the answer.

    `token_ids` are all tokens that were sampled; the last may be the one that stopped it, which is
    no text. `logprobs` has one entry a token when they were asked for. `error` is set when
    `finish_reason` is "error"; the text is what came before it.
    """

    token_ids: tuple[int, ...]
    logprobs: tuple[PositionLogprobs, ...]
    finish_reason: FinishReason
    usage: Usage
    timings: Timings
    error: Exception | None
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()

    @property
    def text(self) -> str:
        return str(self)


def join(deltas: Iterable[Delta]) -> Completion:
    """`deltas` are all of one request, from the first to the one that ends it."""
    parts = list(deltas)
    last = parts[-1]
    assert last.finish_reason is not None, last
    assert last.usage is not None, last
    assert last.timings is not None, last
    whole = Completion("".join(delta.text for delta in parts))
    whole.token_ids = tuple(token for delta in parts for token in delta.token_ids)
    whole.logprobs = tuple(entry for delta in parts for entry in delta.logprobs)
    whole.finish_reason = last.finish_reason
    whole.usage = last.usage
    whole.timings = last.timings
    whole.error = last.error
    return whole


def sorted_out(whole: Completion, pieces: Iterable[Piece]) -> Completion:
    """The completion of a chat, from that of its raw text and the pieces of the text."""
    content: list[str] = []
    reasoning: list[str] = []
    calls: list[tuple[CallStart, list[str]]] = []
    for piece in pieces:
        match piece:
            case Content(text):
                content.append(text)
            case Reasoning(text):
                reasoning.append(text)
            case CallStart():
                calls.append((piece, []))
            case CallArguments(index, text):
                calls[index][1].append(text)
    answer = Completion("".join(content))
    answer.__dict__.update(whole.__dict__)
    answer.reasoning = "".join(reasoning)
    answer.tool_calls = tuple(
        ToolCall(start.call_id, start.name, "".join(texts)) for start, texts in calls
    )
    return answer
