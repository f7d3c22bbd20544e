"""Chooses the verb, runs it, and turns whatever it raises into one line and an exit code.

Imports no verb but the one that is asked for; `pyrite --help` needs none. Knows no model.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

from pyrite import __version__
from pyrite.cli.streams import open_closed, silence_stdout, system_said
from pyrite.errors import PyriteError, RequestError

# Verb: (module, what it does). A module has `add_arguments(parser)` and `run(options)`, which gives
# the exit code.
VERBS = {
    "run": ("pyrite.cli.run", "chat with a model, or answer one prompt"),
    "serve": ("pyrite.cli.serve", "serve a model to OpenAI, Anthropic and Ollama clients"),
    "ps": ("pyrite.cli.ps", "list the servers that run here"),
    "launch": ("pyrite.cli.launch", "the environment in which a client talks to a server here"),
    "pull": ("pyrite.cli.pull", "fetch a model"),
    "ls": ("pyrite.cli.ls", "list the models that are here"),
    "rm": ("pyrite.cli.rm", "remove a model"),
    "show": ("pyrite.cli.show", "what a model file holds, and the plan that is made of it"),
    "embed": ("pyrite.cli.embed", "vectors of texts"),
    "convert": ("pyrite.cli.convert", "make a GGUF file of a folder"),
    "quantize": ("pyrite.cli.quantize", "make a smaller file of a model"),
    "imatrix": ("pyrite.cli.imatrix", "measure which columns matter, for quantize"),
    "eval": ("pyrite.cli.eval", "measure how well a model foretells a text"),
    "tokenize": ("pyrite.cli.tokenize", "the tokens of a text"),
    "bench": ("pyrite.cli.bench", "measure speed, and the share of what the machine can do"),
    "bench serve": ("pyrite.cli.bench_serve", "measure a server that speaks OpenAI's HTTP"),
    "doctor": ("pyrite.cli.doctor", "check this machine, and a model file on it"),
    "completion": ("pyrite.cli.completion", "print completions for a shell"),
}

OK = 0
CHECK_FAILED = 1
USAGE = 2
BUG = 70
INTERRUPTED = 130
BROKEN_PIPE = 141
TERMINATED = 143

EXIT_CODES = {
    OK: "done",
    CHECK_FAILED: "doctor found a fault, the system refused something (a folder, a file), or "
    "a request of bench serve failed",
    USAGE: "the command line, a parameter or a prompt is out of bounds",
    3: "the model file cannot be used",
    4: "there is no such model",
    5: "a download failed",
    6: "not enough memory or disk",
    7: "this machine cannot run what was asked, or a run failed",
    BUG: "a bug in Pyrite",
    INTERRUPTED: "interrupted (Ctrl-C)",
    BROKEN_PIPE: "whoever read the output went away",
    TERMINATED: "ended from outside (SIGTERM; SIGHUP gives 129)",
}


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, and lets options stand between MODEL and PROMPT."""

    def error(self, message: str) -> NoReturn:
        raise RequestError(message, hint=f"{self.prog} --help tells the options")


def entry() -> None:
    """The `pyrite` command."""
    if not open_closed():
        sys.exit(complain("stdout is closed", CHECK_FAILED))
    tidy_when_ended()
    if not set(sys.argv[1:]) <= {"-h", "--help", "-V", "--version"}:
        show_warnings()
    code = main(sys.argv[1:])
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = BROKEN_PIPE
        silence_stdout()
    except OSError as error:
        code = report(error)
        silence_stdout()
    sys.exit(code)


def main(arguments: Sequence[str]) -> int:
    """Runs one command and gives its exit code; writes every error as one line to stderr."""
    debug = "--debug" in arguments
    try:
        return dispatch([word for word in arguments if word != "--debug"])
    except SystemExit as error:  # argparse: help was printed; or a signal
        return error.code if isinstance(error.code, int) else USAGE
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        silence_stdout()
        return BROKEN_PIPE
    except Exception as error:
        if debug:
            raise
        return report(error)


def dispatch(arguments: Sequence[str]) -> int:
    verb, rest = split_verb(arguments)
    if verb in ("-h", "--help", "help"):
        print(usage())
        return OK
    if verb in ("-V", "--version"):
        print(f"pyrite {__version__}")
        return OK
    if verb not in VERBS:
        return complain(f"no verb {verb!r}; {suggestion(verb)}", USAGE)
    module = import_module(VERBS[verb][0])
    options = parser_of(verb, module).parse_intermixed_args(rest)
    code: int = module.run(options)
    return code


def split_verb(arguments: Sequence[str]) -> tuple[str, Sequence[str]]:
    """The verb, of one word or two, and what follows it."""
    two_words = " ".join(arguments[:2])
    if two_words in VERBS:
        return two_words, arguments[2:]
    return (arguments[0], arguments[1:]) if arguments else ("--help", ())


def parser_of(verb: str, module: Any) -> argparse.ArgumentParser:
    parser = Parser(
        prog=f"pyrite {verb}",
        description=module.__doc__.split("\n\n")[0],
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.add_arguments(parser)
    return parser


def report(error: Exception) -> int:
    if isinstance(error, PyriteError):
        return complain(str(error), error.exit_code)
    if isinstance(error, MemoryError):
        return complain("not enough memory (close something, or take a smaller model)", 6)
    if isinstance(error, OSError):
        return complain(system_said(error), CHECK_FAILED)
    return complain(
        f"a bug in Pyrite: {type(error).__name__}: {error} (please report it, with what "
        "--debug prints)",
        BUG,
    )


def complain(message: str, code: int) -> int:
    line = " ".join(message.split("\n"))
    print(f"pyrite: error: {line}", file=sys.stderr)
    return code


def suggestion(verb: str) -> str:
    import difflib

    near = difflib.get_close_matches(verb, VERBS, n=1)
    return f"did you mean {near[0]}?" if near else "see pyrite --help"


def tidy_when_ended() -> None:
    """SIGTERM and SIGHUP unwind as Ctrl-C does: half a file goes, a hidden cursor comes back."""

    def end(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # nohup has it ignored
            signal.signal(number, end)


def show_warnings() -> None:
    """Log lines go to the terminal; where stderr is read by a program, nothing but errors does."""
    import logging

    handler = logging.StreamHandler() if sys.stderr.isatty() else logging.NullHandler()
    handler.setFormatter(logging.Formatter("pyrite: %(message)s"))
    logger = logging.getLogger("pyrite")
    logger.addHandler(handler)
    logger.propagate = False


def usage() -> str:
    verbs = [f"  {verb:<12}{text}" for verb, (_, text) in VERBS.items()]
    codes = [f"  {code:<5}{text}" for code, text in EXIT_CODES.items()]
    return "\n".join(
        [
            "usage: pyrite VERB [options]    (pyrite VERB --help tells the options)",
            "",
            *verbs,
            "",
            "MODEL is a file (GGUF), a folder (safetensors), an alias such as smollm2, or",
            "user/repo[:quant] of the Hugging Face hub.",
            "",
            "exit codes:",
            *codes,
            "",
            "PYRITE_HOME is the folder of models and caches; --debug shows where an error is from.",
        ]
    )
