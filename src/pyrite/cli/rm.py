"""Removes a model that was fetched. Files elsewhere are never touched."""

from __future__ import annotations

import argparse

from pyrite.cli.terminal import size


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a name that `pyrite ls` tells")


def run(options: argparse.Namespace) -> int:
    from pyrite.formats import hub

    freed = hub.remove(options.model)
    print(f"removed {options.model}, {size(freed)}")
    return 0
