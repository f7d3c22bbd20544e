"""The envelope that Ollama's clients read errors from."""

from __future__ import annotations

import msgspec

from pyrite.server.errors import words_of


def envelope(error: BaseException, status: int) -> bytes:
    return msgspec.json.encode({"error": words_of(error)})
