"""What one request saw: its status, when each token came, the counts that the server told, faults.

Reads the streams of /chat/completions and /completions. Knows no sockets.
"""

from __future__ import annotations

import msgspec

from pyrite.cli.load.events import EventReader


class Details(msgspec.Struct, gc=False):
    cached_tokens: int | None = None


class Usage(msgspec.Struct, gc=False):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_details: Details | None = None


class Delta(msgspec.Struct, gc=False):
    role: str | None = None
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: msgspec.Raw = msgspec.Raw()


class Choice(msgspec.Struct, gc=False):
    delta: Delta | None = None
    text: str | None = None
    finish_reason: str | None = None

    @property
    def has_token(self) -> bool:
        """A token may have no text of its own; a role and an end are no tokens."""
        if self.text or self.delta is None:
            return bool(self.text) or (self.text is not None and self.finish_reason is None)
        delta = self.delta
        if delta.content or delta.reasoning_content or delta.reasoning:
            return True
        if bytes(delta.tool_calls) not in (b"", b"null", b"[]"):
            return True
        return delta.role is None and self.finish_reason is None


class Event(msgspec.Struct, gc=False):
    choices: list[Choice] = []
    usage: Usage | None = None
    error: msgspec.Raw = msgspec.Raw()


DECODER = msgspec.json.Decoder(Event)
ERROR_BYTES = 300  # of an error's text, that are kept


class Answer:
    """A sink for one reply. Times are time.perf_counter(); `sent` is filled by who sends.

    `fault` is None for a request that was answered in whole, else one word: a status, "cut",
    "error" (told in the stream), "empty", "malformed", "connect", "timeout", "unsent".
    `text` is kept when it is wanted.
    """

    def __init__(self, *, wants_text: bool = False) -> None:
        self.sent = 0.0
        self.ended = 0.0
        self.status = 0
        self.chunks: list[float] = []  # when each part of the answer came
        self.usage: Usage | None = None
        self.fault: str | None = "unsent"
        self.message = ""
        self.text: list[str] = []
        self._wants_text = wants_text
        self._events = EventReader()
        self._saw_done = False

    @property
    def first_seconds(self) -> float:
        """From sending to the first token."""
        return self.chunks[0] - self.sent

    @property
    def seconds(self) -> float:
        return self.ended - self.sent

    @property
    def gaps(self) -> list[float]:
        """Seconds between neighbouring parts."""
        return [b - a for a, b in zip(self.chunks, self.chunks[1:], strict=False)]

    @property
    def tokens(self) -> int:
        """Of the answer, by the server's count; parts that arrived, where it gives none."""
        return self.usage.completion_tokens if self.usage else len(self.chunks)

    def begin(self, status: int, seconds: float) -> None:
        self.status = status
        self.fault = None if status == 200 else str(status)

    def take(self, data: bytes, seconds: float) -> None:
        if self.status != 200:
            self.message = (self.message + data.decode(errors="replace"))[:ERROR_BYTES]
            return
        try:
            for event in self._events.feed(data):
                self._read(event, seconds)
        except (ValueError, msgspec.MsgspecError) as error:
            self.fail("malformed", str(error))

    def fail(self, fault: str, message: str) -> None:
        """The first fault is the one that is told."""
        if self.fault is None or self.fault == "unsent":
            self.fault = fault
            self.message = message[:ERROR_BYTES]

    def finish(self, seconds: float) -> None:
        """The reply is at its end, or given up."""
        self.ended = seconds
        if self.fault is None and not self._saw_done:
            self.fail("cut", "the stream ended without [DONE]")
        elif self.fault is None and not self.chunks:
            self.fail("empty", "the answer has no tokens")

    def _read(self, data: bytes, seconds: float) -> None:
        if data == b"[DONE]":
            self._saw_done = True
            return
        event = DECODER.decode(data)
        if bytes(event.error) not in (b"", b"null"):
            self.fail("error", bytes(event.error).decode(errors="replace"))
        self.usage = event.usage or self.usage
        for choice in event.choices:
            if choice.has_token:
                self.chunks.append(seconds)
                if self._wants_text:
                    self.text.append(choice.text or (choice.delta and choice.delta.content) or "")
