"""The requests of Ollama's API, and what becomes of each of their fields.

Source: Ollama's public reference of its API and the types of its Python client. Numbers are judged
by SamplingParams. Knows no engine and no event.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from pyrite.server.fields import Fields, Ignored, Refused


class Function(msgspec.Struct):
    name: str
    arguments: dict[str, Any] | str | None = None
    index: int | None = None


class ToolCall(msgspec.Struct):
    function: Function
    id: str | None = None
    type: str | None = None


class Message(msgspec.Struct):
    role: str
    content: str | None = None
    thinking: str | None = None
    tool_calls: list[ToolCall] | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None


class Options(msgspec.Struct):
    """`num_predict`: -1 is until the end, and so is -2, for what is full ends."""

    num_predict: int | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    typical_p: float | None = None
    repeat_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    seed: int | None = None
    stop: str | list[str] | None = None


Format = Literal["", "json"] | dict[str, Any]
Think = bool | Literal["", "low", "medium", "high", "max"]


class Asked(msgspec.Struct, kw_only=True):
    """What chat and generate have in common."""

    model: str
    options: Options = msgspec.field(default_factory=Options)
    stream: bool = True
    format: Format | None = None
    think: Think | None = None
    logprobs: bool = False
    top_logprobs: int | None = None


class ChatRequest(Asked, kw_only=True):
    messages: list[Message] = msgspec.field(default_factory=list)
    tools: list[dict[str, Any]] = msgspec.field(default_factory=list)


class GenerateRequest(Asked, kw_only=True):
    prompt: str = ""
    suffix: str | None = None
    system: str | None = None
    raw: bool = False


class EmbedRequest(msgspec.Struct, kw_only=True):
    model: str
    input: str | list[str]
    dimensions: int | None = None


class EmbeddingsRequest(msgspec.Struct, kw_only=True):
    model: str
    prompt: str


class ModelRequest(msgspec.Struct, kw_only=True):
    """Of show and delete. `name` is how `model` was called before."""

    model: str | None = None
    name: str | None = None


class PullRequest(ModelRequest, kw_only=True):
    stream: bool = True


TEXT_ALONE = Refused("this engine reads and writes text alone", harmless=([],))
AT_START = "it was settled when the server started"
LOADED = "the model stays while the server runs"

REFUSED_OPTIONS = {
    "options.mirostat": Refused("it is no way to sample here", harmless=(0,)),
}
IGNORED_OPTIONS: dict[str, Ignored | str] = {
    "options.num_ctx": Ignored(
        AT_START, kind=Annotated[int, msgspec.Meta(ge=1)], limit="a whole number from 1"
    ),
    **dict.fromkeys(
        [
            f"options.{name}"
            for name in (
                "numa", "num_batch", "num_gpu", "main_gpu", "low_vram", "f16_kv", "logits_all",
                "vocab_only", "use_mmap", "use_mlock", "embedding_only", "num_thread",
            )
        ],
        AT_START,
    ),
    "options.num_keep": "nothing is taken out of a conversation",
    "options.repeat_last_n": Ignored("repeat_penalty looks at all tokens", harmless=(-1,)),
    "options.tfs_z": Ignored("it is no way to sample here", harmless=(1, 1.0)),
    "options.mirostat_tau": "there is no mirostat",
    "options.mirostat_eta": "there is no mirostat",
    "options.penalize_newline": Ignored("newlines are penalized as all are", harmless=(True,)),
}  # fmt: skip
IGNORED: dict[str, Ignored | str] = {
    **IGNORED_OPTIONS,
    "keep_alive": LOADED,
    "truncate": Ignored("a prompt that is too long is refused, never cut", harmless=(False,)),
    "shift": Ignored("an answer ends where the context does", harmless=(False,)),
}
WORDS = {
    "model": "with or without :latest",
    "options": "temperature is 0.8, top_k 40 and top_p 0.9 by default, as in Ollama",
    "format": '"json", or a schema',
    "think": "true, false, or an effort: options of the chat template",
    "stream": "true by default",
}

CHAT = Fields(
    ChatRequest,
    {**REFUSED_OPTIONS, "messages[].images": TEXT_ALONE},
    IGNORED,
    {**WORDS, "messages": "none: says whether the model is here"},
)
GENERATE = Fields(
    GenerateRequest,
    {
        **REFUSED_OPTIONS,
        "images": TEXT_ALONE,
        "template": Refused("templates are code, and clients may send none", harmless=("",)),
        "context": Refused("send the conversation to /api/chat", harmless=([],)),
        "width": TEXT_ALONE,
        "height": TEXT_ALONE,
        "steps": TEXT_ALONE,
    },
    IGNORED,
    {
        **WORDS,
        "prompt": "none: says whether the model is here",
        "raw": "true: the prompt as it is, without the chat template",
        "suffix": "what comes after the answer, for models with fill-in tokens",
    },
)
EMBED = Fields(EmbedRequest, REFUSED_OPTIONS, {**IGNORED, "options": AT_START})
EMBEDDINGS = Fields(EmbeddingsRequest, {}, {"options": AT_START, "keep_alive": LOADED})
SHOW = Fields(ModelRequest, {}, {"verbose": "all is told, but for the tokenizer's lists"})
DELETE = Fields(ModelRequest)
PULL = Fields(PullRequest, {"insecure": Refused("downloads are checked", harmless=(False,))})
