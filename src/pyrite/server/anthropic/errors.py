"""The envelope that Anthropic's clients read errors from."""

from __future__ import annotations

import msgspec

from pyrite.server.decoding import renamed
from pyrite.server.errors import words_of

KINDS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def named(request_id: str) -> str:
    """The id of a request as its clients know it."""
    return f"req_{request_id}"


NAMES = {  # of fields elsewhere, and in this dialect
    r"stop": "stop_sequences",
    r"json_schema": "output_config.format.schema",
    r"(tools\[\d+\])\.function\.parameters(.*)": r"\1.input_schema\2",
    r"(tools\[\d+\])\.function\.(.*)": r"\1.\2",
}


def envelope(error: BaseException, status: int, request_id: str | None = None) -> bytes:
    return msgspec.json.encode(description(error, status, request_id))


def description(error: BaseException, status: int, request_id: str | None) -> dict[str, object]:
    kind = KINDS.get(status, "api_error" if status >= 500 else "invalid_request_error")
    return {
        "type": "error",
        "error": {"type": kind, "message": words_of(renamed(error, NAMES))},
        "request_id": request_id,
    }
