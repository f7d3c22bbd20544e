"""Checks this machine, and a model file on it.

Without a model: the processor, the instruction set and threads that are chosen and why, memory,
caches. With one: that its numbers are finite, its tokenizer gives texts back, its template renders,
its answers can end, that the backend computes what the reference does, as a whole and layer by
layer, and, with --original, what quantization cost. `pyrite show` tells the verdict from then on.
Ends with 1 on a fault.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from pyrite.cli.terminal import this_terminal
from pyrite.errors import PyriteError

FAULT = 1


@dataclass(frozen=True, slots=True)
class Finding:
    """`state`: "ok", "fault", or "skipped" where something cannot be checked here."""

    name: str
    state: str
    detail: str


class Fault(Exception):  # noqa: N818 - the examined thing's, not the program's
    """What a check found wrong."""


class Skip(Exception):  # noqa: N818
    """Why a check cannot be made."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", nargs="?", help="default: the machine alone")
    parser.add_argument("--original", metavar="MODEL", help="what the model was quantized from")
    parser.add_argument("--json", action="store_true", help="for a program to read")
    parser.add_argument("-t", "--threads", type=int, help="threads to compute with")


def run(options: argparse.Namespace) -> int:
    findings = []
    for finding in examine(options):
        findings.append(finding)
        if not options.json:
            print(f"{finding.state:<8}{finding.name:<18}{finding.detail}", flush=True)
    if options.json:
        print(json.dumps([asdict(finding) for finding in findings], indent=1))
    return FAULT if any(finding.state == "fault" for finding in findings) else 0


def examine(options: argparse.Namespace) -> Iterator[Finding]:
    from pyrite.cli.checkup import machine_checks

    yield from (found(name, check) for name, check in machine_checks(options.threads))
    if options.model is not None:
        from pyrite.cli.models import find_model

        terminal = this_terminal()
        path = find_model(options.model, terminal)
        original = find_model(options.original, terminal) if options.original else None
        yield from examine_model(path, options.threads, original)


def examine_model(
    path: Path, threads: int | None, original: Path | None = None
) -> Iterator[Finding]:
    """A file that cannot be opened is one finding; nothing else can be said of it then."""
    from pyrite.cli.model_checkup import ModelChecks, checksum
    from pyrite.cli.verdicts import keep
    from pyrite.config import cache_home

    findings = [found("checksum", lambda: checksum(path))]
    yield findings[0]
    try:
        checks = ModelChecks(path, threads, original)
    except PyriteError as error:
        yield Finding("file", "fault", str(error))
        return
    for name, check in checks.all():
        findings.append(found(name, check))
        yield findings[-1]
    keep(checks.checkpoint, cache_home(), [asdict(one) for one in findings])


def found(name: str, check: Callable[[], str]) -> Finding:
    try:
        return Finding(name, "ok", check())
    except Skip as reason:
        return Finding(name, "skipped", str(reason))
    except (Fault, PyriteError) as error:
        return Finding(name, "fault", str(error))
