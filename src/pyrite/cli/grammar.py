"""The options that say what an answer must look like. Reads files; judges nothing itself."""

from __future__ import annotations

import argparse
from pathlib import Path

from pyrite.errors import ParameterError
from pyrite.sampling.grammar import Grammar
from pyrite.sampling.limits import GRAMMAR_BYTES

MOST_BYTES = 2 * max(GRAMMAR_BYTES.values())  # read of a file: more is refused whatever follows


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("form of the answer").add_mutually_exclusive_group()
    group.add_argument("--json-schema", metavar="FILE", help="JSON that the schema holds for")
    group.add_argument("--regex", metavar="PATTERN", help="text that the whole pattern matches")
    group.add_argument("--grammar", metavar="FILE", help="text of the grammar, written as in Lark")


def grammar_of(options: argparse.Namespace) -> Grammar | None:
    """Raises ParameterError for a file that cannot be read, or is too large."""
    if options.json_schema is not None:
        return Grammar.json_schema(_text("--json-schema", options.json_schema))
    if options.grammar is not None:
        return Grammar.lark(_text("--grammar", options.grammar))
    return None if options.regex is None else Grammar.regex(options.regex)


def _text(option: str, name: str) -> str:
    try:
        with Path(name).open("rb") as file:
            return file.read(MOST_BYTES).decode()
    except OSError as error:
        limit = f"a file that can be read: {error.strerror or error}"
    except UnicodeDecodeError:
        limit = "a text in UTF-8"
    raise ParameterError(option, name, limit)
