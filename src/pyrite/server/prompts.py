"""From asks to token ids: templates are rendered and texts encoded, long ones in a thread.

Knows no engine and no dialect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from pyrite.formats.checkpoint import Checkpoint
from pyrite.formats.vocabulary import require_tokenizer
from pyrite.loading import make_template, make_tokenizer
from pyrite.models.registry import build_plan
from pyrite.server.ask import Ask, ChatAsk
from pyrite.text.chat import Segments, chat_segments
from pyrite.text.template import ChatTemplate
from pyrite.text.tokenizer import Tokenizer

LONG_CHARACTERS = 8192  # from here on a text is handled beside the event loop
T = TypeVar("T")


class Prompts:
    """`template` is None for a model that continues text."""

    def __init__(self, tokenizer: Tokenizer, template: ChatTemplate | None) -> None:
        self.tokenizer = tokenizer
        self.template = template
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="prompts")

    async def ids(self, ask: Ask) -> tuple[int, ...]:
        """The prompt's ids. Raises TemplateError, ParameterError."""
        if isinstance(ask, ChatAsk):
            return await self.apart(weight(ask.messages) + weight(ask.tools), self._chat_ids, ask)
        if isinstance(ask.prompt, tuple):
            return ask.prompt
        return await self.encode(ask.prompt, special=True, bos=True)

    async def encode(self, text: str, *, special: bool, bos: bool) -> tuple[int, ...]:
        def encoded() -> tuple[int, ...]:
            return tuple(self.tokenizer.encode(text, special=special, bos=bos).tolist())

        return await self.apart(len(text), encoded)

    async def apart(self, size: int, function: Callable[..., T], *arguments: Any) -> T:
        """Calls the function: here when its input is short, in a thread when it is long."""
        if size < LONG_CHARACTERS:
            return function(*arguments)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, function, *arguments)

    def segments(self, ask: ChatAsk) -> Segments:
        """The prompt's text with its origins."""
        return chat_segments(
            self.template,
            ask.messages,
            ask.tools or None,
            continue_final_message=ask.continue_final_message,
            **ask.template_options,
        )

    def _chat_ids(self, ask: ChatAsk) -> tuple[int, ...]:
        return tuple(self.tokenizer.encode_segments(self.segments(ask), bos=True).tolist())


def prompts_of(checkpoint: Checkpoint) -> Prompts:
    """Raises UnsupportedError for a tokenizer of an unknown kind."""
    known = checkpoint.tokenizer is not None
    tokenizer = (
        Tokenizer.from_data(require_tokenizer(checkpoint))
        if known
        else make_tokenizer(checkpoint, build_plan(checkpoint))
    )
    return Prompts(tokenizer, make_template(checkpoint, tokenizer))


def weight(value: Any) -> int:
    """About how many characters a JSON value has."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(weight(item) + 8 for item in value.values())
    if isinstance(value, (list, tuple)):
        return sum(weight(item) + 2 for item in value)
    return 8
