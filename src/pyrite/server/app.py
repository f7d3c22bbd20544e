"""The application: every route, behind one guard. Knows the dialects' doors and nothing inside."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from pyrite import __version__
from pyrite.server import openai, openapi
from pyrite.server.anthropic.errors import envelope as anthropic_envelope
from pyrite.server.anthropic.errors import named
from pyrite.server.anthropic.routes import routes as anthropic_routes
from pyrite.server.endpoints import json_response
from pyrite.server.errors import HttpError
from pyrite.server.guard import LIVENESS, LOOPBACK_NAMES, Guard
from pyrite.server.http import Envelope, Headers
from pyrite.server.keys import Keyring
from pyrite.server.ollama.errors import envelope as ollama_envelope
from pyrite.server.ollama.routes import routes as ollama_routes
from pyrite.server.openai.errors import envelope as openai_envelope
from pyrite.server.page import page_routes
from pyrite.server.service import Service
from pyrite.server.settings import ServerSettings, is_loopback, is_open_to_all

# By the beginning of a path, how errors are told there; anywhere else as OpenAI does.
MESSAGES = "/v1/messages"
UNVERSIONED = frozenset(
    one.path.removeprefix("/v1") for one in openapi.OPERATIONS if one.path.startswith("/v1/")
)
ENVELOPES: dict[str, Envelope] = {MESSAGES: anthropic_envelope, "/api/": ollama_envelope}


def build_app(service: Service, settings: ServerSettings) -> Guard:
    app = Starlette(routes=routes(service), exception_handlers={404: not_found, 405: wrong_method})
    app.router.redirect_slashes = False  # a redirect would lose the body
    guard = Guard(
        app,
        keyring=Keyring(settings.keys),
        hosts=hosts_of(settings),
        origins=frozenset(settings.allow_origins),
        envelope=refusal_at,
        metrics=service.metrics,
    )
    service.charge = guard.charge
    service.isolate_keys = settings.isolate_keys
    alone = len(settings.keys) == 1 or (not settings.keys and is_loopback(settings.host))
    service.tells_cached = settings.isolate_keys or alone
    service.open_to_all = is_open_to_all(settings)
    return guard


def routes(service: Service) -> list[BaseRoute]:
    return [
        *page_routes(),
        *health_routes(service),
        *anthropic_routes(service),  # before OpenAI's: its list of models is for its clients alone
        *openai.routes(service),
        *ollama_routes(service),
    ]


def hosts_of(settings: ServerSettings) -> frozenset[str] | None:
    """Names that the server may be called by; any, where it is public."""
    if settings.allow_hosts:
        return LOOPBACK_NAMES | {name.lower() for name in settings.allow_hosts}
    return LOOPBACK_NAMES | {settings.host} if is_loopback(settings.host) else None


def refusal_at(path: str, request_id: str) -> tuple[Envelope, Headers]:
    """How the guard tells an error, and the headers that a dialect's clients look for."""
    if path.startswith(MESSAGES):
        name = named(request_id)
        return partial(anthropic_envelope, request_id=name), [(b"request-id", name.encode())]
    return envelope_of(path), ()


def envelope_of(path: str) -> Envelope:
    for beginning, envelope in ENVELOPES.items():
        if path.startswith(beginning):
            return envelope
    return openai_envelope


def health_routes(service: Service) -> list[BaseRoute]:
    async def live(request: Request) -> Response:
        alive = service.link.is_alive(service.limits.watchdog_seconds)
        return json_response({"status": "ok" if alive else "hung"}, 200 if alive else 503)

    async def ready(request: Request) -> Response:
        state = "draining" if service.draining else service.link.state
        return json_response({"status": state}, 200 if state == "ready" else 503)

    async def version(request: Request) -> Response:
        return json_response({"version": __version__})

    async def metrics(request: Request) -> Response:
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4")

    async def described(request: Request) -> Response:
        return json_response(openapi.document())

    pages: dict[str, Callable[[Request], object]] = {
        LIVENESS: live,
        "/readyz": ready,
        "/health": ready,
        "/version": version,
        "/metrics": metrics,
        "/openapi.json": described,
    }
    return [Route(path, page) for path, page in pages.items()]


async def not_found(request: Request, error: Exception) -> Response:
    path = request.url.path
    if isinstance(error, HttpError):
        return error_response(error, path)
    known = path in UNVERSIONED
    hint = "put /v1 into the client's base URL" if known else ""
    words = f"there is no route {path[:200]!r}"
    return error_response(HttpError(404, "not_found", words, hint=hint), path)


async def wrong_method(request: Request, error: Exception) -> Response:
    path = request.url.path
    words = f"{request.method[:20]} is not for {path[:200]!r}"
    return error_response(HttpError(405, "method_not_allowed", words), path)


def error_response(error: HttpError, path: str) -> Response:
    body = envelope_of(path)(error, error.status)
    return Response(body, error.status, media_type="application/json")
