"""The OpenAI dialect: chat completions, completions, responses, embeddings, models, tokens."""

from __future__ import annotations

from starlette.routing import BaseRoute, Route

from pyrite.server.endpoints import endpoint, model_routes
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
        *models_of(service),
    ]


def models_of(service: Service) -> list[Route]:
    def describe(name: str) -> dict[str, object]:
        ready = service.link.ready
        return {
            "id": name,
            "object": "model",
            "created": service.card.created,
            "owned_by": "pyrite",
            "max_model_len": ready and ready.context_length,
        }

    return model_routes(
        service, describe, lambda models: {"object": "list", "data": models}, envelope
    )
