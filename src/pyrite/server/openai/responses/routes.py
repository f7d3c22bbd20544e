"""The routes of the Responses API."""

from __future__ import annotations

from starlette.routing import BaseRoute, Route

from pyrite.server.ask import adapted
from pyrite.server.decoding import converted, json_object
from pyrite.server.endpoints import JsonReply, endpoint
from pyrite.server.fields import header_of
from pyrite.server.openai.responses.asks import ask_of, ignored_includes
from pyrite.server.openai.responses.conversation import with_kinds
from pyrite.server.openai.responses.errors import envelope
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
    asks = adapted(
        [ask_of(request, service.prompts.sampling)], service.card.adapter_of(request.model)
    )
    return ResponseReply(service, request, asks, tenant, headers, raw=raw, answer_id=answer_id)


async def count_of(service: Service, body: bytes, tenant: str, answer_id: str) -> JsonReply:
    """Raises RequestError, HttpError."""
    reply = await reply_to(service, body, tenant, answer_id)
    ids = await service.prompts.ids(reply.ask)
    counted = {"object": "response.input_tokens", "input_tokens": len(ids)}
    return JsonReply(counted, reply.headers)
