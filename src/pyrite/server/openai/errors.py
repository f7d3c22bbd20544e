"""The envelope that OpenAI's clients read errors from."""

from __future__ import annotations

import msgspec

from pyrite.errors import ContextLengthError, ParameterError
from pyrite.server.errors import HttpError, words_of

KINDS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}


def envelope(error: BaseException, status: int) -> bytes:
    return msgspec.json.encode({"error": description(error, status)})


def description(error: BaseException, status: int) -> dict[str, object]:
    kind = KINDS.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return {
        "message": words_of(error),
        "type": kind,
        "param": error.name if isinstance(error, ParameterError) else None,
        "code": code_of(error),
    }


def code_of(error: BaseException) -> str | None:
    if isinstance(error, HttpError):
        return error.code
    if isinstance(error, ContextLengthError):
        return "context_length_exceeded"
    return "invalid_value" if isinstance(error, ParameterError) else None
