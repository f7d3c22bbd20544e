"""POST /v1/chat/completions: JSON to a ChatAsk, events to JSON or chunks."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any

import msgspec

from pyrite.errors import ParameterError
from pyrite.request import PositionLogprobs, PrefixMiss, Usage
from pyrite.sampling.params import SamplingParams
from pyrite.server.ask import NEUTRAL, ChatAsk, Ended, Event, Part, Started, adapted
from pyrite.server.decoding import converted, json_object
from pyrite.server.fields import Fields, Refused, header_of
from pyrite.server.limits import DEFAULT_LIMITS, Limits
from pyrite.server.openai.reply import OpenAIReply, event
from pyrite.server.openai.sampling import Sampling, params_of
from pyrite.server.openai.toolchoice import callable_tools
from pyrite.server.service import Service
from pyrite.text.answer import CallArguments, CallStart, Content, Piece, Reasoning
from pyrite.text.tokenizer import Tokenizer

MAX_TOP_LOGPROBS = 20
LOWEST_LOGPROB = -9999.0  # what JSON says where a token was impossible
TEMPLATE_OPTIONS = ("enable_thinking", "thinking", "reasoning_effort", "documents", "date_string")


class StreamOptions(msgspec.Struct, kw_only=True):
    include_usage: bool = False


class ChatRequest(Sampling, kw_only=True):
    messages: list[dict[str, Any]]
    model: str | None = None
    stream: bool = False
    stream_options: StreamOptions = msgspec.field(default_factory=StreamOptions)
    max_completion_tokens: int | None = None
    n: int = 1
    logprobs: bool = False
    top_logprobs: int | None = None
    tools: list[dict[str, Any]] = msgspec.field(default_factory=list)
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool = True
    chat_template_kwargs: dict[str, Any] = msgspec.field(default_factory=dict)
    reasoning_effort: str | None = None
    continue_final_message: bool = False
    priority: int = 0
    cache_salt: str = ""
    explain_cache: bool = False
    return_token_ids: bool = False


TEXT_ALONE = Refused("this engine reads and writes text alone")
REFUSED = {
    "audio": TEXT_ALONE,
    "modalities": Refused(TEXT_ALONE.why, harmless=(["text"],)),
    "functions": Refused("give them as `tools`", harmless=([],)),
    "function_call": Refused("give it as `tool_choice`", harmless=("none", "auto")),
    "web_search_options": Refused("this server asks nobody else"),
    "grammar": Refused("write it in Lark's form, as `guided_grammar`"),
    "chat_template": Refused("templates are code, and clients may send none"),
    "use_beam_search": Refused("answers are sampled", harmless=(False,)),
}
EACH_ALIKE = "every request is served alike"
IGNORED = {
    "user": "requests are told apart by their API key",
    "safety_identifier": "requests are told apart by their API key",
    "metadata": "nothing is stored",
    "store": "nothing is stored",
    "service_tier": EACH_ALIKE,
    "verbosity": "no template has it",
    "prediction": "drafts are found in the prompt by themselves",
    "prompt_cache_key": "prefixes are found by their content",
    "prompt_cache_retention": "prefixes are kept while there is room",
    "cache_prompt": "prefixes are always looked up",
}
WORDS = {
    "max_tokens": "max_completion_tokens goes before it",
    "messages": "content is text, or a list of text parts",
    "response_format": "text, json_object or json_schema",
    "structured_outputs": "vLLM's form: one of json, regex, choice, grammar (Lark), json_object",
    "guided_json": "a schema, as response_format has it",
    "guided_grammar": "in Lark's form",
    "chat_template_kwargs": f"of {', '.join(TEMPLATE_OPTIONS)}",
    "cache_salt": "cached prefixes are shared by requests of one salt alone",
    "explain_cache": "say in cache_miss where the prompt parts from what is cached; what is "
    "cached is shown where it can be no other key's",
    "priority": "lower goes first",
}
FIELDS = Fields(ChatRequest, REFUSED, IGNORED, WORDS)


def ask_of(
    request: ChatRequest,
    limits: Limits = DEFAULT_LIMITS,
    defaults: Mapping[str, Any] = NEUTRAL,
) -> ChatAsk:
    """`defaults`: how to sample where the request does not say. Raises ParameterError."""
    if not 1 <= request.n <= limits.choices:
        raise ParameterError("n", request.n, f"a whole number from 1 to {limits.choices}")
    if not request.messages:
        raise ParameterError("messages", [], "at least one message")
    choice, tools = callable_tools(request.tool_choice, request.tools)
    return ChatAsk(
        request.messages,
        params(request, defaults),
        tools=tools,
        tool_choice=choice,
        parallel_tool_calls=request.parallel_tool_calls,
        n=request.n,
        continue_final_message=request.continue_final_message,
        template_options=template_options(request),
        priority=request.priority,
        cache_salt=request.cache_salt,
        explain_cache=request.explain_cache,
    )


def params(request: ChatRequest, defaults: Mapping[str, Any]) -> SamplingParams:
    fields = request.given()
    if request.max_completion_tokens is not None:
        fields["max_tokens"] = request.max_completion_tokens
    top = request.top_logprobs
    if top is not None and not 0 <= top <= MAX_TOP_LOGPROBS:
        raise ParameterError("top_logprobs", top, f"a whole number from 0 to {MAX_TOP_LOGPROBS}")
    if top is not None and not request.logprobs:
        raise ParameterError("top_logprobs", top, "absent unless logprobs is true")
    if request.logprobs:
        fields["logprobs"] = top or 0
    return params_of(fields, defaults)


def template_options(request: ChatRequest) -> dict[str, Any]:
    for name in request.chat_template_kwargs:
        if name not in TEMPLATE_OPTIONS:
            limit = f"with keys of {', '.join(TEMPLATE_OPTIONS)}"
            raise ParameterError("chat_template_kwargs", name, limit)
    options = dict(request.chat_template_kwargs)
    if request.reasoning_effort is not None:
        options.setdefault("reasoning_effort", request.reasoning_effort)
        if request.reasoning_effort == "none":
            options.setdefault("enable_thinking", False)
    return options


class ChatReply(OpenAIReply[ChatRequest, ChatAsk]):
    """One request's answer, whole or as chunks."""

    async def _streamed(self, events: AsyncGenerator[Event, None]) -> AsyncGenerator[bytes, None]:
        usages: list[Usage] = []
        miss: PrefixMiss | None = None
        async for happened in events:
            if isinstance(happened, Started):
                miss = happened.miss
                for number in range(self.request.n):
                    yield self._chunk(number, {"role": "assistant", "content": ""})
            elif isinstance(happened, Part):
                chunk = self._part(happened)
                if chunk:
                    yield chunk
            else:
                usages.append(happened.usage)
                yield self._end(happened, miss)
        if self.request.stream_options.include_usage:
            yield event(self._object([]) | {"usage": usage_of(usages)})
        yield b"data: [DONE]\n\n"

    def _part(self, part: Part) -> bytes:
        logprobs = self._logprobs(part.logprobs)
        deltas = deltas_of(part.pieces)
        if not deltas and logprobs:
            deltas = [{"content": ""}]
        extra: dict[str, Any] = {}
        if self.request.return_token_ids:
            extra["token_ids"] = part.token_ids
        chunks = []
        for position, delta in enumerate(deltas):
            first = position == 0
            chunks.append(
                self._chunk(part.choice, delta, logprobs if first else None, extra if first else {})
            )
        return b"".join(chunks)

    def _end(self, ended: Ended, miss: PrefixMiss | None) -> bytes:
        extra: dict[str, Any] = {"finish_reason": ended.reason, "stop_reason": ended.stopped_by}
        chunk = self._object([{"index": ended.choice, "delta": {}, "logprobs": None, **extra}])
        if miss is not None:
            chunk["cache_miss"] = miss
        return event(chunk)

    def _chunk(
        self,
        number: int,
        delta: dict[str, Any],
        logprobs: dict[str, Any] | None = None,
        extra: Mapping[str, Any] = {},
    ) -> bytes:
        choice = {"index": number, "delta": delta, "logprobs": logprobs, "finish_reason": None}
        return event(self._object([{**choice, **extra}]))

    def _object(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        kind = "chat.completion.chunk" if self.request.stream else "chat.completion"
        return self._shell(kind, choices)

    async def _whole(self, events: AsyncGenerator[Event, None]) -> bytes:
        messages = [Message() for _ in range(self.request.n)]
        usages: list[Usage] = []
        reply = self._object([])
        async for happened in events:
            if isinstance(happened, Started):
                if happened.miss is not None:
                    reply["cache_miss"] = happened.miss
            elif isinstance(happened, Part):
                messages[happened.choice].add(happened)
            else:
                usages.append(happened.usage)
                messages[happened.choice].end = happened
        reply["choices"] = [self._choice(number, one) for number, one in enumerate(messages)]
        reply["usage"] = usage_of(usages)
        return msgspec.json.encode(reply)

    def _choice(self, number: int, message: Message) -> dict[str, Any]:
        assert message.end is not None
        choice: dict[str, Any] = {
            "index": number,
            "message": message.as_dict(),
            "logprobs": self._logprobs(tuple(message.logprobs)),
            "finish_reason": message.end.reason,
            "stop_reason": message.end.stopped_by,
        }
        if self.request.return_token_ids:
            choice["token_ids"] = message.token_ids
        return choice

    def _logprobs(self, entries: tuple[PositionLogprobs, ...]) -> dict[str, Any] | None:
        if not self.request.logprobs:
            return None
        tokenizer = self.service.prompts.tokenizer
        return {"content": [position_of(entry, tokenizer) for entry in entries], "refusal": None}


class Message:
    """An assistant's message while it is put together."""

    def __init__(self) -> None:
        self.content: list[str] = []
        self.reasoning: list[str] = []
        self.calls: list[dict[str, Any]] = []
        self.logprobs: list[PositionLogprobs] = []
        self.token_ids: list[int] = []
        self.end: Ended | None = None

    def add(self, part: Part) -> None:
        self.logprobs += part.logprobs
        self.token_ids += part.token_ids
        for piece in part.pieces:
            if isinstance(piece, Content):
                self.content.append(piece.text)
            elif isinstance(piece, Reasoning):
                self.reasoning.append(piece.text)
            elif isinstance(piece, CallStart):
                function = {"name": piece.name, "arguments": ""}
                self.calls.append({"id": piece.call_id, "type": "function", "function": function})
            else:
                self.calls[piece.index]["function"]["arguments"] += piece.text

    def as_dict(self) -> dict[str, Any]:
        content = "".join(self.content)
        message: dict[str, Any] = {
            "role": "assistant",
            "content": None if self.calls and not content else content,
            "refusal": None,
        }
        if self.reasoning:
            message["reasoning_content"] = message["reasoning"] = "".join(self.reasoning)
        if self.calls:
            message["tool_calls"] = self.calls
        return message


def deltas_of(pieces: tuple[Piece, ...]) -> list[dict[str, Any]]:
    return [delta_of(piece) for piece in pieces]


def delta_of(piece: Piece) -> dict[str, Any]:
    if isinstance(piece, Content):
        return {"content": piece.text}
    if isinstance(piece, Reasoning):
        return {"reasoning_content": piece.text, "reasoning": piece.text}
    if isinstance(piece, CallStart):
        function = {"name": piece.name, "arguments": ""}
        call = {"index": piece.index, "id": piece.call_id, "type": "function", "function": function}
        return {"tool_calls": [call]}
    assert isinstance(piece, CallArguments), piece
    return {"tool_calls": [{"index": piece.index, "function": {"arguments": piece.text}}]}


def usage_of(usages: list[Usage]) -> dict[str, Any]:
    """Of all choices of one prompt: the prompt counts once."""
    prompt = max((usage.prompt_tokens for usage in usages), default=0)
    cached = min((usage.cached_tokens for usage in usages), default=0)
    completion = sum(usage.completion_tokens for usage in usages)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def position_of(entry: PositionLogprobs, tokenizer: Tokenizer) -> dict[str, Any]:
    top = [token_of(one.token_id, one.logprob, tokenizer) for one in entry.top]
    own = token_of(entry.token.token_id, entry.token.logprob, tokenizer)
    return {**own, "top_logprobs": top}


def token_of(token_id: int, logprob: float, tokenizer: Tokenizer) -> dict[str, Any]:
    raw = tokenizer.token_bytes(token_id)
    return {
        "token": raw.decode(errors="replace"),
        "logprob": max(logprob, LOWEST_LOGPROB),
        "bytes": list(raw),
    }


async def reply_to(service: Service, body: bytes, tenant: str, answer_id: str) -> ChatReply:
    """Raises RequestError, HttpError."""
    raw = json_object(body)
    headers = header_of(FIELDS.check(raw))
    request = converted(raw, ChatRequest)
    service.card.check(request.model)
    asks = adapted(
        [ask_of(request, service.limits, service.prompts.sampling)],
        service.card.adapter_of(request.model),
    )
    return ChatReply(service, request, asks, tenant, headers, answer_id=answer_id)
