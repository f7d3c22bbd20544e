"""The envelope that Ollama's clients read errors from."""

from __future__ import annotations

import msgspec

from pyrite.server.decoding import renamed
from pyrite.server.errors import words_of

OPTIONS = "temperature|top_k|top_p|min_p|typical_p|seed|stop|presence_penalty|frequency_penalty"
NAMES = {  # of fields elsewhere, and in this dialect
    rf"({OPTIONS})": r"options.\1",
    r"max_tokens": "options.num_predict",
    r"repetition_penalty": "options.repeat_penalty",
    r"json_schema": "format",
    r"logprobs": "top_logprobs",
}


def envelope(error: BaseException, status: int) -> bytes:
    return msgspec.json.encode({"error": words_of(renamed(error, NAMES))})
