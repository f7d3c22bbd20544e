"""The routes of Anthropic's dialect. Every response has an id, as clients log it."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.routing import BaseRoute, Route

from pyrite.server.anthropic.asks import ask_of
from pyrite.server.anthropic.errors import envelope, named
from pyrite.server.anthropic.models import models_of
from pyrite.server.anthropic.reply import MessageReply
from pyrite.server.anthropic.types import COUNT, MESSAGES, CountRequest, MessagesRequest
from pyrite.server.ask import adapted
from pyrite.server.decoding import converted, json_object
from pyrite.server.endpoints import JsonReply
from pyrite.server.fields import header_of
from pyrite.server.http import Endpoint, Receive, Reply, Scope, Send
from pyrite.server.service import Service

Answer = Callable[[Service, bytes, str, str], Awaitable[Reply]]


def routes(service: Service) -> list[BaseRoute]:
    return [
        *models_of(service),
        Route("/v1/messages", Door(service, messages), methods=["POST"]),
        Route("/v1/messages/count_tokens", Door(service, count), methods=["POST"]),
    ]


@dataclass(frozen=True, slots=True)
class Door:
    """An endpoint whose responses carry an id, also those that are errors."""

    service: Service
    answer: Answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id = named(scope.get("request_id") or secrets.token_hex(12))

        async def identified(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                header = (b"request-id", request_id.encode())
                message = {**message, "headers": [*message["headers"], header]}
            await send(message)

        async def reply(scope: Scope, body: bytes) -> Reply:
            return await self.answer(self.service, body, scope.get("tenant", ""), request_id)

        told = partial(envelope, request_id=request_id)
        await Endpoint(reply, told, self.service.limits, self.service.metrics)(
            scope, receive, identified
        )


async def messages(service: Service, body: bytes, tenant: str, request_id: str) -> MessageReply:
    """Raises RequestError, HttpError."""
    raw = json_object(body)
    headers = header_of(MESSAGES.check(raw))
    request = converted(raw, MessagesRequest)
    service.card.check(request.model)
    asks = adapted(
        [ask_of(request, service.prompts.sampling)], service.card.adapter_of(request.model)
    )
    return MessageReply(service, request, asks, tenant, headers, request_id=request_id)


async def count(service: Service, body: bytes, tenant: str, request_id: str) -> JsonReply:
    """Raises RequestError, HttpError."""
    raw = json_object(body)
    headers = header_of(COUNT.check(raw))
    request = converted(raw, CountRequest)
    service.card.check(request.model)
    ids = await service.prompts.ids(ask_of(request))
    return JsonReply({"input_tokens": len(ids)}, headers)
