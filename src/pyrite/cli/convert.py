"""Makes a GGUF file of a folder in Hugging Face's layout.

The file opens in Pyrite and in llama.cpp. Weights stay in the type they have unless --type names a
recipe, as pyrite quantize has them; what the folder has quantized stays as it is. A run that was
interrupted goes on when it is started again.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from pyrite.cli.models import find_model
from pyrite.cli.progress import Progress
from pyrite.cli.quantize import check_target, checked_threads, summary, weights
from pyrite.cli.terminal import this_terminal
from pyrite.errors import ParameterError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="FOLDER")
    parser.add_argument("out", metavar="OUT.gguf")
    parser.add_argument("--type", metavar="RECIPE", help="default: the type that most weights have")
    parser.add_argument("-t", "--threads", type=int, help="threads to compute with")
    parser.add_argument("--force", action="store_true", help="write over OUT.gguf")


def run(options: argparse.Namespace) -> int:
    from pyrite.conversion import convert, find_recipe, plan_conversion
    from pyrite.cores import choose_threads
    from pyrite.export import as_gguf_file, natural_recipe
    from pyrite.formats.checkpoint import open_checkpoint
    from pyrite.models.registry import as_model, build_plan

    terminal = this_terminal()
    out, threads = Path(options.out), checked_threads(options.threads)
    found = open_checkpoint(find_model(options.model, terminal))
    if found.format == "gguf":
        hint = "pyrite quantize makes another GGUF file of it"
        raise ParameterError("FOLDER", options.model, "a folder with config.json", hint=hint)
    check_target(out, found, force=options.force)
    checkpoint, lost = as_gguf_file(found)
    build_plan(as_model(found))  # whatever cannot be run is not written
    for sentence in lost:
        print(f"pyrite: not in the file: {sentence}", file=sys.stderr)
    if checkpoint.tokenizer is None:
        print("pyrite: no engine loads the file without a tokenizer", file=sys.stderr)
    recipe = find_recipe(options.type or natural_recipe(checkpoint))
    conversion = plan_conversion(checkpoint, recipe, keeps_quantized=True)
    started = time.monotonic()
    with Progress(f"converting {out.name}", terminal, unit=weights) as progress:
        resumed = convert(conversion, out, choose_threads(threads).count, progress)
    print(summary(out, checkpoint, conversion, time.monotonic() - started, resumed))
    return 0
