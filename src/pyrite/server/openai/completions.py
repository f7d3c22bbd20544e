"""POST /v1/completions: texts or token ids, continued; with echo, best_of and log-probabilities."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

import msgspec

from pyrite.errors import ParameterError
from pyrite.request import PositionLogprobs, TokenLogprob
from pyrite.sampling.params import SamplingParams
from pyrite.server.ask import NEUTRAL, Ended, Event, Part, Started, TextAsk, adapted
from pyrite.server.decoding import converted, json_object
from pyrite.server.fields import Fields, Refused, header_of
from pyrite.server.limits import DEFAULT_LIMITS, Limits
from pyrite.server.openai.chat import (
    LOWEST_LOGPROB,
    StreamOptions,
    usage_of,
)
from pyrite.server.openai.reply import OpenAIReply, event
from pyrite.server.openai.sampling import Sampling, params_of
from pyrite.server.service import Service
from pyrite.text.answer import Content
from pyrite.text.tokenizer import Tokenizer

DEFAULT_MAX_TOKENS = 16  # as OpenAI's reference has it
MAX_LOGPROBS = 5
MAX_PROMPTS = 256


class CompletionRequest(Sampling, kw_only=True):
    prompt: str | list[Any]
    model: str | None = None
    stream: bool = False
    stream_options: StreamOptions = msgspec.field(default_factory=StreamOptions)
    n: int = 1
    best_of: int | None = None
    echo: bool = False
    suffix: str | None = None
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    priority: int = 0
    cache_salt: str = ""
    explain_cache: bool = False
    return_token_ids: bool = False


FIELDS = Fields(
    CompletionRequest,
    {"use_beam_search": Refused("answers are sampled", harmless=(False,))},
    {
        "user": "requests are told apart by their API key",
        "cache_prompt": "prefixes are always looked up",
    },
    {
        "prompt": "a text, token ids, or a list of them; control tokens spelled in it are such",
        "suffix": "what comes after, for models with fill-in tokens",
        "prompt_logprobs": "log-probabilities of the prompt's tokens, in vLLM's form; not streamed",
        "echo": "the answer begins with the prompt; with logprobs, its tokens have theirs",
        "best_of": "answers drawn, of which the n likeliest are given; not streamed",
    },
)


def asks_of(
    request: CompletionRequest,
    limits: Limits = DEFAULT_LIMITS,
    defaults: Mapping[str, Any] = NEUTRAL,
) -> list[TextAsk]:
    """One ask a prompt. `defaults`: how to sample where the request does not say.

    Raises ParameterError.
    """
    best_of = request.n if request.best_of is None else request.best_of
    if not 1 <= request.n <= limits.choices:
        raise ParameterError("n", request.n, f"a whole number from 1 to {limits.choices}")
    if not request.n <= best_of <= limits.choices:
        raise ParameterError("best_of", best_of, f"a whole number from n to {limits.choices}")
    if request.stream and best_of > request.n:
        raise ParameterError("best_of", best_of, "n where the answer is streamed")
    if request.stream and request.prompt_logprobs is not None:
        raise ParameterError("prompt_logprobs", request.prompt_logprobs, "absent from a stream")
    prompts = prompts_of(request.prompt)
    if len(prompts) * best_of > limits.answers:
        limit = f"such that prompts times best_of are at most {limits.answers}"
        raise ParameterError("n", request.n, limit)
    asked = params(request, defaults, ranked=best_of > request.n)
    return [
        TextAsk(
            prompt,
            asked,
            suffix=request.suffix or None,
            n=request.n,
            best_of=best_of,
            priority=request.priority,
            cache_salt=request.cache_salt,
            explain_cache=request.explain_cache,
        )
        for prompt in prompts
    ]


def params(
    request: CompletionRequest, defaults: Mapping[str, Any], *, ranked: bool
) -> SamplingParams:
    fields = {"max_tokens": DEFAULT_MAX_TOKENS, **request.given()}
    if request.logprobs is not None and not 0 <= request.logprobs <= MAX_LOGPROBS:
        raise ParameterError(
            "logprobs", request.logprobs, f"a whole number from 0 to {MAX_LOGPROBS}"
        )
    if request.prompt_logprobs is not None:
        fields["prompt_logprobs"] = request.prompt_logprobs
    elif request.echo and request.logprobs is not None:
        fields["prompt_logprobs"] = request.logprobs
    fields["logprobs"] = 0 if ranked and request.logprobs is None else request.logprobs
    return params_of(fields, defaults)


def prompts_of(given: str | list[Any]) -> list[str | tuple[int, ...]]:
    """A text, token ids, or a list of either. Raises ParameterError."""
    if isinstance(given, str):
        return [given]
    if is_ids(given):
        return [tuple(given)]
    prompts = [tuple(one) if is_ids(one) else one for one in given]
    if not prompts or any(one == () for one in prompts):
        raise ParameterError("prompt", given, "not empty")
    if not all(isinstance(one, (str, tuple)) for one in prompts):
        raise ParameterError("prompt", given, "a text, token ids, or a list of texts or of ids")
    if len(prompts) > MAX_PROMPTS:
        raise ParameterError("prompt", f"{len(prompts)} prompts", f"at most {MAX_PROMPTS}")
    return prompts


def is_ids(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) > 0
        and all(isinstance(one, int) and not isinstance(one, bool) for one in value)
    )


class CompletionReply(OpenAIReply[CompletionRequest, TextAsk]):
    """One request's answers, whole or as chunks."""

    async def _streamed(self, events: AsyncGenerator[Event, None]) -> AsyncGenerator[bytes, None]:
        texts = self._texts()
        ended: list[Ended] = []
        async for happened in events:
            if isinstance(happened, Started):
                texts[happened.choice].start(happened)
                for number in range(happened.choice, happened.choice + self.request.n):
                    texts[number].start(happened)
                    if self.request.echo:
                        yield self._chunk(number, texts[number].take(self.request.logprobs))
            elif isinstance(happened, Part):
                text = texts[happened.choice]
                text.add(happened)
                taken = text.take(self.request.logprobs)
                yield self._chunk(happened.choice, {**taken, **self._ids(happened.token_ids)})
            else:
                ended.append(happened)
                last = {"text": "", "logprobs": None, "finish_reason": happened.reason}
                yield self._chunk(happened.choice, {**last, "stop_reason": happened.stopped_by})
        if self.request.stream_options.include_usage:
            yield event(self._object([]) | {"usage": self._usage(texts, ended)})
        yield b"data: [DONE]\n\n"

    async def _whole(self, events: AsyncGenerator[Event, None]) -> bytes:
        texts = self._texts()
        ended: dict[int, Ended] = {}
        reply = self._object([])
        async for happened in events:
            if isinstance(happened, Started):
                for number in range(happened.choice, happened.choice + self.asks[0].best_of):
                    texts[number].start(happened)
                if happened.miss is not None:
                    reply["cache_miss"] = happened.miss
            elif isinstance(happened, Part):
                texts[happened.choice].add(happened)
            else:
                ended[happened.choice] = happened
        for index, number in enumerate(self._best(texts)):
            end: dict[str, Any] = {
                "finish_reason": ended[number].reason,
                "stop_reason": ended[number].stopped_by,
            }
            text = texts[number].take(self.request.logprobs)
            ids = self._ids(texts[number].token_ids)
            scores = texts[number].prompt_scores
            if self.request.prompt_logprobs is not None and scores:
                end["prompt_logprobs"] = [entry and self._scored(entry) for entry in scores]
            reply["choices"].append({"index": index, **text, **ids, **end})
        reply["usage"] = self._usage(texts, list(ended.values()))
        return msgspec.json.encode(reply)

    def _texts(self) -> list[Text]:
        tokenizer = self.service.prompts.tokenizer
        count = len(self.asks) * self.asks[0].best_of
        return [Text(tokenizer, echo=self.request.echo) for _ in range(count)]

    def _ids(self, token_ids: Sequence[int]) -> dict[str, Any]:
        return {"token_ids": list(token_ids)} if self.request.return_token_ids else {}

    def _scored(self, entry: PositionLogprobs) -> dict[str, Any]:
        """vLLM's form: by token id."""
        tokenizer = self.service.prompts.tokenizer
        return {
            str(one.token_id): {
                "logprob": floored(one),
                "decoded_token": tokenizer.token_bytes(one.token_id).decode(errors="replace"),
            }
            for one in (*entry.top, entry.token)
        }

    def _best(self, texts: Sequence[Text]) -> list[int]:
        """Numbers of the n likeliest answers of each prompt, by mean log-probability."""
        best_of, wanted = self.asks[0].best_of, self.request.n
        chosen: list[int] = []
        for first in range(0, len(texts), best_of):
            numbers = range(first, first + best_of)
            if best_of > wanted:
                numbers = sorted(numbers, key=lambda one: -texts[one].mean_logprob)  # type: ignore[assignment]
            chosen += list(numbers)[:wanted]
        return chosen

    def _chunk(self, number: int, text: dict[str, Any]) -> bytes:
        return event(self._object([{"index": number, "finish_reason": None, **text}]))

    def _usage(self, texts: Sequence[Text], ended: Sequence[Ended]) -> dict[str, Any]:
        """Each prompt counts once, however many answers it has."""
        best_of = self.asks[0].best_of
        firsts = [end for end in ended if end.choice % best_of == 0]
        usage = usage_of([end.usage for end in ended])
        usage["prompt_tokens"] = sum(end.usage.prompt_tokens for end in firsts)
        cached = sum(end.usage.cached_tokens for end in firsts)
        usage["prompt_tokens_details"] = {"cached_tokens": cached}
        usage["total_tokens"] = usage["prompt_tokens"] + usage["completion_tokens"]
        return usage

    def _object(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return self._shell("text_completion", choices)


class Text:
    """One answer's text and log-probabilities, from where they were last taken."""

    def __init__(self, tokenizer: Tokenizer, *, echo: bool) -> None:
        self._tokenizer = tokenizer
        self._echo = echo
        self._text = ""
        self._entries: list[tuple[int, PositionLogprobs | None]] = []
        self.token_ids: list[int] = []
        self.prompt_scores: tuple[PositionLogprobs | None, ...] = ()
        self._offset = 0
        self._sum = 0.0
        self._count = 0

    @property
    def mean_logprob(self) -> float:
        return self._sum / max(self._count, 1)

    def start(self, started: Started) -> None:
        self.prompt_scores = started.prompt_logprobs
        if not self._echo or self._text or self._entries:
            return
        self._text = self._tokenizer.decode(started.prompt_ids, skip_special=False)
        if started.prompt_logprobs:
            pairs = zip(started.prompt_ids, started.prompt_logprobs, strict=True)
            self._entries = list(pairs)

    def add(self, part: Part) -> None:
        self.token_ids += part.token_ids
        self._text += "".join(piece.text for piece in part.pieces if isinstance(piece, Content))
        self._entries += [(entry.token.token_id, entry) for entry in part.logprobs]
        self._sum += sum(entry.token.logprob for entry in part.logprobs)
        self._count += len(part.logprobs)

    def take(self, logprobs: int | None) -> dict[str, Any]:
        text, self._text = self._text, ""
        entries, self._entries = self._entries, []
        shown = None if logprobs is None else self._shown(entries)
        return {"text": text, "logprobs": shown}

    def _shown(self, entries: list[tuple[int, PositionLogprobs | None]]) -> dict[str, Any]:
        tokens = [self._spelled(token_id) for token_id, _ in entries]
        offsets = []
        for token in tokens:
            offsets.append(self._offset)
            self._offset += len(token)
        return {
            "tokens": tokens,
            "token_logprobs": [entry and floored(entry.token) for _, entry in entries],
            "top_logprobs": [entry and self._top(entry) for _, entry in entries],
            "text_offset": offsets,
        }

    def _top(self, entry: PositionLogprobs) -> dict[str, float]:
        return {self._spelled(one.token_id): floored(one) for one in (entry.token, *entry.top)}

    def _spelled(self, token_id: int) -> str:
        """A token's text; of one that is part of a character its bytes, as OpenAI writes them."""
        raw = self._tokenizer.token_bytes(token_id)
        try:
            return raw.decode()
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in raw)


def floored(one: TokenLogprob) -> float:
    return max(one.logprob, LOWEST_LOGPROB)


async def reply_to(service: Service, body: bytes, tenant: str, answer_id: str) -> CompletionReply:
    """Raises RequestError, HttpError."""
    raw = json_object(body)
    headers = header_of(FIELDS.check(raw))
    request = converted(raw, CompletionRequest)
    service.card.check(request.model)
    asks = adapted(
        asks_of(request, service.limits, service.prompts.sampling),
        service.card.adapter_of(request.model),
    )
    return CompletionReply(service, request, asks, tenant, headers, answer_id=answer_id)
