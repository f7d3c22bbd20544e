"""The routes of the server, over one service. Knows the dialects' doors and nothing inside them."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pyrite import __version__
from pyrite.server.anthropic.routes import routes as anthropic_routes
from pyrite.server.errors import HttpError
from pyrite.server.http import Endpoint, Reply, Scope
from pyrite.server.openai import chat, completions
from pyrite.server.openai.errors import envelope
from pyrite.server.service import Service

Answer = Callable[[Service, bytes, str, str], Awaitable[Reply]]


def build_app(service: Service) -> Starlette:
    app = Starlette(
        routes=[
            *health_routes(service),
            *openai_routes(service),
            *anthropic_routes(service),
        ],
        exception_handlers={404: not_found, 405: wrong_method},
    )
    app.state.service = service
    return app


def json_response(value: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def endpoint(service: Service, answer: Answer, prefix: str) -> Endpoint:
    async def reply(scope: Scope, body: bytes) -> Reply:
        answer_id = f"{prefix}-{secrets.token_hex(12)}"
        return await answer(service, body, scope.get("tenant", ""), answer_id)

    return Endpoint(reply, envelope)


def openai_routes(service: Service) -> list[Route]:
    def describe(name: str) -> dict[str, object]:
        return {
            "id": name,
            "object": "model",
            "created": service.card.created,
            "owned_by": "pyrite",
            **service.card.details,
        }

    async def models(request: Request) -> Response:
        card = service.card
        names = (card.name, *(name for name in card.aliases if name != "*"))
        return json_response({"object": "list", "data": [describe(name) for name in names]})

    async def model(request: Request) -> Response:
        name = request.path_params["name"]
        service.card.check(name)
        return json_response(describe(name))

    return [
        Route(
            "/v1/chat/completions", endpoint(service, chat.reply_to, "chatcmpl"), methods=["POST"]
        ),
        Route("/v1/completions", endpoint(service, completions.reply_to, "cmpl"), methods=["POST"]),
        Route("/v1/models", models),
        Route("/v1/models/{name:path}", model),
    ]


def health_routes(service: Service) -> list[Route]:
    async def live(request: Request) -> Response:
        alive = service.link.is_alive
        return json_response({"status": "ok" if alive else "hung"}, 200 if alive else 503)

    async def ready(request: Request) -> Response:
        state = "draining" if service.draining else service.link.state
        return json_response({"status": state}, 200 if state == "ready" else 503)

    async def version(request: Request) -> Response:
        return json_response({"version": __version__})

    return [
        Route("/livez", live),
        Route("/readyz", ready),
        Route("/health", ready),
        Route("/version", version),
    ]


async def not_found(request: Request, error: Exception) -> Response:
    if isinstance(error, HttpError):
        return error_response(error)
    path = request.url.path[:200]
    return error_response(HttpError(404, "not_found", f"there is no route {path!r}"))


async def wrong_method(request: Request, error: Exception) -> Response:
    words = f"{request.method[:20]} is not for {request.url.path[:200]!r}"
    return error_response(HttpError(405, "method_not_allowed", words))


def error_response(error: HttpError) -> Response:
    return Response(envelope(error, error.status), error.status, media_type="application/json")
