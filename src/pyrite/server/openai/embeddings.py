"""POST /v1/embeddings: one vector a text, as numbers or as base64 of little-endian float32."""

from __future__ import annotations

import base64
from typing import Any, Literal

import msgspec
import numpy as np

from pyrite.errors import ParameterError
from pyrite.server.decoding import converted, json_object
from pyrite.server.endpoints import JsonReply, encoded
from pyrite.server.fields import Fields, header_of
from pyrite.server.openai.completions import is_ids
from pyrite.server.service import Service
from pyrite.server.wire import Vectors


class EmbeddingsRequest(msgspec.Struct, kw_only=True):
    input: str | list[Any]
    model: str | None = None
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = None
    pooling: str | None = None
    normalize: bool = True


FIELDS = Fields(
    EmbeddingsRequest,
    ignored={"user": "requests are told apart by their API key"},
    words={
        "input": "a text, token ids, or a list of texts or ids",
        "pooling": "mean, last, cls or none; by default what the model's file says, else mean",
        "normalize": "to length 1",
        "dimensions": "only the first so many",
    },
)


async def reply_to(service: Service, body: bytes, tenant: str, answer_id: str) -> JsonReply:
    """Raises RequestError, HttpError."""
    raw = json_object(body)
    headers = header_of(FIELDS.check(raw))
    request = converted(raw, EmbeddingsRequest)
    service.card.check(request.model)
    adapter = service.card.adapter_of(request.model)
    vectors = await service.embed(
        inputs_of(request.input),
        pooling=request.pooling,
        normalize=request.normalize,
        dimensions=request.dimensions,
        tenant=tenant,
        adapter=adapter,
    )
    return JsonReply(await as_dict(vectors, request, adapter or service.card.name), headers)


def inputs_of(given: str | list[Any]) -> list[str | tuple[int, ...]]:
    """Raises ParameterError."""
    if isinstance(given, str):
        return [given]
    if is_ids(given):
        return [tuple(given)]
    inputs = [tuple(one) if is_ids(one) else one for one in given]
    if not inputs or not all(isinstance(one, (str, tuple)) for one in inputs):
        raise ParameterError("input", given, "a text, token ids, or a list of texts or of ids")
    return inputs


async def as_dict(vectors: Vectors, request: EmbeddingsRequest, model: str) -> dict[str, Any]:
    usage = {"prompt_tokens": vectors.num_tokens, "total_tokens": vectors.num_tokens}
    each = (
        {"object": "embedding", "index": index, "embedding": shaped(one, vectors.width, request)}
        for index, one in enumerate(vectors.data)
    )
    return {"object": "list", "data": await encoded(each), "model": model, "usage": usage}


def shaped(data: bytes, width: int, request: EmbeddingsRequest) -> Any:
    """Numbers of a vector, or of a list of vectors where there is one a token; or base64."""
    if request.encoding_format == "base64":
        return base64.b64encode(data).decode()
    numbers = np.frombuffer(data, "<f4")
    return numbers.reshape(-1, width).tolist() if request.pooling == "none" else numbers.tolist()
