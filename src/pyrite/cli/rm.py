"""Removes a model that was fetched, and its packed weights. Files elsewhere are never touched."""

from __future__ import annotations

import argparse
from pathlib import Path

from pyrite.cli.terminal import size
from pyrite.config import cache_home
from pyrite.errors import ModelError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a name that `pyrite ls` tells")


def run(options: argparse.Namespace) -> int:
    from pyrite.formats import hub

    packed = [found for path in hub.kept_paths(options.model) if (found := packed_weights_of(path))]
    freed = hub.remove(options.model)
    for path in packed:
        freed += path.stat().st_size
        path.unlink()
    print(f"removed {options.model}, {size(freed)}")
    return 0


def packed_weights_of(model: Path) -> Path | None:
    """None where there are none, or a model that cannot be read any more hides which they are: they
    go by themselves when they were not used for long."""
    from pyrite.backends.lowering import matrix_names
    from pyrite.backends.packing import contents_of, kept_path
    from pyrite.models.registry import build_plan, open_model

    try:
        checkpoint = open_model(model)
        names = matrix_names(build_plan(checkpoint))
    except ModelError:
        return None
    contents = contents_of([checkpoint.tensors[name] for name in names], checkpoint.files)
    path = kept_path(contents, cache_home())
    return path if path.is_file() else None
