"""What a line that begins with a slash does in the chat: one function a command, one table."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pyrite.cli.options import SAMPLING, parsed
from pyrite.cli.timings import speed_lines
from pyrite.errors import ParameterError

if TYPE_CHECKING:
    from pyrite.cli.chat import Chat


def show_help(chat: Chat, rest: str) -> None:
    lines = [f"{usage:<20}{text}" for usage, text, _ in COMMANDS.values()]
    lines += [
        "",
        '"""                 begins and ends a message of several lines; so does \\ at an end',
    ]
    lines += ["Ctrl-C              ends the answer; twice: the program"]
    chat.say("\n".join(lines))


def clear(chat: Chat, rest: str) -> None:
    chat.session.messages = []
    chat.session.last = None
    chat.say("cleared")


def regenerate(chat: Chat, rest: str) -> None:
    kept = list(chat.session.messages)
    question = chat.session.take_back()
    if question is None:
        raise ParameterError("/regen", rest, "after an answer: there is none yet")
    try:
        chat.answer(question)
    except Exception:
        chat.session.messages = kept
        raise


def system(chat: Chat, rest: str) -> None:
    """Changes the system message for what follows; the conversation stays."""
    if chat.session.continues_text:
        raise ParameterError("/system", rest, "absent: this model has no chat template")
    if rest:
        chat.session.system = None if rest == "none" else rest
    chat.say(f"system: {chat.session.system or 'none of your own'}")


def set_parameter(chat: Chat, rest: str) -> None:
    """`/set` shows, `/set temperature 0.2` sets, `/set seed none` takes back."""
    from pyrite.sampling.params import SamplingParams

    name, _, text = rest.partition(" ")
    name = name.replace("-", "_")
    if name and name not in SAMPLING:
        near = difflib.get_close_matches(name, SAMPLING, n=1)
        known = f"did you mean {near[0]}?" if near else f"known are {', '.join(SAMPLING)}"
        raise ParameterError("/set", name, "a sampling parameter", hint=known)
    sampling = dict(chat.session.sampling)
    if text == "none":
        sampling.pop(name, None)
    elif name and text:
        sampling[name] = parsed(name, text)
    SamplingParams(**sampling)  # judges all of them together
    chat.session.sampling = sampling
    chat.say("\n".join(f"{key} = {value!r}" for key, value in sampling.items()) or "all defaults")


def save(chat: Chat, rest: str) -> None:
    path = file_of("/save", rest)
    chat.session.save(path)
    chat.say(f"saved to {path}")


def load(chat: Chat, rest: str) -> None:
    path = file_of("/load", rest)
    chat.session.load(path)
    chat.say(f"{len(chat.session.messages)} messages from {path}")


def stats(chat: Chat, rest: str) -> None:
    session = chat.session
    lines = [f"context      {session.model.context_length} tokens"]
    if session.last is not None and session.last.usage is not None and session.last.token_ids:
        usage = session.last.usage
        lines.append(f"in use       {usage.prompt_tokens + usage.completion_tokens} tokens")
        lines += speed_lines(session.last)
    else:
        lines.append("no answer yet" if session.last is None else "stopped before the first token")
    chat.say("\n".join(lines))


def leave(chat: Chat, rest: str) -> None:
    chat.left = True


def file_of(command: str, rest: str) -> Path:
    if not rest:
        raise ParameterError(command, rest, "followed by the name of a file")
    return Path(rest).expanduser()


COMMANDS: dict[str, tuple[str, str, Callable[[Chat, str], None]]] = {
    "/help": ("/help", "this", show_help),
    "/clear": ("/clear", "begin a new conversation", clear),
    "/regen": ("/regen", "answer the last message again", regenerate),
    "/system": ("/system [TEXT|none]", "show or change the system message", system),
    "/set": (
        "/set [NAME VALUE]",
        "show or change sampling: temperature, top_p, seed, ...",
        set_parameter,
    ),
    "/save": ("/save FILE", "keep the conversation", save),
    "/load": ("/load FILE", "go on with a kept one", load),
    "/stats": ("/stats", "tokens and speed of the last answer", stats),
    "/bye": ("/bye", "leave", leave),
}
ALIASES = {"/?": "/help", "/exit": "/bye", "/quit": "/bye"}


def execute(chat: Chat, line: str) -> None:
    """Raises ParameterError for what is no command."""
    name, _, rest = line.strip().partition(" ")
    name = ALIASES.get(name, name)
    if name not in COMMANDS:
        near = difflib.get_close_matches(name, COMMANDS, n=1)
        guess = f"did you mean {near[0]}? " if near else ""
        raise ParameterError(
            "command",
            name,
            "one that /help tells",
            hint=guess + "A message may begin with a slash after a blank",
        )
    COMMANDS[name][2](chat, rest.strip())
