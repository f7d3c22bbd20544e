"""From asks to token ids: templates are rendered and texts encoded, long ones in a thread.

Knows no engine and no dialect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from pyrite.config import Settings
from pyrite.errors import ParameterError
from pyrite.formats.checkpoint import Checkpoint
from pyrite.formats.vocabulary import require_tokenizer
from pyrite.llm import in_turn
from pyrite.loading import make_template, make_tokenizer, sampling_defaults
from pyrite.models.registry import build_plan
from pyrite.sampling.params import SamplingParams
from pyrite.server.ask import Ask, ChatAsk, NamedTool
from pyrite.text.answers import AnswerParser
from pyrite.text.infill import Infill, find_infill
from pyrite.text.template import ChatTemplate
from pyrite.text.tokenizer import Tokenizer
from pyrite.text.tools import tool_use
from pyrite.text.turn import ChatStyle, Turn

LONG_CHARACTERS = 8192  # from here on a text is handled beside the event loop
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Prompt:
    """An ask's ids, the parameters with what its chat adds to them, and a parser for each answer
    of a chat (None: answers are text)."""

    ids: tuple[int, ...]
    params: SamplingParams
    parser: Callable[[], AnswerParser] | None = None


class Prompts:
    """`template` is None for a model that continues text, `infill` for one that fills none in.
    `sampling` is what asks sample with that state nothing else."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        template: ChatTemplate | None,
        infill: Infill | None = None,
        sampling: Mapping[str, float] | None = None,
    ) -> None:
        self.sampling = sampling or {}
        self.tokenizer = tokenizer
        self.infill = infill
        self.template = template
        self.style = ChatStyle(template, tokenizer.control_id)
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="prompts")

    async def read(self, ask: Ask) -> Prompt:
        """Raises TemplateError, ParameterError."""
        if isinstance(ask, ChatAsk):
            return await self.apart(size_of(ask), self._read_chat, ask)
        ids = ask.prompt
        if isinstance(ids, str):
            ids = await self.encode(ids, special=True, bos=ask.suffix is None)
        if ask.suffix is not None:
            ids = await self._filled_in(ids, ask.suffix)
        return Prompt(ids, ask.params)

    async def _filled_in(self, before: tuple[int, ...], suffix: str) -> tuple[int, ...]:
        if self.infill is None:
            limit = "absent: this model was not taught to fill in"
            raise ParameterError("suffix", suffix, limit)
        return self.infill.ids(before, await self.encode(suffix, special=False, bos=False))

    async def ids(self, ask: Ask) -> tuple[int, ...]:
        """The prompt's ids alone."""
        return (await self.read(ask)).ids

    async def encode(self, text: str, *, special: bool, bos: bool) -> tuple[int, ...]:
        def encoded() -> tuple[int, ...]:
            return tuple(self.tokenizer.encode(text, special=special, bos=bos).tolist())

        return await self.apart(len(text), encoded)

    def ids_of_each(self, inputs: Sequence[str | tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
        """Of texts, or ids as they are."""
        return tuple(
            one if isinstance(one, tuple) else tuple(self.tokenizer.encode_whole(one).tolist())
            for one in inputs
        )

    async def apart(self, size: int, function: Callable[..., T], *arguments: Any) -> T:
        """Calls the function: here when its input is short, in a thread when it is long."""
        if size < LONG_CHARACTERS:
            return function(*arguments)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, function, *arguments)

    def turn(self, ask: ChatAsk) -> Turn:
        """Raises TemplateError, ParameterError."""
        choice: Any = ask.tool_choice
        if isinstance(choice, NamedTool):
            choice = {"type": "function", "function": {"name": choice.name}}
        grammar = ask.params.grammar
        return self.style.turn(
            ask.messages,
            ask.tools,
            tool_use(ask.tools, choice, parallel=ask.parallel_tool_calls),
            None if grammar is None else (grammar.kind, grammar.source),
            continue_final_message=ask.continue_final_message,
            **ask.template_options,
        )

    def _read_chat(self, ask: ChatAsk) -> Prompt:
        turn = self.turn(ask)
        ids = tuple(self.tokenizer.encode_segments(turn.segments, bos=True).tolist())
        return Prompt(ids, in_turn(ask.params, turn), turn.parser)


def size_of(ask: ChatAsk) -> int:
    """Tools are always long: their schemas are compiled to be checked."""
    return LONG_CHARACTERS if ask.tools else weight(ask.messages)


def prompts_of(checkpoint: Checkpoint, settings: Settings) -> Prompts:
    """Raises UnsupportedError for a tokenizer of an unknown kind."""
    known = checkpoint.tokenizer is not None
    tokenizer = (
        Tokenizer.from_data(require_tokenizer(checkpoint))
        if known
        else make_tokenizer(checkpoint, build_plan(checkpoint))
    )
    infill = find_infill(checkpoint.metadata, tokenizer.control_id)
    sampling = sampling_defaults(checkpoint, settings)
    return Prompts(tokenizer, make_template(checkpoint, tokenizer), infill, sampling)


def weight(value: Any) -> int:
    """About how many characters a JSON value has."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(weight(item) + 8 for item in value.values())
    if isinstance(value, (list, tuple)):
        return sum(weight(item) + 2 for item in value)
    return 8
