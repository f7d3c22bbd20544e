"""Prints completions for bash, zsh or fish: verbs, and the options of each.

For bash: `source <(pyrite completion bash)`; for zsh the same; for fish:
`pyrite completion fish | source`.
"""

from __future__ import annotations

import argparse
from importlib import import_module

MODEL_VERBS = (
    "run",
    "pull",
    "rm",
    "show",
    "convert",
    "quantize",
    "imatrix",
    "eval",
    "tokenize",
    "bench",
    "doctor",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))


def run(options: argparse.Namespace) -> int:
    print({"bash": bash, "zsh": zsh, "fish": fish}[options.shell](), end="")
    return 0


def options_by_verb() -> dict[str, list[tuple[str, str]]]:
    """Verb: (option, help), read off the parsers themselves."""
    from pyrite.cli.main import VERBS, parser_of

    found = {}
    for verb, (module, _) in VERBS.items():
        parser = parser_of(verb, import_module(module))
        found[verb] = [
            (name, (action.help or "").replace("%%", "%"))
            for action in parser._actions
            for name in action.option_strings
        ]
    return found


def bash() -> str:
    verbs = options_by_verb()
    longest_first = sorted(verbs.items(), key=lambda item: -item[0].count(" "))
    cases = [
        f"    '{verb}'|'{verb} '*) words='{' '.join(name for name, _ in names)}' ;;"
        for verb, names in longest_first
    ]
    one_word = [verb for verb in verbs if " " not in verb]
    return (
        BASH.replace("@VERBS@", " ".join(one_word))
        .replace("@CASES@", "\n".join(cases))
        .replace("@MODEL_VERBS@", "|".join(MODEL_VERBS))
    )


def zsh() -> str:
    return "autoload -U +X bashcompinit && bashcompinit\n" + bash()


def fish() -> str:
    from pyrite.cli.main import VERBS

    lines = ["complete -c pyrite -f"]
    for verb, (_, text) in VERBS.items():
        first, last = verb.split()[:-1], verb.split()[-1]
        here = quoted(seen(first) if first else "__fish_use_subcommand")
        lines.append(f"complete -c pyrite -n {here} -a {last} -d {quoted(text)}")
    for verb, names in options_by_verb().items():
        here = quoted(seen(verb.split()))
        for name, text in names:
            kind = f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
            lines.append(f"complete -c pyrite -n {here} {kind} -d {quoted(text)}")
    for verb in MODEL_VERBS:
        here = quoted(f"__fish_seen_subcommand_from {verb}")
        lines.append(f"complete -c pyrite -n {here} -F -a '(pyrite ls --names 2>/dev/null)'")
    return "\n".join(lines) + "\n"


def seen(words: list[str]) -> str:
    """Fish's condition: these words are on the line."""
    return "; and ".join(f"__fish_seen_subcommand_from {word}" for word in words)


def quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


BASH = """\
_pyrite() {
  local current="${COMP_WORDS[COMP_CWORD]}" words=''
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '@VERBS@' -- "$current"))
    return
  fi
  case "${COMP_WORDS[*]:1:2}" in
@CASES@
  esac
  case "$current" in
    -*) COMPREPLY=($(compgen -W "$words" -- "$current")) ; return ;;
  esac
  case "${COMP_WORDS[1]}" in
    @MODEL_VERBS@)
      COMPREPLY=($(compgen -W "$(pyrite ls --names 2>/dev/null)" -- "$current")
                 $(compgen -f -- "$current")) ;;
  esac
}
complete -o filenames -F _pyrite pyrite
"""
