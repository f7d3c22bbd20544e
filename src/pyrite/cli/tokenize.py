"""The tokens of a text: id and piece, one a line."""

from __future__ import annotations

import argparse
import json
import sys

from pyrite.cli.models import find_model
from pyrite.cli.terminal import piped_text, this_terminal
from pyrite.errors import FormatError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("text", metavar="TEXT", nargs="?", help="default: what is piped in")
    parser.add_argument("--special", action="store_true", help="control tokens in the text count")
    parser.add_argument("--bos", action="store_true", help="begin as the model wants it")
    parser.add_argument("--ids", action="store_true", help="only the ids, on one line")
    parser.add_argument("--json", action="store_true", help="ids and pieces as JSON")


def run(options: argparse.Namespace) -> int:
    from pyrite.formats.checkpoint import open_checkpoint
    from pyrite.text.tokenizer import Tokenizer

    if options.text is None and this_terminal().stdin:
        print("a text to tokenize, then Ctrl-D:", file=sys.stderr)
    text = piped_text() if options.text is None else options.text
    checkpoint = open_checkpoint(find_model(options.model, this_terminal()))
    if checkpoint.tokenizer is None:
        raise FormatError(f"{checkpoint.path} holds no tokenizer")
    tokenizer = Tokenizer.from_data(checkpoint.tokenizer)
    ids = tokenizer.encode(text, special=options.special, bos=options.bos).tolist()
    pieces = [tokenizer.token_text(token_id) for token_id in ids]
    if options.json:
        print(json.dumps({"ids": ids, "pieces": pieces, "count": len(ids)}, ensure_ascii=False))
    elif options.ids:
        print(*ids)
    else:
        print(
            "".join(f"{one:>8}  {piece!r}\n" for one, piece in zip(ids, pieces, strict=True)),
            end="",
        )
    return 0
