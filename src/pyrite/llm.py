"""The door for Python: `load` a model, then generate, chat, stream, batch, or look at logits.

Texts become ids here and ids texts; everything else is the engine's. A `Model` may be used by
several threads, whose requests then run in one batch. What the first token does not need is
imported where it is used: a start is to cost little.
"""

from __future__ import annotations

import itertools
import operator
import threading
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pyrite.config import Settings
from pyrite.driver import Driver
from pyrite.errors import ParameterError
from pyrite.loading import Loaded, find_model, load_engine, make_template, sampling_defaults
from pyrite.request import Request
from pyrite.sampling.grammar import Grammar
from pyrite.sampling.params import SamplingParams, sampling_params
from pyrite.stream import Stream
from pyrite.text.chat import Message, encode_chat, is_text_alone, said

if TYPE_CHECKING:
    from pyrite.backends.base import Progress
    from pyrite.completion import Completion
    from pyrite.embedding import Embedder, EmbeddingRequest
    from pyrite.text.tools import ToolUse
    from pyrite.text.turn import ChatStyle, Turn

Prompt = str | Sequence[int]

# What could be walked as integers, but is meant otherwise, or has no order.
NOT_IDS = (bytes, bytearray, memoryview, Mapping, AbstractSet)


def load(
    model: str | Path,
    *,
    context: int | None = None,
    threads: int | None = None,
    precision: str = "default",
    backend: str = "cpu",
    kv_pages: int | None = None,
    kv_bytes: int | None = None,
    state_slots: int | None = None,
    kv_type: str = "f16",
    numa: str = "spread",
    quant: str | None = None,
    lora: Sequence[str] = (),
    kv_store_bytes: int | None = None,
    max_batch_tokens: int = 512,
    speculation: str | Path = "ngram",
    prefix_cache: bool = True,
    generation_config: str = "auto",
    progress: Progress | None = None,
) -> Model:
    """Loads a GGUF file, a folder of safetensors, or a model by its name.

    A name is an alias (`smollm2`) or `user/repo[:quant]` of the Hugging Face hub, and is fetched
    into the cache the first time.

    `context`: tokens that one request may hold, prompt and output together; by default the
    model's own, at most 8192, and less where memory is short. `threads`: by default one for each
    physical performance core that may be used. `precision`: "default" computes with at least 15
    bits of activation, "fast" with 8 except in the last layer and the head. `kv_pages` or
    `kv_bytes`: memory for the keys and values of all requests; only what is used is taken. With
    `prefix_cache`, what they do not need keeps the beginnings of earlier prompts and answers.
    `state_slots`: in a model with recurrent states, how many of them there is memory for, 64 if it
    suffices: half for requests that run at once, the others for beginnings that are kept.
    `kv_type`: "f16", or "q8" for 8 bits, which take about half the memory. `numa`: on a machine
    of several memory nodes "spread" keeps each thread to one and lays weights on all; or "off".
    `quant`: a recipe (`q4_k_m`, `q8_0`, ...; see `pyrite quantize`) that floating weights are
    quantized by at the first load, into a file in the cache which the next ones find.
    `lora`: adapters beside the model, "NAME=PATH" or "PATH" each: folders that PEFT wrote, or GGUF
    files. `Model.adapter` picks one.
    `speculation`: how next tokens are guessed, to be verified several in one step: "ngram" from
    what followed the same tokens before, or by a draft model of the same vocabulary, given by its
    path or name; "off" guesses nothing. Answers are the same, guessed or not.
    `kv_store_bytes`: disk in Pyrite's cache for pages of long prompts, which are read again by the
    next load of the model; by default none.
    `generation_config`: "auto" samples as the model's maker recommends (generation_config.json, or
    general.sampling.* of a GGUF file) where a call states nothing else, "off" does not.
    `progress`: called with (bytes done, of bytes) while weights are packed, which the first load
    of a model does.

    Raises ModelError, FetchError, CapacityError, BackendError, ParameterError.
    """
    settings = Settings(
        context=context,
        threads=threads,
        precision=precision,
        backend=backend,
        kv_pages=kv_pages,
        kv_bytes=kv_bytes,
        state_slots=state_slots,
        kv_type=kv_type,
        numa=numa,
        quant=quant,
        lora=tuple(lora),
        kv_store_bytes=kv_store_bytes,
        max_batch_tokens=max_batch_tokens,
        speculation=str(speculation),
        prefix_cache=prefix_cache,
        generation_config=generation_config,
    )
    return Model(load_engine(find_model(model), settings, progress))


