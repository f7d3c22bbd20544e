"""The OpenAI dialect: chat completions, completions, responses, embeddings, models, tokens."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from pyrite.errors import PyriteError
from pyrite.server.endpoints import endpoint, json_response
from pyrite.server.errors import status_of
from pyrite.server.openai import chat, completions, embeddings, tokens
from pyrite.server.openai.errors import envelope
from pyrite.server.openai.responses.routes import routes as responses_routes
from pyrite.server.service import Service


def routes(service: Service) -> list[BaseRoute]:
    doors = {
        "/v1/chat/completions": endpoint(service, chat.reply_to, "chatcmpl-", envelope),
        "/v1/completions": endpoint(service, completions.reply_to, "cmpl-", envelope),
        "/v1/embeddings": endpoint(service, embeddings.reply_to, "embd-", envelope),
        "/tokenize": endpoint(service, tokens.tokenize, "", envelope),
        "/detokenize": endpoint(service, tokens.detokenize, "", envelope),
        "/apply-template": endpoint(service, tokens.apply_template, "", envelope),
    }
    return [
        *(Route(path, door, methods=["POST"]) for path, door in doors.items()),
        *responses_routes(service),
        *model_routes(service),
    ]


def model_routes(service: Service) -> list[BaseRoute]:
    card = service.card

    def describe(name: str) -> dict[str, object]:
        ready = service.link.ready
        return {
            "id": name,
            "object": "model",
            "created": card.created,
            "owned_by": "pyrite",
            "max_model_len": ready and ready.context_length,
        }

    async def models(request: Request) -> Response:
        return json_response({"object": "list", "data": [describe(name) for name in card.names]})

    async def model(request: Request) -> Response:
        name = request.path_params["name"]
        try:
            card.check(name)
        except PyriteError as error:
            status = status_of(error)
            return Response(envelope(error, status), status, media_type="application/json")
        return json_response(describe(name))

    return [Route("/v1/models", models), Route("/v1/models/{name:path}", model)]
