"""A second door with vLLM's names, for programs that were written for it: LLM and SamplingParams.

Thin: it translates names and defaults, and the work is `pyrite.llm`'s. What is not translated is
an unknown keyword, hence an error. Names and defaults: vLLM's documentation of its offline API.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from pyrite.completion import Completion, join
from pyrite.errors import ParameterError
from pyrite.llm import load
from pyrite.request import PositionLogprobs
from pyrite.sampling import params as ours

Prompt = str | Mapping[str, Any]  # a mapping has "prompt" or "prompt_token_ids"


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """vLLM's parameters; bounds are those of `pyrite.sampling.params`."""

    n: int = 1
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0  # 0 or -1: all
    min_p: float = 0.0
    seed: int | None = None
    stop: str | Sequence[str] | None = None
    stop_token_ids: Sequence[int] | None = None
    ignore_eos: bool = False
    max_tokens: int | None = 16
    min_tokens: int = 0
    logprobs: int | None = None
    skip_special_tokens: bool = True
    include_stop_str_in_output: bool = False
    logit_bias: Mapping[int, float] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.n, bool) or not isinstance(self.n, int) or not 1 <= self.n <= 128:
            raise ParameterError("n", self.n, "a whole number from 1 to 128")
        self.translated()

    def translated(self) -> ours.SamplingParams:
        return ours.SamplingParams(
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            top_k=0 if self.top_k == -1 else self.top_k,
            top_p=self.top_p,
            min_p=self.min_p,
            repetition_penalty=self.repetition_penalty,
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
            logit_bias=self.logit_bias or {},
            seed=self.seed,
            min_tokens=self.min_tokens,
            stop=(self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ()),
            stop_token_ids=tuple(self.stop_token_ids or ()),
            ignore_eos=self.ignore_eos,
            logprobs=self.logprobs,
            skip_special_tokens=self.skip_special_tokens,
            include_stop=self.include_stop_str_in_output,
        )


Params = SamplingParams | ours.SamplingParams  # those of the first door are taken too


def _choices(params: Params) -> list[ours.SamplingParams]:
    """What each of the `n` answers to a prompt is sampled with."""
    if isinstance(params, SamplingParams):
        return [params.translated()] * params.n
    if isinstance(params, ours.SamplingParams):
        return [params]
    raise ParameterError("sampling_params", params, "a SamplingParams")


@dataclass(frozen=True, slots=True)
class Logprob:
    """`rank` is 1 for the likeliest token, None for a sampled one that is not among the top."""

    logprob: float
    rank: int | None
    decoded_token: str


@dataclass(frozen=True, slots=True)
class CompletionOutput:
    index: int
    text: str
    token_ids: list[int]
    cumulative_logprob: float | None
    logprobs: list[dict[int, Logprob]] | None
    finish_reason: str | None


@dataclass(frozen=True, slots=True)
class RequestOutput:
    request_id: str
    prompt: str | None
    prompt_token_ids: list[int]
    outputs: list[CompletionOutput] = field(default_factory=list)
    finished: bool = True


class LLM:
    """`model` is what `pyrite.load` takes; `max_model_len` is its `context`."""

    def __init__(
        self, model: str | Path, *, max_model_len: int | None = None, **options: Any
    ) -> None:
        self.model = load(model, context=max_model_len, **options)

    def get_default_sampling_params(self) -> SamplingParams:
        """Of calls that give none: what the model's maker recommends."""
        known = {one.name for one in fields(SamplingParams)}
        hints: Mapping[str, Any] = self.model.sampling_defaults
        return SamplingParams(**{name: hints[name] for name in hints.keys() & known})

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        sampling_params: Params | Sequence[Params] | None = None,
    ) -> list[RequestOutput]:
        """Continues the prompts together. Control tokens spelled in a text are taken as such.

        Raises RequestError for a prompt that cannot be asked, and the error of a request that
        failed on the way.
        """
        listed = [prompts] if isinstance(prompts, (str, Mapping)) else list(prompts)
        return self._run([self._prompt(prompt) for prompt in listed], sampling_params)

    def chat(
        self,
        messages: Sequence[Any],
        sampling_params: Params | Sequence[Params] | None = None,
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
    ) -> list[RequestOutput]:
        """Answers one conversation, or each of a list of conversations."""
        alone = all(isinstance(message, Mapping) for message in messages)
        conversations = [messages] if alone else messages
        prompts: list[tuple[str | None, list[int]]] = [
            (
                None,
                self.model.chat_ids(one, tools=tools, add_generation_prompt=add_generation_prompt),
            )
            for one in conversations
        ]
        return self._run(prompts, sampling_params)

    def _prompt(self, prompt: Prompt) -> tuple[str | None, list[int]]:
        given = {"prompt": prompt} if isinstance(prompt, str) else prompt
        text = given.get("prompt")
        if "prompt_token_ids" in given:
            return text, list(given["prompt_token_ids"])
        if not isinstance(text, str):
            raise ParameterError("prompt", prompt, "text, or a mapping with prompt_token_ids")
        return text, self.model.tokenize(text, special=True, bos=True)

    def _run(
        self,
        prompts: list[tuple[str | None, list[int]]],
        params: Params | Sequence[Params] | None,
    ) -> list[RequestOutput]:
        each = (
            params
            if isinstance(params, Sequence)
            else [params or self.get_default_sampling_params()] * len(prompts)
        )
        if len(each) != len(prompts):
            raise ParameterError("sampling_params", f"{len(each)} entries", "one for each prompt")
        with ExitStack() as stack:
            started = [
                [
                    stack.enter_context(self.model.start(ids, translated, choice=choice))
                    for choice, translated in enumerate(_choices(one))
                ]
                for (_, ids), one in zip(prompts, each, strict=True)
            ]
            answers = [[join(iter(stream.take, None)) for stream in group] for group in started]
        return [
            RequestOutput(str(number), text, ids, self._outputs(group))
            for number, ((text, ids), group) in enumerate(zip(prompts, answers, strict=True))
        ]

    def _outputs(self, answers: list[Completion]) -> list[CompletionOutput]:
        for answer in answers:
            if answer.error is not None:
                raise answer.error
        return [
            CompletionOutput(
                index=index,
                text=answer.text,
                token_ids=list(answer.token_ids),
                cumulative_logprob=_total(answer.logprobs),
                logprobs=[self._logprobs(entry) for entry in answer.logprobs] or None,
                finish_reason=answer.finish_reason,
            )
            for index, answer in enumerate(answers)
        ]

    def _logprobs(self, entry: PositionLogprobs) -> dict[int, Logprob]:
        ranked = [(one, rank) for rank, one in enumerate(entry.top, start=1)]
        known = {one.token_id for one in entry.top}
        everyone = ranked if entry.token.token_id in known else [(entry.token, None), *ranked]
        return {
            one.token_id: Logprob(one.logprob, rank, self.model.tokenizer.token_text(one.token_id))
            for one, rank in everyone
        }


def _total(entries: Sequence[PositionLogprobs]) -> float | None:
    return sum(entry.token.logprob for entry in entries) if entries else None