class Model:
    """A loaded model. Made by `load`; close it, or use it in a `with` statement.

    `adapter` is the name of an adapter that was loaded (`lora`): requests from now on are made with
    it, and with none when it is empty.

    Every method that samples takes the fields of `SamplingParams` as keywords, or a whole
    `params`, which the keywords then override. Without `params` they override
    `sampling_defaults`, what the model's maker recommends. A prompt is text or token ids. Control
    tokens that are spelled in a text stay plain text unless `special=True`.
    """

    def __init__(self, loaded: Loaded) -> None:
        self.loaded = loaded
        self.tokenizer = loaded.tokenizer
        self.template = make_template(loaded.checkpoint, loaded.tokenizer)
        self.sampling_defaults = sampling_defaults(loaded.checkpoint, loaded.settings)
        self._adapter = ""
        self._driver = Driver(loaded.engine)
        self._embedding = threading.Lock()  # one call of `embed` at a time
        self._numbers = itertools.count()  # of requests

    @property
    def adapter(self) -> str:
        return self._adapter

    @adapter.setter
    def adapter(self, name: str) -> None:
        """Raises ParameterError for what is no loaded adapter's name."""
        if not isinstance(name, str):
            raise ParameterError("adapter", name, 'a name of an adapter, or "" for none')
        self.loaded.engine.adapter_number(name)
        self._adapter = name

    @property
    def context_length(self) -> int:
        """Tokens that one request may hold, prompt and output together."""
        return self.loaded.engine.context_length

    @property
    def vocabulary(self) -> int:
        """The width of the logits."""
        return self.loaded.engine.vocabulary

    def generate(
        self,
        prompt: Prompt,
        *,
        special: bool = False,
        params: SamplingParams | None = None,
        **sampling: Any,
    ) -> Completion:
        """Continues a prompt until it stops, or for `max_tokens`, or until the context is full.

        Raises RequestError for what cannot be asked, BackendError for a run that failed.
        """
        return _finish(self.stream(prompt, special=special, params=params, **sampling))

    def stream(
        self,
        prompt: Prompt,
        *,
        special: bool = False,
        params: SamplingParams | None = None,
        **sampling: Any,
    ) -> Stream:
        """As `generate`, token by token; closing the stream early cancels the request."""
        return self.start(self._ids(prompt, special), self._params(params, sampling))

    def chat(
        self,
        messages: str | Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        tool_choice: str | Mapping[str, Any] = "auto",
        parallel_tool_calls: bool = True,
        template_options: Mapping[str, Any] | None = None,
        params: SamplingParams | None = None,
        **sampling: Any,
    ) -> Completion:
        """Answers messages, or one text of a user, in the form of the model's chat template.

        `tools` are functions in the shape of OpenAI's chat completions; `tool_choice` is "auto",
        "none", "required" or `{"type": "function", "function": {"name": ...}}`, and the last two
        force a call. The completion has `tool_calls` and `reasoning` beside the content, which is
        its text. `template_options` are the template's own switches. Raises TemplateError when
        there is no template or it refuses the messages, and what `generate` does.
        """
        from pyrite.completion import sorted_out
        from pyrite.text.tools import tool_use

        asked = self._params(params, sampling)
        use = tool_use(tools or (), tool_choice, parallel=parallel_tool_calls)
        turn = self._turn(messages, tools, use, asked.grammar, template_options or {})
        ids = _listed(self.tokenizer.encode_segments(turn.segments, bos=True))
        whole = _finish(self.start(ids, in_turn(asked, turn)))
        parser = turn.parser()
        return sorted_out(whole, [*parser.push(str(whole)), *parser.finish()])

    def chat_stream(
        self,
        messages: str | Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        template_options: Mapping[str, Any] | None = None,
        params: SamplingParams | None = None,
        **sampling: Any,
    ) -> Stream:
        """The text of the answer as the model writes it, token by token, reasoning and calls and
        all; closing the stream early cancels the request."""
        ids = self.chat_ids(messages, tools=tools, **(template_options or {}))
        return self.start(ids, self._params(params, sampling))

    def batch(
        self,
        prompts: Iterable[Prompt],
        *,
        special: bool = False,
        params: SamplingParams | Sequence[SamplingParams] | None = None,
        **sampling: Any,
    ) -> list[Completion]:
        """Continues many prompts together, each as it would be alone. In the order of `prompts`.

        `params` may be a list, one for each prompt. A prompt that cannot be asked raises, and
        nothing is run; one that fails on the way has its `error` set and leaves the others be.
        """
        from pyrite.completion import join

        if isinstance(prompts, str):
            raise ParameterError("prompts", prompts, "a list of prompts, and not one text")
        ids = [self._ids(prompt, special) for prompt in prompts]
        each = params if isinstance(params, Sequence) else [params] * len(ids)
        if len(each) != len(ids):
            raise ParameterError("params", f"{len(each)} entries", f"{len(ids)}: one a prompt")
        asked = [self._params(one, sampling) for one in each]
        with ExitStack() as stack:
            streams = [
                stack.enter_context(self.start(*pair)) for pair in zip(ids, asked, strict=True)
            ]
            return [join(iter(stream.take, None)) for stream in streams]

    def _params(self, params: SamplingParams | None, given: Mapping[str, Any]) -> SamplingParams:
        if params is not None:
            return sampling_params(params, given)
        return sampling_params(None, {**self.sampling_defaults, **given})

    def tokenize(self, text: str, *, special: bool = False, bos: bool = False) -> list[int]:
        """`special`: control tokens spelled in the text become their ids. `bos`: begin with the
        beginning-of-text token, if the model wants one."""
        return _listed(self.tokenizer.encode(text, special=special, bos=bos))

    def detokenize(self, ids: Sequence[int], *, special: bool = False) -> str:
        """`special`: control tokens are spelled out, and not left away."""
        return self.tokenizer.decode(ids, skip_special=not special)

    def chat_ids(
        self,
        messages: str | Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        **options: Any,
    ) -> list[int]:
        """The ids that `chat` gives the model."""
        if not tools and is_text_alone(messages):
            return _listed(encode_chat(self.tokenizer, self.template, said(messages), **options))
        from pyrite.text.tools import tool_use

        turn = self._turn(messages, tools, tool_use(tools or ()), None, options)
        return _listed(self.tokenizer.encode_segments(turn.segments, bos=True))

    def _turn(
        self,
        messages: str | Sequence[Message],
        tools: Sequence[Mapping[str, Any]] | None,
        use: ToolUse,
        grammar: Grammar | None,
        options: Mapping[str, Any],
    ) -> Turn:
        content = None if grammar is None else (grammar.kind, grammar.source)
        return self._style.turn(said(messages), tools or (), use, content, **options)

    @cached_property
    def _style(self) -> ChatStyle:
        """Imported with the first chat that is more than text: starting is to cost little."""
        from pyrite.text.turn import ChatStyle

        return ChatStyle(self.template, self.tokenizer.control_id)

    def logits(self, prompt: Prompt, *, special: bool = False) -> NDArray[np.float32]:
        """Logits after each token of the prompt. (tokens, vocabulary)"""
        from pyrite.logits import all_logits

        ids = self._ids(prompt, special)
        with self._driver.exclusive() as engine:
            return all_logits(engine, ids, self.adapter)

    def embed(
        self,
        texts: str | Iterable[Prompt],
        *,
        pooling: str | None = None,
        normalize: bool = True,
        dimensions: int | None = None,
        special: bool = False,
    ) -> NDArray[np.float32]:
        """One vector a text, of its hidden states after the last norm. (texts, width)

        A single text gives (width,). `pooling`: "mean", "last" or "cls" (the first token); by
        default what the model's file says, else "mean". `normalize`: to length 1. `dimensions`:
        only the first so many. Raises ParameterError, ContextLengthError, BackendError.
        """
        from pyrite.embedding import EmbeddingRequest

        if pooling == "none":
            hint = "hidden_states gives one vector a token"
            raise ParameterError("pooling", pooling, "mean, last or cls", hint=hint)
        single = isinstance(texts, str)
        prompts: Iterable[Prompt] = (texts,) if isinstance(texts, str) else texts
        inputs = tuple(tuple(self._whole_ids(prompt, special)) for prompt in prompts)
        request = EmbeddingRequest("", inputs, pooling, normalize, dimensions, self.adapter)
        vectors = self._embedded(request)
        return vectors[0] if single else np.stack(vectors)

    def hidden_states(
        self,
        prompt: Prompt,
        *,
        normalize: bool = False,
        dimensions: int | None = None,
        special: bool = False,
    ) -> NDArray[np.float32]:
        """The state of each token after the last norm. (tokens, width)"""
        from pyrite.embedding import EmbeddingRequest

        ids = tuple(self._whole_ids(prompt, special))
        request = EmbeddingRequest("", (ids,), "none", normalize, dimensions, self.adapter)
        return self._embedded(request)[0]

    def _embedded(self, request: EmbeddingRequest) -> tuple[NDArray[np.float32], ...]:
        """Other threads' requests go on between two batches of this one."""
        with self._embedding:
            with self._driver.exclusive():
                self._embedder.add(request)
            while True:
                with self._driver.exclusive() as engine:
                    ended = self._embedder.step(engine.room_beside)
                for one in ended:
                    if one.error is not None:
                        raise one.error
                    return one.vectors

    @cached_property
    def _embedder(self) -> Embedder:
        from pyrite.embedding import Embedder

        return Embedder(self.loaded)

    def start(self, ids: Sequence[int], params: SamplingParams, *, choice: int = 0) -> Stream:
        """The request that every method above makes. Answers to one prompt with one seed differ
        by their `choice`."""
        request_id = str(next(self._numbers))
        request = Request(request_id, tuple(ids), params, choice=choice, adapter=self.adapter)
        return Stream(self._driver, request)

    def close(self) -> None:
        """Ends every request; from then on every use is an error."""
        self._driver.close()

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _whole_ids(self, prompt: Prompt, special: bool) -> list[int]:
        """Of a text that is embedded."""
        if isinstance(prompt, str):
            return _listed(self.tokenizer.encode_whole(prompt, special=special))
        return self._ids(prompt, special)

    def _ids(self, prompt: Prompt, special: bool) -> list[int]:
        if isinstance(prompt, str):
            return self.tokenize(prompt, special=special, bos=True)
        try:
            if isinstance(prompt, NOT_IDS):
                raise TypeError
            return [_token_id(given) for given in prompt]
        except TypeError:
            raise ParameterError("prompt", prompt, "text, or a sequence of token ids") from None


def _token_id(given: int) -> int:
    """Raises TypeError for what is no integer, and for a truth value, which is one to Python."""
    if isinstance(given, bool):
        raise TypeError
    return operator.index(given)


def in_turn(params: SamplingParams, turn: Turn) -> SamplingParams:
    """The parameters under which the answer of a turn can be read."""
    if turn.grammar is None and not turn.shown_token_ids:
        return params
    grammar = params.grammar if turn.grammar is None else Grammar.lark(turn.grammar)
    shown = tuple({*params.shown_token_ids, *turn.shown_token_ids})
    return replace(params, grammar=grammar, shown_token_ids=shown)


def _finish(stream: Stream) -> Completion:
    from pyrite.completion import join

    with stream:
        whole = join(iter(stream.take, None))
    if whole.error is not None:
        raise whole.error
    return whole


def _listed(ids: NDArray[np.int32]) -> list[int]:
    listed: list[int] = ids.tolist()
    return listed
