"""Vectors of texts: one JSON line a text, or a file for NumPy.

Texts are given, or piped in, one a line. Without --pooling they are pooled as the model's file
says, else by the mean over their tokens.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pyrite.cli import options as shared
from pyrite.cli.models import find_model
from pyrite.cli.terminal import piped_text, this_terminal
from pyrite.errors import ParameterError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pyrite.llm import Model

FORMATS = ("json", "npy")
TEXTS = 64  # embedded at a time, so that lines come out as they are ready


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("texts", metavar="TEXT", nargs="*", help="default: the lines of stdin")
    parser.add_argument("--pooling", metavar="{mean,last,cls,none}", help="none: a vector a token")
    parser.add_argument("--no-normalize", action="store_true", help="keep the vectors' lengths")
    parser.add_argument("--dimensions", type=int, metavar="N", help="only the first N")
    parser.add_argument("--special", action="store_true", help="control tokens in texts count")
    parser.add_argument(
        "-o", "--output", choices=FORMATS, default="json", help="npy: one array, (texts, width)"
    )
    shared.add_loading(parser)


def run(options: argparse.Namespace) -> int:
    terminal = this_terminal()
    if options.output == "npy":
        check_npy(options, stdout_is_terminal=terminal.stdout)
    texts = options.texts or lines_of(piped_text())
    with shared.load_model(options, find_model(options.model, terminal)) as model:
        if options.output == "npy":
            write_npy(model, texts, options)
        else:
            write_lines(model, texts, options)
    return 0


def check_npy(options: argparse.Namespace, *, stdout_is_terminal: bool) -> None:
    if options.pooling == "none":
        raise ParameterError("--output", "npy", "json with --pooling none: texts differ in length")
    if stdout_is_terminal:
        raise ParameterError("--output", "npy", "written to a file: `pyrite embed ... > x.npy`")


def lines_of(piped: str) -> list[str]:
    lines = piped.removesuffix("\n").split("\n")
    if lines == [""]:
        raise ParameterError("TEXT", piped, "given, or piped in: one a line")
    return lines


def write_npy(model: Model, texts: Sequence[str], options: argparse.Namespace) -> None:
    import numpy as np

    np.save(sys.stdout.buffer, model.embed(texts, **asked(options)))


def write_lines(model: Model, texts: Sequence[str], options: argparse.Namespace) -> None:
    for start in range(0, len(texts), TEXTS):
        some = texts[start : start + TEXTS]
        for index, vector in enumerate(vectors(model, some, options), start):
            print(json.dumps({"index": index, "embedding": plain(vector)}), flush=True)


def vectors(
    model: Model, texts: Sequence[str], options: argparse.Namespace
) -> Iterable[NDArray[np.float32]]:
    if options.pooling == "none":
        given = {name: value for name, value in asked(options).items() if name != "pooling"}
        return [model.hidden_states(text, **given) for text in texts]
    return model.embed(texts, **asked(options))


def plain(values: NDArray[np.float32]) -> list[Any]:
    """Numbers with as few digits as tell them apart in 32 bits."""
    if values.ndim > 1:
        return [plain(row) for row in values]
    return [float(str(value)) for value in values]


def asked(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "pooling": options.pooling,
        "normalize": not options.no_normalize,
        "dimensions": options.dimensions,
        "special": options.special,
    }
