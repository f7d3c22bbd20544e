"""POST /tokenize, /detokenize and /apply-template, in the words of vLLM and of llama.cpp."""

from __future__ import annotations

from typing import Any

import msgspec

from pyrite.errors import ParameterError
from pyrite.server.decoding import converted, json_object
from pyrite.server.endpoints import JsonReply
from pyrite.server.fields import Fields, header_of
from pyrite.server.openai.chat import FIELDS, ChatRequest, ask_of
from pyrite.server.prompts import size_of
from pyrite.server.service import Service
from pyrite.text.tokenizer import Tokenizer


class TokenizeRequest(msgspec.Struct, kw_only=True):
    model: str | None = None
    prompt: str | None = None
    content: str | None = None
    messages: list[dict[str, Any]] | None = None
    tools: list[dict[str, Any]] = msgspec.field(default_factory=list)
    add_special_tokens: bool | None = None
    add_special: bool | None = None
    parse_special: bool = True
    add_generation_prompt: bool = True
    return_token_strs: bool = False
    with_pieces: bool = False


class DetokenizeRequest(msgspec.Struct, kw_only=True):
    tokens: list[int]
    model: str | None = None


TOKENIZE = Fields(
    TokenizeRequest,
    words={
        "content": "llama.cpp's name of prompt",
        "messages": "the prompt that a chat template makes of them",
        "add_special_tokens": "begin with the beginning-of-text token, if the model wants one",
        "add_special": "llama.cpp's name of add_special_tokens",
        "parse_special": "false: control tokens that are spelled in the text stay text",
        "with_pieces": "llama.cpp's form: each token with its text",
    },
)
DETOKENIZE = Fields(DetokenizeRequest)


async def tokenize(service: Service, body: bytes, tenant: str, answer_id: str) -> JsonReply:
    """Raises RequestError, HttpError."""
    raw = json_object(body)
    headers = header_of(TOKENIZE.check(raw))
    request = converted(raw, TokenizeRequest)
    service.card.check(request.model)
    ids = await ids_of(service, request)
    reply: dict[str, Any] = {"tokens": ids, "count": len(ids)}
    reply["max_model_len"] = service.link.ready and service.link.ready.context_length
    prompts = service.prompts
    reply |= await prompts.apart(len(ids), spelled, prompts.tokenizer, ids, request)
    return JsonReply(reply, headers)


def spelled(tokenizer: Tokenizer, ids: tuple[int, ...], request: TokenizeRequest) -> dict[str, Any]:
    """The texts of the tokens, where they were asked for."""
    told: dict[str, Any] = {}
    if request.return_token_strs:
        told["token_strs"] = [tokenizer.token_text(token_id) for token_id in ids]
    if request.with_pieces:
        pieces = ((token_id, tokenizer.token_bytes(token_id)) for token_id in ids)
        told["tokens"] = [{"id": token_id, "piece": piece_of(raw)} for token_id, raw in pieces]
    return told


async def ids_of(service: Service, request: TokenizeRequest) -> tuple[int, ...]:
    text = request.prompt if request.prompt is not None else request.content
    if (text is None) == (request.messages is None):
        raise ParameterError("prompt", text, "given, or messages; not both")
    if request.messages is not None:
        ask = ask_of(ChatRequest(messages=request.messages, tools=request.tools))
        return await service.prompts.ids(ask)
    assert text is not None
    wanted = [one for one in (request.add_special_tokens, request.add_special) if one is not None]
    # vLLM begins with special tokens unless told otherwise, llama.cpp only where it is told to.
    begin = wanted[0] if wanted else request.prompt is not None
    return await service.prompts.encode(text, special=request.parse_special, bos=begin)


def piece_of(raw: bytes) -> str | list[int]:
    """Text, or the bytes of a part of a character."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return list(raw)


async def detokenize(service: Service, body: bytes, tenant: str, answer_id: str) -> JsonReply:
    """Raises RequestError, HttpError."""
    raw = json_object(body)
    headers = header_of(DETOKENIZE.check(raw))
    request = converted(raw, DetokenizeRequest)
    service.card.check(request.model)
    text = service.prompts.tokenizer.decode(request.tokens, skip_special=False)
    return JsonReply({"prompt": text, "content": text}, headers)


async def apply_template(service: Service, body: bytes, tenant: str, answer_id: str) -> JsonReply:
    """The text that a chat becomes, without asking the model."""
    raw = json_object(body)
    headers = header_of(FIELDS.check(raw))
    request = converted(raw, ChatRequest)
    service.card.check(request.model)
    ask = ask_of(request)
    turn = await service.prompts.apart(size_of(ask), service.prompts.turn, ask)
    segments = turn.segments
    return JsonReply({"prompt": "".join(text for text, _ in segments)}, headers)
