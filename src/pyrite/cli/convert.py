"""Makes a GGUF file of a folder in Hugging Face's layout: a model, or an adapter (LoRA).

The file opens in Pyrite and in llama.cpp. Weights stay in the type they have unless --type names a
recipe, as pyrite quantize has them; what the folder has quantized stays as it is. An adapter that
PEFT wrote needs its model besides: --base, a folder or a GGUF file. A run that was interrupted goes
on when it is started again.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from pyrite.cli.models import find_model
from pyrite.cli.output import check_output, files_of
from pyrite.cli.quantize import ENDING, checked_threads, converted, summary
from pyrite.cli.terminal import Terminal, size, this_terminal, warn
from pyrite.errors import ParameterError, RequestError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="FOLDER", help="of a model, or of an adapter")
    parser.add_argument("out", metavar="OUT.gguf")
    parser.add_argument("--base", metavar="MODEL", help="of an adapter: its model")
    parser.add_argument("--type", metavar="RECIPE", help="default: the type that most weights have")
    parser.add_argument("-t", "--threads", type=int, help="threads to compute with")
    parser.add_argument("--force", action="store_true", help="write over OUT.gguf")


def run(options: argparse.Namespace) -> int:
    from pyrite.models.peft import is_adapter

    terminal, threads = this_terminal(), checked_threads(options.threads)
    out, place = Path(options.out), Path(options.model).expanduser()
    if is_adapter(place):
        return convert_adapter(options, place, out, threads, terminal)
    if options.base is not None:
        limit = "left out: FOLDER is no adapter, for it has no adapter_config.json"
        raise ParameterError("--base", options.base, limit)
    return convert_model(options, out, threads, terminal)


def convert_model(
    options: argparse.Namespace, out: Path, threads: int | None, terminal: Terminal
) -> int:
    from pyrite.conversion import find_recipe, plan_conversion
    from pyrite.export import as_gguf_file, natural_recipe
    from pyrite.formats.checkpoint import open_checkpoint
    from pyrite.models.registry import as_model, build_plan

    found = open_checkpoint(find_model(options.model, terminal))
    if found.format == "gguf":
        hint = "pyrite quantize makes another GGUF file of one"
        raise ParameterError("FOLDER", options.model, "a folder with config.json", hint=hint)
    check_output("OUT.gguf", out, files_of(found), force=options.force, ending=ENDING)
    checkpoint, lost = as_gguf_file(found)
    build_plan(as_model(found))  # whatever cannot be run is not written
    for sentence in lost:
        warn(f"not in the file: {sentence}")
    recipe = find_recipe(options.type or natural_recipe(checkpoint))
    conversion = plan_conversion(checkpoint, recipe, keeps_quantized=True)
    started = time.monotonic()
    resumed = converted(conversion, out, threads, f"converting {out.name}", terminal)
    print(summary(out, checkpoint, conversion, time.monotonic() - started, resumed))
    return 0


def convert_adapter(
    options: argparse.Namespace,
    folder: Path,
    out: Path,
    threads: int | None,
    terminal: Terminal,
) -> int:
    from pyrite.adapter_export import plan_adapter
    from pyrite.formats.checkpoint import open_checkpoint

    base = open_checkpoint(find_model(options.base or base_of(folder), terminal))
    inputs = (*folder.glob("*"), *files_of(base))
    check_output("OUT.gguf", out, inputs, force=options.force, ending=ENDING)
    conversion = plan_adapter(folder, base, options.type)
    converted(conversion, out, threads, f"converting {out.name}", terminal)
    count, alpha = len(conversion.targets) // 2, conversion.metadata["adapter.lora.alpha"]
    architecture = conversion.metadata["general.architecture"]
    print(
        f"{out}: an adapter of {count} matrices for {architecture}, alpha {alpha:g}, "
        f"{size(conversion.num_bytes)}"
    )
    return 0


def base_of(folder: Path) -> str:
    """A folder that is here, by the adapter's own word. Raises RequestError."""
    from pyrite.models.peft import base_name

    named = base_name(folder)
    if named and Path(named).is_dir():
        return named
    said = f": adapter_config.json names {named}" if named else ""
    hint = f"--base MODEL, its folder or GGUF file{said}"
    raise RequestError(f"{folder} is an adapter, and its model is not named", hint=hint)
