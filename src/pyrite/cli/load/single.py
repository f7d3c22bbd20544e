"""One request with one whole reply: counts for prompts, the list of models, the metrics."""

from __future__ import annotations

from typing import Any

import msgspec

from pyrite.cli.load.answer import Usage
from pyrite.cli.load.http import ExchangeError, encode_request, open_connection
from pyrite.cli.load.prompts import Count, Prompt
from pyrite.cli.load.target import Target
from pyrite.errors import RequestError


class Whole:
    """A sink that keeps the body."""

    def __init__(self) -> None:
        self.status = 0
        self.body = b""

    def begin(self, status: int, seconds: float) -> None:
        self.status = status

    def take(self, data: bytes, seconds: float) -> None:
        self.body += data


async def fetch(target: Target, request: bytes) -> bytes:
    """The body of the reply. Raises RequestError for any status but 200, and a lost connection."""
    whole = Whole()
    where = f"{target.address.host}:{target.address.port}"
    try:
        connection = await open_connection(target.address)
        try:
            await connection.exchange(request, whole)
        finally:
            connection.close()
    except ExchangeError as error:
        raise RequestError(f"{where} does not answer: {error}", hint="is it running?") from None
    if whole.status != 200:
        said = whole.body.decode(errors="replace")[:300]
        raise RequestError(f"{where} answers with status {whole.status}: {said}")
    return whole.body


async def first_model(target: Target) -> str:
    """The name of the first model that the server has."""
    body = await fetch(target, encode_request(target.address, "/models", None, target.headers))
    try:
        models: Any = msgspec.json.decode(body)
        return str(models["data"][0]["id"])
    except (msgspec.DecodeError, LookupError, TypeError):
        raise RequestError("/models has no model", hint="name one with --model") from None


def counter(target: Target) -> Count:
    """Counts prompts by letting the server make one token after each."""

    async def count(shared: str, own: str) -> int:
        body = await fetch(target, target.encode(Prompt(shared, own), 1))
        try:
            return msgspec.json.decode(body, type=Counted).usage.prompt_tokens
        except msgspec.DecodeError as error:
            raise RequestError(f"the reply has no usage.prompt_tokens: {error}") from None

    return count


class Counted(msgspec.Struct):
    usage: Usage
