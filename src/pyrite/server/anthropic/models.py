"""The model and its aliases as Anthropic's clients list them, where OpenAI's list lies, too: they
say who they are by a header. Source: the public reference of the Models API."""

from __future__ import annotations

import datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route

from pyrite.errors import PyriteError
from pyrite.server.anthropic.errors import envelope
from pyrite.server.endpoints import json_response
from pyrite.server.errors import status_of
from pyrite.server.http import Scope
from pyrite.server.service import Service

VERSION = b"anthropic-version"  # a header that every client of this dialect sends


class DialectRoute(Route):
    """A route for this dialect's clients alone."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if all(name != VERSION for name, _ in scope.get("headers", ())):
            return Match.NONE, {}
        return super().matches(scope)


def model_routes(service: Service) -> list[BaseRoute]:
    card = service.card

    def described(name: str) -> dict[str, Any]:
        ready = service.link.ready
        created = datetime.datetime.fromtimestamp(card.created, datetime.UTC)
        return {
            "type": "model",
            "id": name,
            "display_name": name,
            "created_at": created.isoformat().replace("+00:00", "Z"),
            "lifecycle": "active",
            "max_input_tokens": ready and ready.context_length,
            "max_tokens": ready and ready.context_length,
        }

    async def models(request: Request) -> Response:
        names = card.names
        pages = {"has_more": False, "first_id": names[0], "last_id": names[-1]}
        return json_response({"data": [described(name) for name in names], **pages})

    async def model(request: Request) -> Response:
        name = request.path_params["name"]
        try:
            card.check(name)
        except PyriteError as error:
            status = status_of(error)
            return Response(envelope(error, status), status, media_type="application/json")
        return json_response(described(name))

    return [DialectRoute("/v1/models", models), DialectRoute("/v1/models/{name:path}", model)]
