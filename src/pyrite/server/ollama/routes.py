"""The routes of Ollama's dialect."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from pyrite import __version__
from pyrite.errors import PyriteError
from pyrite.server.ask import adapted
from pyrite.server.decoding import converted, json_object
from pyrite.server.endpoints import JsonReply, encoded, endpoint, json_response
from pyrite.server.errors import HttpError, status_of
from pyrite.server.fields import Fields, header_of
from pyrite.server.http import Headers
from pyrite.server.ollama.asks import LATEST, chat_ask, generate_ask
from pyrite.server.ollama.errors import envelope
from pyrite.server.ollama.models import Facts, PullReply, name_of, remove
from pyrite.server.ollama.reply import (
    AnswerReply,
    Words,
    as_message,
    as_response,
    loaded,
)
from pyrite.server.ollama.types import (
    CHAT,
    DELETE,
    EMBED,
    EMBEDDINGS,
    GENERATE,
    PULL,
    SHOW,
    ChatRequest,
    EmbeddingsRequest,
    EmbedRequest,
    GenerateRequest,
    ModelRequest,
    PullRequest,
)
from pyrite.server.service import Service

T = TypeVar("T")

# The release of Ollama whose API this is: clients ask for a least one.
API_LEVEL = "0.12.0"


def routes(service: Service) -> list[BaseRoute]:
    facts = Facts(service)

    async def version() -> dict[str, Any]:
        return {"version": API_LEVEL, "pyrite": __version__}

    async def show(service: Service, body: bytes, tenant: str, answer_id: str) -> JsonReply:
        request, headers = read(body, SHOW, ModelRequest)
        return JsonReply(await facts.show(name_of(request)), headers)

    doors = {
        "/api/chat": chat,
        "/api/generate": generate,
        "/api/embed": embed,
        "/api/embeddings": embeddings,
        "/api/pull": pull,
        "/api/show": show,
    }
    gone = endpoint(service, delete, "", envelope)
    return [
        *(
            Route(path, endpoint(service, door, "", envelope), methods=["POST"])
            for path, door in doors.items()
        ),
        Route("/api/delete", gone, methods=["DELETE"]),
        Route("/api/tags", told(facts.tags)),
        Route("/api/ps", told(facts.running)),
        Route("/api/version", told(version)),
    ]


def told(facts: Callable[[], Awaitable[dict[str, Any]]]) -> Callable[[Request], Any]:
    """A route that is asked nothing."""

    async def respond(request: Request) -> Response:
        try:
            return json_response(await facts())
        except PyriteError as error:
            status = status_of(error)
            return Response(envelope(error, status), status, media_type="application/json")

    return respond


def read(body: bytes, fields: Fields, kind: type[T]) -> tuple[T, Headers]:
    """Raises RequestError."""
    raw = json_object(body)
    headers = header_of(fields.check(raw))
    return converted(raw, kind), headers


def check_model(service: Service, name: str) -> None:
    """Raises HttpError 404."""
    service.card.check(name.removesuffix(LATEST))


def adapter_of(service: Service, name: str) -> str:
    return service.card.adapter_of(name.removesuffix(LATEST))


async def chat(
    service: Service, body: bytes, tenant: str, answer_id: str
) -> AnswerReply | JsonReply:
    """Raises RequestError, HttpError."""
    request, headers = read(body, CHAT, ChatRequest)
    check_model(service, request.model)
    if not request.messages:
        return JsonReply(loaded(request.model, as_message(Words())), headers)
    return AnswerReply(
        service,
        request,
        adapted([chat_ask(request, service.prompts.sampling)], adapter_of(service, request.model)),
        tenant,
        headers,
        shape=as_message,
    )


async def generate(
    service: Service, body: bytes, tenant: str, answer_id: str
) -> AnswerReply | JsonReply:
    """Raises RequestError, HttpError."""
    request, headers = read(body, GENERATE, GenerateRequest)
    check_model(service, request.model)
    if not request.prompt and not request.suffix:
        return JsonReply(loaded(request.model, as_response(Words())), headers)
    ask = generate_ask(
        request,
        has_template=service.prompts.template is not None,
        defaults=service.prompts.sampling,
    )
    asks = adapted([ask], adapter_of(service, request.model))
    return AnswerReply(service, request, asks, tenant, headers, shape=as_response)


async def embed(service: Service, body: bytes, tenant: str, answer_id: str) -> JsonReply:
    """Raises RequestError, HttpError."""
    request, headers = read(body, EMBED, EmbedRequest)
    check_model(service, request.model)
    texts = [request.input] if isinstance(request.input, str) else request.input
    vectors = await service.embed(
        texts,
        pooling=None,
        normalize=True,
        dimensions=request.dimensions,
        tenant=tenant,
        adapter=adapter_of(service, request.model),
    )
    reply = {
        "model": request.model,
        "embeddings": await encoded(map(numbers_of, vectors.data)),
        "prompt_eval_count": vectors.num_tokens,
    }
    return JsonReply(reply, headers)


async def embeddings(service: Service, body: bytes, tenant: str, answer_id: str) -> JsonReply:
    """The older form, for one text. Raises RequestError, HttpError."""
    request, headers = read(body, EMBEDDINGS, EmbeddingsRequest)
    check_model(service, request.model)
    vectors = await service.embed(
        [request.prompt],
        pooling=None,
        normalize=False,
        dimensions=None,
        tenant=tenant,
        adapter=adapter_of(service, request.model),
    )
    return JsonReply({"embedding": numbers_of(vectors.data[0])}, headers)


def numbers_of(data: bytes) -> list[float]:
    numbers: list[float] = np.frombuffer(data, dtype="<f4").tolist()
    return numbers


def check_keyed(service: Service) -> None:
    """Raises HttpError 403 where anyone at all may ask: models are then no client's to change."""
    if service.open_to_all:
        raise HttpError(
            403,
            "not_allowed",
            "models are neither pulled nor deleted by a public server without keys",
            hint="start it with --api-key, or use `pyrite pull` and `pyrite rm` where it runs",
        )


async def pull(service: Service, body: bytes, tenant: str, answer_id: str) -> PullReply:
    """Raises RequestError, HttpError 403."""
    check_keyed(service)
    request, headers = read(body, PULL, PullRequest)
    return PullReply(name_of(request), request.stream, headers=headers)


async def delete(service: Service, body: bytes, tenant: str, answer_id: str) -> JsonReply:
    """Raises RequestError, ModelNotFoundError, HttpError 403."""
    check_keyed(service)
    request, headers = read(body, DELETE, ModelRequest)
    remove(service, name_of(request))
    return JsonReply({}, headers)
