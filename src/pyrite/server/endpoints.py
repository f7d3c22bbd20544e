"""What a dialect's routes are made of: one application for each way to answer.

A dialect has `routes(service)`; each of its doors is an `Answer`. Knows no dialect.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pyrite.errors import PyriteError
from pyrite.server.errors import status_of
from pyrite.server.http import Endpoint, Envelope, Headers, Reply, Scope
from pyrite.server.service import Service

# From (service, body, tenant, the answer's id) to a reply. Raises PyriteError.
Answer = Callable[[Service, bytes, str, str], Awaitable[Reply]]


def endpoint(service: Service, answer: Answer, prefix: str, envelope: Envelope) -> Endpoint:
    """An ASGI application for a route; `prefix` begins the ids of answers."""

    async def reply(scope: Scope, body: bytes) -> Reply:
        answer_id = f"{prefix}{secrets.token_hex(12)}"
        return await answer(service, body, scope.get("tenant", ""), answer_id)

    return Endpoint(reply, envelope, service.limits, service.metrics)


@dataclass(slots=True)
class JsonReply:
    """A value that is there already, as JSON."""

    value: Any
    headers: Headers = ()
    media_type: str = "application/json"
    streams: bool = False
    keep_alive: bytes = b""

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        yield msgspec.json.encode(self.value)

    def failure(self, error: BaseException) -> bytes:
        raise NotImplementedError("a value is not streamed")


async def encoded(values: Iterable[object]) -> list[msgspec.Raw]:
    """Each as JSON; others have their turn between two."""
    pieces: list[msgspec.Raw] = []
    for value in values:
        pieces.append(msgspec.Raw(msgspec.json.encode(value)))
        await asyncio.sleep(0)
    return pieces


def json_response(value: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def model_routes(
    service: Service,
    describe: Callable[[str], dict[str, Any]],
    listed: Callable[[list[dict[str, Any]]], dict[str, Any]],
    envelope: Envelope,
    route: type[Route] = Route,
) -> list[Route]:
    """/v1/models and /v1/models/NAME: each of the model's names described, `listed` together."""
    card = service.card

    async def models(request: Request) -> Response:
        return json_response(listed([describe(name) for name in card.names]))

    async def model(request: Request) -> Response:
        name = request.path_params["name"]
        try:
            card.check(name)
        except PyriteError as error:
            status = status_of(error)
            return Response(envelope(error, status), status, media_type="application/json")
        return json_response(describe(name))

    return [route("/v1/models", models), route("/v1/models/{name:path}", model)]
