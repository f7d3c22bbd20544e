"""The routes of the Responses API."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass

import msgspec
from starlette.routing import BaseRoute, Route

from pyrite.server.ask import ChatAsk
from pyrite.server.decoding import converted, json_object
from pyrite.server.endpoints import endpoint
from pyrite.server.fields import header_of
from pyrite.server.http import Headers
from pyrite.server.openai.errors import envelope
from pyrite.server.openai.responses.asks import ask_of, ignored_includes
from pyrite.server.openai.responses.conversation import with_kinds
from pyrite.server.openai.responses.reply import ResponseReply
from pyrite.server.openai.responses.types import RESPONSES, ResponsesRequest
from pyrite.server.service import Service


def routes(service: Service) -> list[BaseRoute]:
    doors = {
        "/v1/responses": endpoint(service, reply_to, "resp_", envelope),
        "/v1/responses/input_tokens": endpoint(service, count_of, "resp_", envelope),
    }
    return [Route(path, door, methods=["POST"]) for path, door in doors.items()]


async def reply_to(service: Service, body: bytes, tenant: str, answer_id: str) -> ResponseReply:
    """Raises RequestError, HttpError."""
    raw = with_kinds(json_object(body))
    ignored = RESPONSES.check(raw)
    request = converted(raw, ResponsesRequest)
    service.card.check(request.model)
    headers = header_of((*ignored, *ignored_includes(request.include)))
    return ResponseReply(service, request, raw, ask_of(request), tenant, answer_id, headers)


@dataclass(slots=True)
class CountReply:
    service: Service
    ask: ChatAsk
    headers: Headers
    media_type: str = "application/json"
    streams: bool = False

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        count = len(await self.service.prompts.ids(self.ask))
        yield msgspec.json.encode({"object": "response.input_tokens", "input_tokens": count})

    def failure(self, error: BaseException) -> bytes:
        raise NotImplementedError("a count is not streamed")


async def count_of(service: Service, body: bytes, tenant: str, answer_id: str) -> CountReply:
    """Raises RequestError, HttpError."""
    reply = await reply_to(service, body, tenant, answer_id)
    return CountReply(service, reply.ask, reply.headers)
