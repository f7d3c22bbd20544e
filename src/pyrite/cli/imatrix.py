"""Measures how much each column of a model's matrices matters, over a text: for pyrite quantize.

The text is to be like what the model will read: a few hundred KiB of prose, code or conversations.
The file has llama.cpp's GGUF layout, and either side reads the other's.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from pyrite.cli import options as shared
from pyrite.cli.eval import add_chunks, checked_chunks, text_of, tokens
from pyrite.cli.models import find_model
from pyrite.cli.output import check_output, files_of
from pyrite.cli.progress import Progress
from pyrite.cli.terminal import this_terminal


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("text", metavar="TEXT.txt")
    parser.add_argument("-o", "--output", metavar="OUT.gguf", required=True)
    parser.add_argument("--force", action="store_true", help="write over OUT.gguf")
    add_chunks(parser)
    shared.add_threads(parser)


def run(options: argparse.Namespace) -> int:
    from pyrite.config import Settings
    from pyrite.formats.checkpoint import open_checkpoint
    from pyrite.formats.imatrix import write_importance
    from pyrite.importance import collect
    from pyrite.loading import load_engine
    from pyrite.passages import cut

    terminal, out = this_terminal(), Path(options.output)
    place = find_model(options.model, terminal)
    inputs = (Path(options.text), *files_of(open_checkpoint(place)))
    check_output("--output", out, inputs, force=options.force)
    text, chunk = text_of(options.text), checked_chunks(options, place)
    settings = Settings(
        threads=options.threads, context=chunk, speculation="off", prefix_cache=False
    )
    with shared.packing(options.model) as packing:
        loaded = load_engine(place, settings, packing)
    chunks = cut(loaded.tokenizer, text, chunk, options.chunks)
    with Progress("measuring", terminal, unit=tokens) as progress:
        found = collect(loaded, chunks, out, Path(options.text).name, progress)
    write_importance(found)
    print(f"{out}: {len(found.entries)} matrices over {chunks.size} tokens")
    return 0
