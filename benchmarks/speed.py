"""Prefill and decode against llama-bench, in turn: ours, theirs, ours, theirs.

    python benchmarks/speed.py MODEL... [--pairs 5] [--threads 2] [--precision default,fast]

Each run is a fresh process that measures once after its own warm-up. The table gives the median of
each side and the median and range of the ratio pair by pair, and the share of the read bandwidth (decode)
or of the integer peak (prefill) that the probe of this machine measured in the same call.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import peers


@dataclass(frozen=True)
class Test:
    """One row of the table: tokens of the prompt, tokens generated."""

    name: str
    prompt: int
    generate: int


def tests(prompt: int, generate: int) -> list[Test]:
    return [Test(f"pp{prompt}", prompt, 0), Test(f"tg{generate}", 0, generate)]


def ours_command(model: Path, test: Test, threads: int, precision: str) -> list[str]:
    return [sys.executable, "-m", "pyrite", "bench", str(model), "-p", str(test.prompt)] + [
        *("-n", str(test.generate), "-r", "1", "-t", str(threads)),
        *("--precision", precision, "-o", "json"),
    ]


def theirs_command(program: Path, model: Path, test: Test, threads: int) -> list[str]:
    return [str(program), "-m", str(model), "-p", str(test.prompt), "-n", str(test.generate)] + [
        *("-r", "1", "-t", str(threads), "-fa", "1", "-o", "json"),
    ]


def rate(command: list[str]) -> float:
    """Tokens a second, as the program itself reports them."""
    answer = subprocess.run(command, check=True, capture_output=True, text=True, timeout=900)
    return float(json.loads(answer.stdout)[0]["avg_ts"])


@dataclass(frozen=True)
class Pairing:
    ours: list[float]
    theirs: list[float]

    @property
    def ratios(self) -> list[float]:
        return [a / b for a, b in zip(self.ours, self.theirs, strict=True)]

    def cells(self) -> list[str]:
        ratios = self.ratios
        return [
            f"{statistics.median(self.ours):.1f}",
            f"{statistics.median(self.theirs):.1f}",
            f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
        ]


def pair(ours: list[str], theirs: list[str], pairs: int) -> Pairing:
    rate(ours), rate(theirs)  # warm the page cache and the packed copy
    rows = [(rate(ours), rate(theirs)) for _ in range(pairs)]
    return Pairing([row[0] for row in rows], [row[1] for row in rows])


def describe(program: Path, options: argparse.Namespace) -> None:
    version = subprocess.run([program, "--version"], capture_output=True, text=True).stderr.split("\n")
    print(f"machine: {processor()}, {os.cpu_count()} processors; {platform.platform()}")
    print(f"PYRITE_ISA: {os.environ.get('PYRITE_ISA', 'chosen at run time')}; threads: {options.threads}")
    print(f"llama.cpp: {peers.PACKAGE} {peers.VERSION} ({version[0]}), {program}")
    print(f"command: python {' '.join(sys.argv)}")


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":")[1].strip() for line in lines if "model name" in line), "unknown")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--generate", type=int, default=64)
    parser.add_argument("--precision", default="default,fast")
    parser.add_argument("--llama-bench", type=Path, default=peers.binary("llama-bench"))
    options = parser.parse_args()
    if options.llama_bench is None:
        raise SystemExit("llama-bench is not installed: python benchmarks/peers.py install")
    describe(options.llama_bench, options)
    print("\n| model | test | precision | pyrite t/s | llama.cpp t/s | ratio, median (range) |")
    print("| --- | --- | --- | --- | --- | --- |")
    for model in options.models:
        for test in tests(options.prompt, options.generate):
            for precision in options.precision.split(","):
                result = pair(
                    ours_command(model, test, options.threads, precision),
                    theirs_command(options.llama_bench, model, test, options.threads),
                    options.pairs,
                )
                print(f"| {model.name} | {test.name} | {precision} |", " | ".join(result.cells()), "|")


if __name__ == "__main__":
    main()
