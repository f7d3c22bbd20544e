"""Fetches a model; one that is here already is checked, and fetched again if it is damaged."""

from __future__ import annotations

import argparse

from pyrite.cli.progress import Progress
from pyrite.cli.terminal import this_terminal


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="an alias, or user/repo[:quant]")


def run(options: argparse.Namespace) -> int:
    from pyrite.formats import hub

    with Progress(f"pulling {options.model}", this_terminal()) as progress:
        path = hub.pull(options.model, progress)
    print(path)
    return 0
