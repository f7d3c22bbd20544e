"""From a conversation to token ids: messages are mended, rendered, and encoded by their origin.

The one door for chats. Only what the template wrote can become control tokens; text of a user, a
tool or an earlier answer is encoded as plain text, whatever it spells. Knows no model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pyrite.errors import ParameterError, TemplateError
from pyrite.text.messages import normalize
from pyrite.text.template import ChatTemplate

Message = Mapping[str, Any]
Segments = list[tuple[str, bool]]  # (text, whether the template wrote it), in order


class Encodes(Protocol):
    """What is asked of a tokenizer here."""

    def encode_segments(
        self, segments: Sequence[tuple[str, bool]], *, bos: bool = False
    ) -> NDArray[np.int32]:
        """Ids of the joined text; control tokens only where they lie in trusted text. (tokens,)"""
        ...


def encode_chat(
    tokenizer: Encodes,
    template: ChatTemplate | None,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]] | None = None,
    *,
    add_generation_prompt: bool = True,
    continue_final_message: bool = False,
    **kwargs: Any,
) -> NDArray[np.int32]:
    """The prompt's ids, ready for the answer. (tokens,)

    A model that wants a beginning-of-text token gets one, once, whether or not its template writes
    it. `continue_final_message` leaves the last message open, so that the answer goes on with it.
    Raises TemplateError, ParameterError.
    """
    segments = chat_segments(
        template,
        messages,
        tools,
        add_generation_prompt=add_generation_prompt,
        continue_final_message=continue_final_message,
        **kwargs,
    )
    return tokenizer.encode_segments(segments, bos=True)


def chat_segments(
    template: ChatTemplate | None,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]] | None = None,
    *,
    add_generation_prompt: bool = True,
    continue_final_message: bool = False,
    **kwargs: Any,
) -> Segments:
    """The prompt's text with its origins; see encode_chat."""
    if template is None:
        raise TemplateError(
            "the model has no chat template: it continues text, it was not trained to chat",
            hint="use generate() with the text as prompt",
        )
    mended = normalize(messages, template.call_shape)
    if not continue_final_message:
        return template.segments(
            mended, tools, add_generation_prompt=add_generation_prompt, **kwargs
        )
    if not mended or mended[-1]["role"] != "assistant":
        role = mended[-1]["role"] if mended else None
        raise ParameterError("messages[-1].role", role, '"assistant", to be continued')
    return _opened(template, mended, tools, kwargs)


def _opened(
    template: ChatTemplate,
    messages: list[dict[str, Any]],
    tools: Sequence[Mapping[str, Any]] | None,
    kwargs: Mapping[str, Any],
) -> Segments:
    """The rendering up to the end of the last message's content."""
    content = messages[-1]["content"]
    if not content.strip():
        return template.segments(messages[:-1], tools, add_generation_prompt=True, **kwargs)
    whole = template.segments(messages, tools, add_generation_prompt=False, **kwargs)
    for index in range(len(whole) - 1, -1, -1):
        text, trusted = whole[index]
        for spelling in (content, content.strip()):
            end = text.rfind(spelling) + len(spelling)
            if not trusted and spelling in text:
                return [*whole[:index], (text[:end], False)]
    raise TemplateError(
        "the chat template changes the last message, which therefore cannot be continued",
        hint="ask without continue_final_message",
    )


def said(messages: str | Sequence[Message]) -> Sequence[Message]:
    """A text alone is a user's."""
    return [{"role": "user", "content": messages}] if isinstance(messages, str) else messages


def is_text_alone(messages: str | Sequence[Message]) -> bool:
    """Whether nothing is in the messages but what the oldest templates know."""
    given = said(messages)
    return isinstance(given, Sequence) and all(
        isinstance(message, Mapping)
        and message.keys() <= {"role", "content"}
        and message.get("role") in ("system", "user", "assistant")
        for message in given
    )
