"""How models mark their reasoning, and whether a prompt has already opened it. A table of rows.

Knows no tool call; `answers` takes the two apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReasoningFormat:
    """Reasoning stands between `begin` and `end`, at the beginning of an answer.

    `wrappers` may enclose the content that follows it, and are no part of it. `signs`: what a
    template of this family has written in it, besides `end`.
    """

    name: str
    begin: str
    end: str
    wrappers: tuple[str, ...] = ()
    inner: tuple[str, ...] = ()  # further markers that must be visible
    signs: tuple[str, ...] = ()
    channels: bool = False

    @property
    def markers(self) -> tuple[str, ...]:
        """Every text that must be visible in an answer for its reasoning to be found."""
        return tuple(dict.fromkeys((self.begin, self.end, *self.inner)))


# The first row that fits is taken. Formats: the model cards and chat templates of each family.
FORMATS = (
    ReasoningFormat(
        "harmony",
        "<|channel|>analysis<|message|>",
        "<|end|>",
        inner=("<|start|>", "<|channel|>", "<|message|>", "<|constrain|>"),
        signs=("<|channel|>",),
        channels=True,
    ),
    ReasoningFormat(
        "granite", "<think>", "</think>", ("<response>", "</response>"), signs=("<response>",)
    ),
    ReasoningFormat("think", "<think>", "</think>"),
    ReasoningFormat("mistral", "[THINK]", "[/THINK]"),
    ReasoningFormat(
        "cohere",
        "<|START_THINKING|>",
        "<|END_THINKING|>",
        ("<|START_RESPONSE|>", "<|END_RESPONSE|>"),
    ),
    ReasoningFormat("reasoning", "<reasoning>", "</reasoning>"),
    ReasoningFormat("thinking", "<thinking>", "</thinking>"),
    ReasoningFormat("seed", "<seed:think>", "</seed:think>"),
    ReasoningFormat("exaone", "<thought>", "</thought>"),
    ReasoningFormat("gemma4", "<|channel>thought\n", "<channel|>", inner=("<|channel>",)),
)


def find_reasoning(template_source: str) -> ReasoningFormat | None:
    """The format of the family that a chat template is of; None when it writes no markers."""
    for row in FORMATS:
        if row.end in template_source and all(sign in template_source for sign in row.signs):
            return row
    return None


def starts_in_reasoning(format: ReasoningFormat, prompt: Sequence[tuple[str, bool]]) -> bool:
    """Whether the answer to a prompt goes on with reasoning that the prompt has opened.

    `prompt` is what `chat_segments` returns: only its last segment counts, be it what the template
    wrote, or the beginning of the answer that is to be continued. A marker that a user spelled
    further up changes nothing.
    """
    if not prompt or format.channels:
        return False
    text, trusted = prompt[-1]
    if trusted:
        return text.rstrip().endswith(format.begin.rstrip())
    return text.rfind(format.begin) > text.rfind(format.end)
