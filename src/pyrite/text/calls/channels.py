"""The channels of GPT-OSS ("harmony"): an answer is a row of messages, each with a header.

`<|channel|>analysis<|message|>` begins reasoning, `final` the content, and a header that names a
recipient, `to=functions.NAME`, a call whose arguments are JSON. `<|end|>`, `<|call|>` and
`<|return|>` end a message, `<|start|>assistant` begins the next one.
"""

from __future__ import annotations

import re

from pyrite.text.calls.parse import arguments
from pyrite.text.calls.reader import EndOfTextError, Give, Markers, MismatchError, Parsing, Reader

MARKERS = (
    "<|start|>",
    "<|channel|>",
    "<|message|>",
    "<|constrain|>",
    "<|end|>",
    "<|call|>",
    "<|return|>",
)
MAX_HEADER_LENGTH = 512

_HEADER = re.compile(
    r"\s*(?:<\|start\|>assistant)?\s*(?:to=(?P<before>[^\s<]+))?\s*"
    r"<\|channel\|>\s*(?P<channel>\w+)\s*(?:to=(?P<after>[^\s<]+))?[^<]*(?:<\|constrain\|>[^<]*)?"
)
_HEADER_END = Markers(("<|message|>",))
_MESSAGE_END = Markers(("<|end|>", "<|call|>", "<|return|>", "<|start|>"))
_BEGIN = Markers(("<|start|>", "<|channel|>"))


def messages(reader: Reader, content: Give, reason: Give, *, with_calls: bool) -> Parsing[None]:
    """All messages of an answer. What is no message, or calls what may not be called, is content
    as it stands, up to where the next message begins."""
    while True:
        try:
            yield from _message(reader, content, reason, with_calls)
        except MismatchError:
            content(reader.recorded())
            if reader.finished:
                return
            yield from _stray(reader, content)


def _message(reader: Reader, content: Give, reason: Give, with_calls: bool) -> Parsing[None]:
    header = yield from _header(reader)
    recipient = header["before"] or header["after"] or ""
    if recipient:
        if not with_calls or recipient == "functions.":
            raise MismatchError
        yield from arguments(reader, recipient.removeprefix("functions."))
        yield from reader.space()
    reader.recorded()
    yield from _body(reader, reason if header["channel"] == "analysis" else content)


def _body(reader: Reader, give: Give) -> Parsing[None]:
    try:
        ending = yield from reader.give_until(_MESSAGE_END, give)
    except EndOfTextError:
        give(reader.rest())
        raise
    if ending == "<|start|>":
        reader.unread(ending)
    reader.recorded()


def _stray(reader: Reader, content: Give) -> Parsing[None]:
    """The first character at least: it does not begin a message."""
    try:
        yield from reader.peek()
        content(reader.take(1))
        found = yield from reader.give_until(_BEGIN, content)
        reader.unread(found)
    except EndOfTextError:
        content(reader.rest())


def _header(reader: Reader) -> Parsing[re.Match[str]]:
    first = yield from reader.peek()
    if first not in "<t \n":
        raise MismatchError
    text = yield from reader.until(_HEADER_END, MAX_HEADER_LENGTH)
    found = _HEADER.fullmatch(text)
    if not found:
        raise MismatchError
    return found
