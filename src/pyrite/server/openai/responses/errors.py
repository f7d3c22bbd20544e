"""OpenAI's envelope, with the names that the Responses API has for fields."""

from __future__ import annotations

from pyrite.server.decoding import renamed
from pyrite.server.openai import errors

NAMES = {  # of fields elsewhere, and in this API
    r"max_tokens": "max_output_tokens",
    r"logprobs": "top_logprobs",
    r"json_schema": "text.format.schema",
    r"(tools\[\d+\])\.function\.(.*)": r"\1.\2",
}


def envelope(error: BaseException, status: int) -> bytes:
    return errors.envelope(renamed(error, NAMES), status)


def description(error: BaseException, status: int) -> dict[str, object]:
    return errors.description(renamed(error, NAMES), status)
