"""Chats with a model, or answers one prompt.

With a prompt, or with one piped in, stdout holds the answer alone. Without, on a terminal, a chat
begins. A model without a chat template continues the text instead, as --raw does for any model.
"""

from __future__ import annotations

import argparse
import json
import sys
from importlib import import_module

from pyrite.cli import grammar
from pyrite.cli import options as shared
from pyrite.cli.models import DEFAULT_MODEL, find_model
from pyrite.cli.session import Answer, Session
from pyrite.cli.sinks import sink_for
from pyrite.cli.terminal import Terminal, piped_text, this_terminal
from pyrite.cli.timings import Stages
from pyrite.errors import ParameterError

# Of a continued text where nobody says how long: a base model may never end one.
CONTINUED_TOKENS = 256


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", nargs="?", default=DEFAULT_MODEL)
    parser.add_argument("prompt", metavar="PROMPT", nargs="?", help="text piped in is added to it")
    parser.add_argument("--system", metavar="TEXT", help="the system message")
    parser.add_argument("--raw", action="store_true", help="continue the text; apply no template")
    parser.add_argument("--plain", action="store_true", help="no Markdown on the terminal")
    parser.add_argument("--json", action="store_true", help="the answer and its figures as JSON")
    parser.add_argument("--timings", action="store_true", help="where the time went, on stderr")
    shared.add_loading(parser)
    shared.add_sampling(parser)
    grammar.add_arguments(parser)


def run(options: argparse.Namespace) -> int:
    stages = Stages()
    terminal = this_terminal()
    form = grammar.grammar_of(options)
    given = {**shared.sampling_of(options), "grammar": form}
    prompt = whole_prompt(options.prompt, terminal)
    path = find_model(options.model, terminal)
    stages.lap("find")
    stages.import_packages()
    with shared.load_model(options, path) as model:
        stages.loaded(model.loaded.seconds)
        sampling = {**shared.CHAT_DEFAULTS, **model.sampling_defaults, **given}
        session = Session(model, sampling, system=options.system, raw=options.raw)
        if session.continues_text:
            sampling.setdefault("max_tokens", CONTINUED_TOKENS)
        check_system(session)
        if prompt is None:
            from pyrite.cli.chat import Chat

            return Chat(session, terminal, name=options.model, plain=options.plain).run()
        if not session.continues_text:
            import_module("pyrite.text.sandbox")
            stages.lap("import jinja2")
        answer_once(session, prompt, options, terminal, stages)
    return 0


def whole_prompt(given: str | None, terminal: Terminal) -> str | None:
    """The prompt of the command line and what is piped in; None: a person will type."""
    if terminal.stdin:
        if given is None and not terminal.stdout:
            raise ParameterError("PROMPT", given, "given, where the output is no terminal")
        return given
    piped = piped_text()
    if given is None and not piped.strip():
        raise ParameterError("PROMPT", piped, "given, or piped in")
    return "\n\n".join(part for part in (given, piped) if part)


def check_system(session: Session) -> None:
    if session.system is not None and session.continues_text:
        raise ParameterError(
            "--system", session.system, "absent: this model, or --raw, continues text without turns"
        )


def answer_once(
    session: Session,
    prompt: str,
    options: argparse.Namespace,
    terminal: Terminal,
    stages: Stages,
) -> None:
    sink = sink_for(terminal, plain=options.plain or options.json or session.continues_text)

    def write(text: str) -> None:
        stages.note_first_token()
        if not options.json:
            sink.write(text)

    try:
        answer = session.ask(prompt, write)
    finally:
        sink.close()
    stages.answered(answer)
    if options.json:
        print(json.dumps(as_dict(answer, options.model, stages), ensure_ascii=False))
    if options.timings:
        print("\n".join(stages.lines(answer)), file=sys.stderr)


def as_dict(answer: Answer, model: str, stages: Stages) -> dict[str, object]:
    usage = answer.usage
    return {
        "model": model,
        "text": answer.text,
        "token_ids": answer.token_ids,
        "finish_reason": answer.finish_reason,
        "usage": usage
        and {
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "cached_tokens": usage.cached_tokens,
        },
        "timings": stages.as_dict(answer),
    }
