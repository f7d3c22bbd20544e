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
from pyrite.cli.progress import Progress
from pyrite.cli.terminal import Terminal, size, this_terminal
from pyrite.errors import ParameterError

if TYPE_CHECKING:
    from pyrite.conversion import Conversion
    from pyrite.formats.checkpoint import Checkpoint


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("out", metavar="OUT.gguf")
    parser.add_argument("--type", default="q4_k_m", metavar="RECIPE", help="default: q4_k_m")
    parser.add_argument("--imatrix", metavar="FILE", help="importance of columns")
    parser.add_argument("-t", "--threads", type=int, help="threads to compute with")
    parser.add_argument("--force", action="store_true", help="write over OUT.gguf")


def run(options: argparse.Namespace) -> int:
    from pyrite.conversion import convert, find_recipe, plan_conversion
    from pyrite.cores import choose_threads
    from pyrite.export import as_gguf_file
    from pyrite.formats.checkpoint import open_checkpoint
    from pyrite.formats.imatrix import read_importance

    terminal = this_terminal()
    recipe, out = find_recipe(options.type), Path(options.out)
    threads = checked_threads(options.threads)
    checkpoint, lost = as_gguf_file(open_checkpoint(find_model(options.model, terminal)))
    for sentence in lost:
        terminal.note(f"not in the file: {sentence}")
    check_target(out, checkpoint, force=options.force)
    importance = read_importance(Path(options.imatrix)) if options.imatrix else None
    conversion = plan_conversion(checkpoint, recipe, importance)
    warn(conversion, terminal)
    started = time.monotonic()
    try:
        with Progress(f"quantizing {out.name}", terminal, unit=weights) as progress:
            resumed = convert(conversion, out, choose_threads(threads).count, progress)
    except KeyboardInterrupt:
        terminal.note(f"{out}.partial is kept: the same command goes on with it")
        raise
    print(summary(out, checkpoint, conversion, time.monotonic() - started, resumed))
    return 0


def checked_threads(asked: int | None) -> int | None:
    if asked is not None and not 1 <= asked <= 1024:
        raise ParameterError("--threads", asked, "a whole number from 1 to 1024")
    return asked


def check_target(out: Path, checkpoint: Checkpoint, *, force: bool) -> None:
    """Raises ParameterError where a file would be lost."""
    if out.is_dir() or not out.name.endswith(".gguf"):
        raise ParameterError("OUT.gguf", str(out), "the name of a file that ends in .gguf")
    if not out.parent.is_dir():
        raise ParameterError("OUT.gguf", str(out), "in a folder that is there")
    if not out.exists():
        return
    if any(out.samefile(path) for path in checkpoint.files):
        raise ParameterError("OUT.gguf", str(out), "another file than the model itself")
    if not force:
        hint = "--force writes over it"
        raise ParameterError("OUT.gguf", str(out), "the name of no file that is there", hint=hint)


def warn(conversion: Conversion, terminal: Terminal) -> None:
    lossy = [
        target
        for target in conversion.targets
        if target.source.type not in ("F32", "F16", "BF16")
        and target.source.type != target.spec.type
    ]
    if lossy:
        terminal.note(
            f"{len(lossy)} tensors are quantized already ({lossy[0].source.type}): what they lost "
            "stays lost; take the original where there is one"
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
