"""The model and its aliases as Anthropic's clients list them, where OpenAI's list lies, too: they
say who they are by a header. Source: the public reference of the Models API."""

from __future__ import annotations

import datetime
from typing import Any

from starlette.routing import Match, Route

from pyrite.server.anthropic.errors import envelope
from pyrite.server.endpoints import model_routes
from pyrite.server.http import Scope
from pyrite.server.service import Service

VERSION = b"anthropic-version"  # a header that every client of this dialect sends


class DialectRoute(Route):
    """A route for this dialect's clients alone."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if all(name != VERSION for name, _ in scope.get("headers", ())):
            return Match.NONE, {}
        return super().matches(scope)


def models_of(service: Service) -> list[Route]:
    created = datetime.datetime.fromtimestamp(service.card.created, datetime.UTC)

    def describe(name: str) -> dict[str, Any]:
        ready = service.link.ready
        return {
            "type": "model",
            "id": name,
            "display_name": name,
            "created_at": created.isoformat().replace("+00:00", "Z"),
            "lifecycle": "active",
            "max_input_tokens": ready and ready.context_length,
            "max_tokens": ready and ready.context_length,
        }

    def listed(models: list[dict[str, Any]]) -> dict[str, Any]:
        ends = {"first_id": models[0]["id"], "last_id": models[-1]["id"]}
        return {"data": models, "has_more": False, **ends}

    return model_routes(service, describe, listed, envelope, DialectRoute)
