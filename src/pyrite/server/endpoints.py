"""What a dialect's routes are made of: one application for each way to answer.

A dialect has `routes(service)`; each of its doors is an `Answer`. Knows no dialect.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.responses import Response

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


def json_response(value: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")
