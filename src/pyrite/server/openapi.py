"""The OpenAPI document and the table of fields, from the very types that requests are read into.

Knows the requests of every dialect, and nothing of how they are answered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from pyrite import __version__
from pyrite.server.anthropic.types import COUNT, MESSAGES
from pyrite.server.fields import Fields
from pyrite.server.ollama import types as ollama
from pyrite.server.openai import chat, completions, embeddings, tokens
from pyrite.server.openai.responses.types import RESPONSES

EVENTS = "text/event-stream"
LINES = "application/x-ndjson"


@dataclass(frozen=True, slots=True)
class Operation:
    """One route with a body. `stream` is the media type of its streams, if it has any."""

    path: str
    words: str
    fields: Fields
    stream: str = ""
    method: str = "post"


OPERATIONS: tuple[Operation, ...] = (
    Operation("/v1/chat/completions", "OpenAI: answer a chat", chat.FIELDS, EVENTS),
    Operation("/v1/completions", "OpenAI: continue a text", completions.FIELDS, EVENTS),
    Operation("/v1/responses", "OpenAI: answer, without a memory", RESPONSES, EVENTS),
    Operation("/v1/embeddings", "OpenAI: vectors of texts", embeddings.FIELDS),
    Operation("/v1/messages", "Anthropic: answer a chat", MESSAGES, EVENTS),
    Operation("/v1/messages/count_tokens", "Anthropic: count a prompt", COUNT),
    Operation("/v1/responses/input_tokens", "OpenAI: count a prompt", RESPONSES),
    Operation("/api/chat", "Ollama: answer a chat", ollama.CHAT, LINES),
    Operation("/api/generate", "Ollama: answer a prompt, or continue it", ollama.GENERATE, LINES),
    Operation("/api/embed", "Ollama: vectors of texts", ollama.EMBED),
    Operation("/api/embeddings", "Ollama: the vector of a text", ollama.EMBEDDINGS),
    Operation("/api/show", "Ollama: what the model's file says", ollama.SHOW),
    Operation("/api/pull", "Ollama: bring a model into the cache", ollama.PULL, LINES),
    Operation("/api/delete", "Ollama: remove one from it", ollama.DELETE, method="delete"),
    Operation("/tokenize", "tokens of a text, or of a chat", tokens.TOKENIZE),
    Operation("/detokenize", "text of tokens", tokens.DETOKENIZE),
    Operation("/apply-template", "the text that a chat becomes", chat.FIELDS),
)

# Routes without a body: path -> what it tells.
READ: dict[str, str] = {
    "/livez": "whether the server lives; needs no key",
    "/readyz": "whether it answers: 503 while it loads or drains",
    "/health": "as /readyz",
    "/version": "Pyrite's version",
    "/metrics": "figures for Prometheus, under vLLM's names",
    "/v1/models": "the model and its aliases; Anthropic's list where anthropic-version is sent",
    "/api/tags": "Ollama: the names that the model answers to",
    "/api/ps": "Ollama: the model, once it is loaded",
    "/api/version": "Ollama: the release whose API this is, and Pyrite's version",
    "/openapi.json": "this document",
}
STATUSES = {
    "400": "a field is out of bounds; the message names it",
    "401": "no key, or a wrong one",
    "403": "a foreign host name or origin",
    "404": "no such model",
    "408": "the request came too slowly",
    "413": "the body is too large",
    "415": "the body is not JSON",
    "429": "too many requests; Retry-After says how long to wait",
    "500": "a bug, or the model failed",
    "503": "loading or draining; Retry-After says how long to wait",
}


def document() -> dict[str, Any]:
    """OpenAPI 3.1."""
    kinds = [operation.fields.kind for operation in OPERATIONS]
    schemas, components = msgspec.json.schema_components(
        kinds, ref_template="#/components/schemas/{name}"
    )
    paths: dict[str, Any] = {
        operation.path: {operation.method: posted(operation, schema)}
        for operation, schema in zip(OPERATIONS, schemas, strict=True)
    }
    for path, words in READ.items():
        paths[path] = {"get": {"summary": words, "responses": read_responses(path)}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Pyrite", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"key": []}],
    }


def posted(operation: Operation, schema: dict[str, Any]) -> dict[str, Any]:
    content: dict[str, Any] = {"application/json": {"schema": {"type": "object"}}}
    if operation.stream:
        content[operation.stream] = {}  # 3.1 has no schema of what comes one after another
    return {
        "summary": operation.words,
        "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
        "responses": {"200": {"description": "the answer", "content": content}, **refusals()},
    }


def refusals() -> dict[str, Any]:
    content = {"application/json": {"schema": {"type": "object"}}}
    return {
        status: {"description": words, "content": content} for status, words in STATUSES.items()
    }


def read_responses(path: str) -> dict[str, Any]:
    kind = "text/plain" if path == "/metrics" else "application/json"
    content = {kind: {"schema": {"type": "string" if path == "/metrics" else "object"}}}
    return {"200": {"description": "as asked", "content": content}, **refusals()}


def markdown(operations: Sequence[Operation] = OPERATIONS) -> str:
    """The table of what is used, refused and ignored, route by route."""
    lines: list[str] = []
    for operation in operations:
        lines += [f"### {operation.method.upper()} {operation.path}", "", operation.words + ".", ""]
        lines += ["| field | | |", "| --- | --- | --- |"]
        for row in operation.fields.rows():
            words = row.words.replace("|", "\\|")
            lines.append(f"| `{row.name}` | {row.fate} | {words} |")
        lines.append("")
    return "\n".join(lines)
