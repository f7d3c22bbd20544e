"""What goes through the pipe between the HTTP process and the engine's, as msgpack.

A frame is four bytes of length (little-endian) and one message: a list of commands one way, a
`Report` the other. Values are those of `request.py`; an error travels as its class and its words.
Knows neither end.
"""

from __future__ import annotations

import struct
from typing import Any

import msgspec

from pyrite import errors
from pyrite.config import Settings
from pyrite.embedding import EmbeddingRequest
from pyrite.errors import BackendError, PyriteError
from pyrite.request import Delta, EngineStats, Request

LENGTH = struct.Struct("<I")
MAX_FRAME_BYTES = 2**30


class Start(msgspec.Struct, frozen=True, tag="start"):
    """The first command: the model to load."""

    model: str
    settings: Settings


class Add(msgspec.Struct, frozen=True, tag="add"):
    request: Request


class Cancel(msgspec.Struct, frozen=True, tag="cancel"):
    request_id: str


class Embed(msgspec.Struct, frozen=True, tag="embed"):
    request: EmbeddingRequest


Command = Start | Add | Cancel | Embed


class Vectors(msgspec.Struct, frozen=True):
    """A request for embeddings that ended. `data`: little-endian float32 of each input."""

    request_id: str
    num_tokens: int
    width: int
    data: list[bytes]
    error: Exception | None = None


class Packing(msgspec.Struct, frozen=True, tag="packing"):
    """The model is being loaded: so many of its weights' bytes are packed."""

    done: int
    total: int


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The model is loaded."""

    context_length: int
    vocabulary: int
    num_pages: int
    threads: int
    notes: list[str]  # what was decided for the model, for whoever starts the server


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The model could not be loaded; the engine's process ends."""

    error: Exception


class Report(msgspec.Struct, frozen=True, tag="report"):
    """What one step gave. `stats` are the engine's counters after it."""

    deltas: list[Delta]
    stats: EngineStats
    vectors: list[Vectors] = []


Message = Packing | Ready | Failed | Report


def _encoded(value: Any) -> Any:
    if isinstance(value, PyriteError):
        kept = {key: shown(item) for key, item in vars(value).items()}
        return {"kind": type(value).__name__, "kept": kept}
    if isinstance(value, Exception):
        kept = {"message": f"{type(value).__name__}: {value}", "hint": "this is a bug in Pyrite"}
        return {"kind": "BackendError", "kept": kept}
    return str(value)  # a path


def shown(value: object) -> object:
    """The value where msgpack has a type for it; of anything else its beginning as text."""
    if value is None or isinstance(value, (bool, float)):
        return value
    if isinstance(value, int) and abs(value) < 2**63:
        return value
    return value[:1000] if isinstance(value, str) else repr(value)[:1000]


def _decoded(kind: type, value: Any) -> Any:
    if kind is not Exception:
        return kind(value)
    known = getattr(errors, value["kind"], BackendError)
    error = known.__new__(known)
    Exception.__init__(error, value["kept"]["message"])
    vars(error).update(value["kept"])
    return error


_encoder = msgspec.msgpack.Encoder(enc_hook=_encoded)
_commands = msgspec.msgpack.Decoder(list[Command], dec_hook=_decoded)
_messages = msgspec.msgpack.Decoder(Message, dec_hook=_decoded)


def frame(value: list[Command] | Message) -> bytes:
    body = _encoder.encode(value)
    return LENGTH.pack(len(body)) + body


def commands_of(body: bytes | memoryview) -> list[Command]:
    return _commands.decode(body)


def message_of(body: bytes | memoryview) -> Message:
    return _messages.decode(body)


class Frames:
    """Cuts a stream of bytes into the bodies of its frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def push(self, data: bytes) -> list[bytes]:
        """The bodies that are whole now. Raises BackendError for a length that cannot be."""
        self._buffer += data
        bodies = []
        start = 0
        while len(self._buffer) - start >= LENGTH.size:
            (length,) = LENGTH.unpack_from(self._buffer, start)
            if length > MAX_FRAME_BYTES:
                raise BackendError(f"a frame of {length} bytes between the server's processes")
            end = start + LENGTH.size + length
            if len(self._buffer) < end:
                break
            bodies.append(bytes(self._buffer[start + LENGTH.size : end]))
            start = end
        del self._buffer[:start]
        return bodies
