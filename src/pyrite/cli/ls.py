"""Lists the models that are here, and the aliases that can be pulled."""

from __future__ import annotations

import argparse
import json

from pyrite.cli.terminal import size


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="for a program to read")
    parser.add_argument("--names", action="store_true", help="names alone, aliases too")


def run(options: argparse.Namespace) -> int:
    from pyrite.formats import hub

    models = hub.installed()
    if options.json:
        rows = [{"name": one.name, "path": str(one.path), "bytes": one.num_bytes} for one in models]
        print(json.dumps(rows, indent=1))
    elif options.names:
        print("\n".join(sorted({one.name for one in models} | set(hub.ALIASES))))
    else:
        for one in models:
            print(f"{one.name:<32}{size(one.num_bytes):>12}  {one.path}")
        absent = sorted(set(hub.ALIASES) - {one.name for one in models})
        if absent:
            print(f"can be pulled: {', '.join(absent)}")
    return 0
