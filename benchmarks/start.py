"""From process start to the first token, and the most memory that was resident.

    python benchmarks/start.py MODEL... [--runs 7] [--peer 'COMMAND']

`pyrite run MODEL PROMPT --max-tokens 1 --json` reports its own clock from the start of the process;
the resident peak is the operating system's, of the whole process. A peer's command is timed as a
whole process, in turn with ours, so it should end after one token too.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

PROMPT = "The capital of France is"
COMMAND_LINE = [sys.executable, "-m", "pyrite"]


@dataclass(frozen=True)
class Run:
    """Seconds of the whole process, its resident peak in bytes, and what it wrote."""

    seconds: float
    peak_bytes: int
    output: str


def run(command: list[str]) -> Run:
    """Bytecode is kept, as it is of every installed package."""
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=kept,
    )
    assert process.stdout is not None
    output = process.stdout.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{shlex.join(command)} ended with {process.returncode}")
    return Run(time.perf_counter() - start, usage.ru_maxrss * 1024, output)


def spread(values: list[float], unit: str = "s") -> str:
    low, high = min(values), max(values)
    return f"{statistics.median(values):.3f} {unit} ({low:.3f} to {high:.3f})"


def measure(model: Path, runs: int, peer: str | None) -> None:
    ours = [*COMMAND_LINE, "run", str(model), PROMPT, "--max-tokens", "1", "--json"]
    theirs = shlex.split(peer.format(model=model)) if peer else None
    run(ours)  # packs the weights, warms the page cache
    found, others = [], []
    for _ in range(runs):
        found.append(run(ours))
        if theirs:
            others.append(run(theirs))
    first = [json.loads(one.output)["timings"]["first_token_seconds"] for one in found]
    over = (max(one.peak_bytes for one in found) - model.stat().st_size) / 1e6
    print(f"\n{model.name}")
    print(f"  first token after   {spread(first)}")
    print(f"  whole process       {spread([one.seconds for one in found])}")
    print(f"  resident peak       the file and {over:.0f} MB, keys and values included")
    if others:
        ratios = [a.seconds / b.seconds for a, b in zip(found, others, strict=True)]
        print(f"  peer, whole process {spread([one.seconds for one in others])}")
        print(f"  ours / peer         {spread(ratios, '')}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--peer", help="a command to compare with; {model} is the file")
    options = parser.parse_args()
    print(f"command: python {' '.join(sys.argv)}")
    helps = [run([*COMMAND_LINE, "--help"]).seconds for _ in range(options.runs)]
    print(f"pyrite --help: {spread(helps)}")
    for model in options.models:
        measure(model, options.runs, options.peer)


if __name__ == "__main__":
    main()
