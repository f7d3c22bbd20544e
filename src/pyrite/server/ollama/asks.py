"""Requests of Ollama's dialect as internal asks. Knows no HTTP and no event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from pyrite.errors import ParameterError
from pyrite.sampling.grammar import Grammar
from pyrite.sampling.params import SamplingParams
from pyrite.server.ask import NEUTRAL, ChatAsk, TextAsk
from pyrite.server.ollama.types import (
    Asked,
    ChatRequest,
    Format,
    GenerateRequest,
    Message,
    ToolCall,
)
from pyrite.server.thinking import thinking_options
from pyrite.text.messages import arguments_of

LATEST = ":latest"  # the tag that a name without one has
MAX_TOP_LOGPROBS = 20
DEFAULTS = {"temperature": 0.8, "top_k": 40, "top_p": 0.9}  # Ollama's
UNTIL_THE_END = (-1, -2)  # of num_predict
SAMPLING_NAMES = {  # of options, and of SamplingParams
    "num_predict": "max_tokens",
    "repeat_penalty": "repetition_penalty",
}


def chat_ask(request: ChatRequest, defaults: Mapping[str, Any] = NEUTRAL) -> ChatAsk:
    """`defaults`: what the model's maker samples with; it goes before this dialect's own.

    Raises ParameterError.
    """
    return ChatAsk(
        conversation_of(request.messages),
        params_of(request, defaults),
        tools=request.tools,
        tool_choice="auto" if request.tools else "none",
        continue_final_message=request.messages[-1].role == "assistant",
        template_options=template_options(request),
    )


def generate_ask(
    request: GenerateRequest, *, has_template: bool, defaults: Mapping[str, Any] = NEUTRAL
) -> ChatAsk | TextAsk:
    """A prompt goes through the chat template, if there is one and it is wanted."""
    if request.raw or request.suffix or not has_template:
        if request.system:
            limit = "absent where the prompt goes to the model as it is"
            raise ParameterError("system", request.system, limit)
        return TextAsk(request.prompt, params_of(request, defaults), suffix=request.suffix or None)
    system = [{"role": "system", "content": request.system}] if request.system else []
    return ChatAsk(
        [*system, {"role": "user", "content": request.prompt}],
        params_of(request, defaults),
        tool_choice="none",
        template_options=template_options(request),
    )


def params_of(request: Asked, defaults: Mapping[str, Any]) -> SamplingParams:
    given = {
        SAMPLING_NAMES.get(name, name): value
        for name, value in msgspec.structs.asdict(request.options).items()
        if value is not None
    }
    if given.get("max_tokens") in UNTIL_THE_END:
        del given["max_tokens"]
    top = request.top_logprobs or 0
    if not 0 <= top <= MAX_TOP_LOGPROBS:
        raise ParameterError("top_logprobs", top, f"a whole number from 0 to {MAX_TOP_LOGPROBS}")
    if request.logprobs:
        given["logprobs"] = top
    fields = {**DEFAULTS, **defaults, **given}
    return SamplingParams(**fields, grammar=grammar_of(request.format))


def grammar_of(format: Format | None) -> Grammar | None:
    """Raises ParameterError for a schema beyond bounds."""
    if not format:
        return None
    return Grammar.json_object() if format == "json" else Grammar.json_schema(format)


def template_options(request: Asked) -> dict[str, Any]:
    if isinstance(request.think, str) and request.think:
        return thinking_options(True, request.think)
    return thinking_options(request.think if isinstance(request.think, bool) else None, None)


def conversation_of(given: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages in the shape of OpenAI's chat completions. Raises ParameterError."""
    calls = Calls()
    return [calls.message(one, f"messages[{index}]") for index, one in enumerate(given)]


class Calls:
    """Gives calls the ids that this dialect may leave out, and finds those of their results."""

    def __init__(self) -> None:
        self._count = 0
        self._open: list[tuple[str, str]] = []  # (id, name) of calls without a result yet

    def message(self, given: Message, where: str) -> dict[str, Any]:
        if not given.role:
            raise ParameterError(f"{where}.role", given.role, "user, assistant, system or tool")
        message: dict[str, Any] = {"role": given.role, "content": given.content or ""}
        if given.thinking:
            message["reasoning_content"] = given.thinking
        if given.tool_calls:
            message["tool_calls"] = [
                self._call(call, f"{where}.tool_calls[{index}]")
                for index, call in enumerate(given.tool_calls)
            ]
        if given.role == "tool":
            message.update(self._result(given))
        return message

    def _call(self, call: ToolCall, where: str) -> dict[str, Any]:
        self._count += 1
        call_id = call.id or f"call{self._count:05}"  # nine characters: some templates want them
        name = call.function.name
        self._open.append((call_id, name))
        arguments = arguments_of(call.function.arguments, f"{where}.function.arguments")
        function = {"name": name, "arguments": msgspec.json.encode(arguments).decode()}
        return {"id": call_id, "type": "function", "function": function}

    def _result(self, given: Message) -> dict[str, Any]:
        """The id and name of the call that a result is of: the first one open that fits."""
        for pair in self._open:
            if given.tool_call_id in (None, pair[0]) and given.tool_name in (None, pair[1]):
                self._open.remove(pair)
                return {"tool_call_id": pair[0], "name": pair[1]}
        fields = {"tool_call_id": given.tool_call_id, "name": given.tool_name}
        return {name: value for name, value in fields.items() if value is not None}
