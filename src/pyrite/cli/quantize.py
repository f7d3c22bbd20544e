"""Makes a smaller file of a model: each weight in fewer bits, by a recipe.

The recipes are llama.cpp's, by the names that files carry: q4_k_m is a good one for most, q8_0 is
as good as the original, q2_k is the smallest. --imatrix takes the importance of columns (see pyrite
imatrix), which matters below 5 bits. A run that was interrupted goes on when it is started again.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pyrite.cli.models import find_model
from pyrite.cli.output import check_output, files_of
from pyrite.cli.progress import Progress
from pyrite.cli.terminal import Terminal, size, this_terminal, warn
from pyrite.errors import ParameterError

if TYPE_CHECKING:
    from pyrite.conversion import Conversion
    from pyrite.formats.checkpoint import Checkpoint


ENDING = ".gguf"  # of a file that is written


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("out", metavar="OUT.gguf")
    parser.add_argument("--type", default="q4_k_m", metavar="RECIPE", help="default: q4_k_m")
    parser.add_argument("--imatrix", metavar="FILE", help="importance of columns")
    parser.add_argument("-t", "--threads", type=int, help="threads to compute with")
    parser.add_argument("--force", action="store_true", help="write over OUT.gguf")


def run(options: argparse.Namespace) -> int:
    from pyrite.conversion import find_recipe, plan_conversion
    from pyrite.export import as_gguf_file
    from pyrite.formats.checkpoint import open_checkpoint
    from pyrite.formats.imatrix import read_importance

    terminal = this_terminal()
    recipe, out = find_recipe(options.type), Path(options.out)
    threads = checked_threads(options.threads)
    checkpoint, lost = as_gguf_file(open_checkpoint(find_model(options.model, terminal)))
    for sentence in lost:
        warn(f"not in the file: {sentence}")
    known = [Path(options.imatrix)] if options.imatrix else []
    inputs = (*files_of(checkpoint), *known)
    check_output("OUT.gguf", out, inputs, force=options.force, ending=ENDING)
    importance = read_importance(known[0]) if known else None
    conversion = plan_conversion(checkpoint, recipe, importance)
    if told := loss(conversion):
        warn(told)
    started = time.monotonic()
    resumed = converted(conversion, out, threads, f"quantizing {out.name}", terminal)
    print(summary(out, checkpoint, conversion, time.monotonic() - started, resumed))
    return 0


def converted(
    conversion: Conversion, out: Path, threads: int | None, label: str, terminal: Terminal
) -> int:
    """Writes the file; gives the number of tensors that an earlier run had finished."""
    from pyrite.conversion import convert
    from pyrite.cores import choose_threads

    try:
        with Progress(label, terminal, unit=weights) as progress:
            return convert(conversion, out, choose_threads(threads).count, progress, warn)
    except (KeyboardInterrupt, SystemExit):
        if out.with_name(f"{out.name}.journal").exists():
            terminal.note(f"{out}.partial is kept: the same command goes on with it")
        raise


def checked_threads(asked: int | None) -> int | None:
    if asked is not None and not 1 <= asked <= 1024:
        raise ParameterError("--threads", asked, "a whole number from 1 to 1024")
    return asked


def loss(conversion: Conversion) -> str:
    """What is to be told of tensors that are quantized a second time; empty where none is."""
    found = [
        target.source.type
        for target in conversion.targets
        if target.source.type not in ("F32", "F16", "BF16")
        and target.source.type != target.spec.type
    ]
    if not found:
        return ""
    types = ", ".join(sorted(set(found)))
    return (
        f"{len(found)} of {len(conversion.targets)} tensors are quantized already ({types}), and "
        "what they lost stays lost: take the original model where there is one"
    )


def summary(
    out: Path, checkpoint: Checkpoint, conversion: Conversion, seconds: float, resumed: int
) -> str:
    bits = 8 * conversion.num_bytes / max(1, conversion.num_values)
    before = sum(tensor.num_bytes for tensor in checkpoint.tensors.values())
    again = f", {resumed} tensors of it before" if resumed else ""
    return (
        f"{out}: {size(before)} -> {size(conversion.num_bytes)}, {bits:.2f} bits a weight, "
        f"{seconds:.1f} s{again}"
    )


def weights(count: int) -> str:
    return f"{count / 1e6:.0f} M weights"
