"""The chat template that a model ships: messages in, text out, each character's origin known.

The variables, filters and tags are those of Transformers' apply_chat_template, whose result this
equals. The template is foreign code: it runs in `sandbox`, is bounded in size and work, and its
faults and refusals come out as TemplateError, which never quotes the template. Knows nothing of
tokens, and takes messages as they are (`messages.normalize` mends them).
"""

from __future__ import annotations

import datetime
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyrite.errors import TemplateError
from pyrite.text import metering, traced
from pyrite.text.messages import CALL_SHAPES, CallShape, normalize

if TYPE_CHECKING:
    from jinja2 import Template

MAX_TEMPLATE_CHARACTERS = 131_072  # those that models ship have up to about 20,000
MAX_MESSAGE_CHARACTERS = 500  # of an error that a template raises

# Names of roles are the protocol's words, not a user's text: `'<|' + role + '|>'` is a marker.
ROLES = frozenset(
    "assistant developer environment function ipython model observation system tool user".split()  # noqa: SIM905
)

Message = Mapping[str, Any]


class ChatTemplate:
    """Compiled at the first rendering. May be used by several threads at once."""

    def __init__(
        self,
        source: str,
        *,
        bos_token: str = "",
        eos_token: str = "",
        clock: Callable[[], datetime.datetime] = datetime.datetime.now,
    ) -> None:
        if len(source) > MAX_TEMPLATE_CHARACTERS:
            raise TemplateError(
                f"the chat template has {len(source)} characters, more than the limit of "
                f"{MAX_TEMPLATE_CHARACTERS}",
                hint="the model file is damaged or hostile; give the prompt as plain text instead",
            )
        self.bos_token = bos_token
        self.eos_token = eos_token
        self.source = source
        self._clock = clock
        self._compiled: Template | None = None

    def render(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]] | None = None,
        *,
        add_generation_prompt: bool = True,
        **kwargs: Any,
    ) -> str:
        """The prompt's text. `kwargs` are the template's own switches (`enable_thinking`, ...)."""
        variables = self._variables(messages, tools, add_generation_prompt, kwargs)
        return "".join((self._run(variables),))

    def segments(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]] | None = None,
        *,
        add_generation_prompt: bool = True,
        **kwargs: Any,
    ) -> list[tuple[str, bool]]:
        """The prompt's text in (text, trusted) runs: control tokens may stand in trusted text only.

        Trusted is what the template wrote, and the names of known roles; whatever came from a
        message, a tool or `kwargs`, or whose origin was lost on the way, is not.
        """
        variables = self._variables(messages, tools, add_generation_prompt, kwargs)
        return traced.segments(self._run(variables))

    @functools.cached_property
    def call_shape(self) -> CallShape:
        """What an assistant message with tool calls must look like: found by rendering one, once.

        The first shape wins whose call appears in the text, as JSON or in the template's own way:
        some templates fail on an object or print it as Python does, some pass over the calls of a
        message whose content is "".
        """
        for shape in CALL_SHAPES:
            text = self._probe(shape)
            if "probe_name" in text and "'probe_key'" not in text and "None" not in text:
                return shape
        return CALL_SHAPES[0]

    def _probe(self, shape: CallShape) -> str:
        arguments = {"probe_key": "probe_value"}
        call = {"type": "function", "function": {"name": "probe_name", "arguments": arguments}}
        question = {"role": "user", "content": "probe"}
        answer = {"role": "assistant", "content": None, "tool_calls": [{**call, "id": "probe0000"}]}
        try:
            return self.render(normalize([question, answer], shape), add_generation_prompt=False)
        except TemplateError:
            return ""

    def _variables(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]] | None,
        add_generation_prompt: bool,
        kwargs: Mapping[str, Any],
    ) -> dict[str, Any]:
        own: dict[str, Any] = {
            "messages": [with_known_role(message) for message in messages],
            "tools": None if tools is None else list(tools),
            "documents": kwargs.get("documents"),
            "add_generation_prompt": add_generation_prompt,
            "bos_token": traced.literal(self.bos_token),
            "eos_token": traced.literal(self.eos_token),
        }
        return dict(kwargs) | own

    def _run(self, variables: dict[str, Any]) -> str:
        from pyrite.text import sandbox

        num_items, num_characters = size(variables)
        token = metering.budget.set(metering.Budget(num_items, num_characters))
        try:
            compiled = self._compiled or self._compile()
            context = compiled.new_context(variables)
            return str(compiled.environment.concat(compiled.root_render_func(context)))
        except sandbox.Refusal as refusal:
            raise TemplateError(
                f"the chat template refuses the messages: {short(refusal)}"
            ) from None
        except metering.LimitError as error:
            raise TemplateError(
                f"the chat template was stopped: {error}",
                hint="the model file is damaged or hostile; give the prompt as plain text instead",
            ) from None
        except Exception as error:
            raise TemplateError(
                f"the chat template failed on these messages: {type(error).__name__}: "
                f"{short(error)}"
            ) from None
        finally:
            metering.budget.reset(token)

    def _compile(self) -> Template:
        from pyrite.text import sandbox

        environment = sandbox.TemplateEnvironment()
        environment.globals["raise_exception"] = refuse
        environment.globals["strftime_now"] = lambda format: strftime(self._clock(), format)
        self._compiled = environment.from_string(self.source)
        return self._compiled


def strftime(now: datetime.datetime, format: str) -> str:
    if len(format) > 256 or re.search(r"%[^a-zA-Z]*[0-9]", format):
        raise ValueError("strftime_now takes a format of at most 256 characters, no widths")
    return now.strftime(str(format))


def refuse(message: str) -> None:
    from pyrite.text import sandbox

    raise sandbox.Refusal(message)


def with_known_role(message: Message) -> Message:
    role = message.get("role") if isinstance(message, Mapping) else None
    if isinstance(role, str) and role in ROLES:
        return {**message, "role": traced.literal(role)}
    return message


def short(error: BaseException) -> str:
    """One line of the error's own words; a syntax error keeps its line number, not the line."""
    line = getattr(error, "lineno", None)
    text = str(getattr(error, "message", None) or error).replace("\n", " ")
    text = f"{text} (line {line})" if line else text
    return text if len(text) <= MAX_MESSAGE_CHARACTERS else text[:MAX_MESSAGE_CHARACTERS] + "..."


def size(value: Any) -> tuple[int, int]:
    """How many items and how many characters the variables hold, all levels together."""
    num_items = num_characters = 0
    stack = [value]
    while stack:
        item = stack.pop()
        num_items += 1
        if isinstance(item, str):
            num_characters += len(item)
        elif isinstance(item, Mapping):
            stack.extend(item.keys())
            stack.extend(item.values())
        elif isinstance(item, (list, tuple)):
            stack.extend(item)
    return num_items, num_characters
