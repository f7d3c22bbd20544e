"""The command line's frame: light help, exit codes, one line for every error."""

from __future__ import annotations

import argparse
import inspect
import subprocess
import sys
from types import ModuleType

import pytest

import pyrite.errors
from pyrite.cli import main as cli
from pyrite.cli.completion import options_by_verb
from pyrite.cli.main import EXIT_CODES, VERBS, main
from pyrite.errors import ParameterError, PyriteError

HEAVY = ("numpy", "jinja2", "rich", "huggingface_hub", "logging", "pyrite._native")


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from pyrite.cli.main import main; main(['--help']); "
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert all(f"  {verb} " in done.stdout for verb in VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_every_verb_is_light(verb: str) -> None:
    code = (
        f"import sys; from pyrite.cli.main import main; main([{verb!r}, '--help']); "
        "print([name for name in ('numpy', 'jinja2', 'rich') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.rstrip().endswith("[]")
    assert f"pyrite {verb}" in done.stdout


def test_every_error_has_a_documented_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    errors = [
        item
        for _, item in inspect.getmembers(pyrite.errors, inspect.isclass)
        if issubclass(item, PyriteError)
    ]
    assert len(errors) > 8
    assert {error.exit_code for error in errors} <= EXIT_CODES.keys()
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for code, meaning in EXIT_CODES.items():
        assert f"  {code:<5}{meaning}" in text


def failing(error: BaseException) -> ModuleType:
    module = ModuleType("failing", "Fails.")

    def run(options: argparse.Namespace) -> int:
        raise error

    module.add_arguments = lambda parser: None  # type: ignore[attr-defined]
    module.run = run  # type: ignore[attr-defined]
    return module


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ParameterError("top_p", 3, "at most 1"), 2, "top_p = 3: must be at most 1"),
        (PyriteError("two\nlines", hint="a hint"), 1, "two lines (a hint)"),
        (PermissionError(13, "Permission denied", "/x"), 1, "Permission denied"),
        (MemoryError(), 6, "not enough memory"),
        (ZeroDivisionError("oops"), 70, "a bug in Pyrite: ZeroDivisionError: oops"),
        (KeyboardInterrupt(), 130, ""),
        (BrokenPipeError(), 141, ""),
    ],
)
def test_errors_are_one_line(
    error: BaseException,
    code: int,
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(cli, "import_module", lambda name: failing(error))
    monkeypatch.setattr(cli, "silence_stdout", lambda: None)
    assert main(["show"]) == code
    text = capsys.readouterr().err
    assert line in text
    assert text.count("\n") == (1 if line else 0)
    assert not line or text.startswith("pyrite: error: ")


def test_debug_shows_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "import_module", lambda name: failing(ZeroDivisionError("oops")))
    with pytest.raises(ZeroDivisionError):
        main(["show", "--debug"])


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["shwo"], 2, "did you mean show?"),
        (["show"], 2, "MODEL"),
        (["show", "x", "--jason"], 2, "--jason"),
        (["show", "no-such-file.gguf"], 4, "no-such-file.gguf"),
        (["run", "x", "hi", "--top-k", "many"], 2, "top_k = 'many': must be a whole number"),
        (["bench", "-p", "x"], 2, "--prompt"),
        (["bench", "-p", "0", "-n", "0"], 2, "nothing is left"),
        (["bench", "-r", "0"], 2, "--repetitions"),
        (["bench", "-b", "1,0"], 2, "--batch"),
        (["show", ""], 4, "an empty name"),
        (["tokenize", "no-such-file.gguf", "--ids", "a text"], 4, "no-such-file.gguf"),
    ],
)
def test_usage(
    arguments: list[str], code: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == code
    shown = capsys.readouterr()
    assert text in shown.err
    assert shown.err.count("\n") == 1
    assert shown.out == ""


def test_version_and_no_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"pyrite {pyrite.__version__}\n"
    assert main([]) == 0
    assert "usage: pyrite VERB" in capsys.readouterr().out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_names_every_verb_and_option(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    for verb, names in options_by_verb().items():
        assert all(word in text for word in verb.split())
        assert all((name if shell != "fish" else name.lstrip("-")) in text for name, _ in names)
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=text, text=True, check=True)


def test_bash_completes() -> None:
    script = (
        'source /dev/stdin <<< "$SCRIPT"; pyrite() { echo smollm2; }; '
        "COMP_WORDS=(pyrite sh); COMP_CWORD=1; _pyrite; echo ${COMPREPLY[@]}; "
        "COMP_WORDS=(pyrite show --pl); COMP_CWORD=2; _pyrite; echo ${COMPREPLY[@]}; "
        "COMP_WORDS=(pyrite show smo); COMP_CWORD=2; _pyrite; echo ${COMPREPLY[@]}"
    )
    text = subprocess.run(
        [sys.executable, "-c", "from pyrite.cli.main import main; main(['completion', 'bash'])"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    done = subprocess.run(
        ["bash", "-c", script], env={"SCRIPT": text}, capture_output=True, text=True, check=True
    )
    assert done.stdout.split("\n")[:3] == ["show", "--plan", "smollm2"]
