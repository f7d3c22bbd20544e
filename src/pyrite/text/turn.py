"""One turn of a chat: the prompt, what constrains its answer, and the parser that takes it apart.

Whoever answers chats makes one `ChatStyle` for a model and asks it for a `Turn` for each request;
no other module needs to know how a family of models reasons or calls tools. Knows no engine.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from pyrite.errors import ParameterError, TemplateError
from pyrite.text.answers import AnswerParser
from pyrite.text.callgrammar import FindToken, call_grammar
from pyrite.text.calls.bodies import CallFormat
from pyrite.text.chat import Segments, chat_segments
from pyrite.text.reasoning import ReasoningFormat, find_reasoning, starts_in_reasoning
from pyrite.text.template import ChatTemplate
from pyrite.text.toolprompt import ToolManners, is_plain, mend, mend_plain
from pyrite.text.tools import ToolUse

Rule = tuple[str, str]  # kind and source of a grammar, as sampling/grammar.py has them


@dataclass(frozen=True, slots=True)
class Turn:
    """`segments` are the prompt. The answer's text must show `shown_token_ids`, and its grammar is
    `grammar` (Lark), or what the request has already where that is None. Each answer to the prompt
    gets a `parser` of its own."""

    segments: Segments
    grammar: str | None
    shown_token_ids: tuple[int, ...]
    calls: CallFormat | None
    reasoning: ReasoningFormat | None
    starts_in_reasoning: bool
    schemas: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def parser(self) -> AnswerParser:
        return AnswerParser(
            self.calls,
            self.reasoning,
            starts_in_reasoning=self.starts_in_reasoning,
            tools=self.schemas,
        )


class ChatStyle:
    """How one model chats. `find` gives the id of a special token (`Tokenizer.control_id`).

    Without a template there are no chats: `turn` raises TemplateError. May be used by several
    threads at once.
    """

    def __init__(self, template: ChatTemplate | None, find: FindToken) -> None:
        self.template = template
        self.reasoning = None if template is None else find_reasoning(template.source)
        self._find = find

    @cached_property
    def manners(self) -> ToolManners:
        """Found by rendering small conversations, at the first chat: some ten milliseconds."""
        assert self.template is not None, "no template to look at"
        return ToolManners.of(self.template)

    def turn(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] = (),
        use: ToolUse | None = None,
        content: Rule | None = None,
        *,
        continue_final_message: bool = False,
        **options: Any,
    ) -> Turn:
        """`use` is what `tool_use` made of `tools`; `content` the grammar that the request gives
        for content. Raises TemplateError, ParameterError.
        """
        use = use or ToolUse()
        listed = tools if use.mode != "none" else ()
        segments = self._prompt(
            messages, listed, continue_final_message=continue_final_message, **options
        )
        return self._turn(segments, use, content)

    def _prompt(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        **options: Any,
    ) -> Segments:
        """A conversation without tools is rendered as it is: only if its template refuses it is
        the template looked at more closely."""
        given = mend_plain(messages)
        if self.template is None or is_plain(given, tools):
            try:
                return chat_segments(self.template, given, **options)
            except TemplateError:
                if self.template is None or not self.manners.needs_list:
                    raise
        return chat_segments(self.template, *mend(self.manners, given, tools), **options)

    def _turn(self, segments: Segments, use: ToolUse, content: Rule | None) -> Turn:
        calls = self.manners.calls if use.mode != "none" else None
        if use.mode == "required" and not self.manners.taught:
            use = replace(use, parallel=False)  # it would not know when to end
        started = self.reasoning is not None and starts_in_reasoning(self.reasoning, segments)
        grammar = self._grammar(calls, use, content, started)
        markers = [*(calls.markers if calls else ())]
        markers += self.reasoning.markers if self.reasoning else ()
        ids = {self._find(marker) for marker in markers}
        shown = tuple(sorted(one for one in ids if one is not None))
        return Turn(segments, grammar, shown, calls, self.reasoning, started, use.schemas)

    def _grammar(
        self, calls: CallFormat | None, use: ToolUse, content: Rule | None, started: bool
    ) -> str | None:
        """None where the request's own grammar, or none, is what is needed."""
        if content is not None and content[0] == "lark":
            if use.mode == "none":
                return None  # whoever writes Lark says what reasoning may be
            hint = "give a JSON schema, or no tools"
            raise ParameterError(
                "grammar", content[0], "no Lark while tools may be called", hint=hint
            )
        if calls is None and self.reasoning is None:
            return None
        rule = None if content is None else content_rule(*content)
        return call_grammar(
            calls,
            use,
            self.reasoning,
            self._find,
            starts_in_reasoning=started,
            content=rule,
        )


def content_rule(kind: str, source: str) -> str:
    """A grammar of sampling/grammar.py as an expression of Lark."""
    if kind == "json_schema":
        return f"%json {source if source.strip() not in ('true', 'false') else '{}'}"
    if kind == "json_object":
        return '%json {"type": "object"}'
    if kind == "regex":
        return "/" + re.sub(r"\\.|/|\n", _in_slashes, source, flags=re.DOTALL) + "/"
    if kind == "choice":
        return "(" + " | ".join(json.dumps(text) for text in json.loads(source)) + ")"
    raise AssertionError(kind)


def _in_slashes(found: re.Match[str]) -> str:
    return {"/": "\\/", "\n": "\\n", "\\\n": "\\n"}.get(found[0], found[0])
