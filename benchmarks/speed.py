"""Prefill and decode against llama-bench, in turn: ours, theirs, ours, theirs.

    python benchmarks/speed.py MODEL... [--pairs 5] [--threads 2] [--precision default,fast]

Each run is a fresh process that measures once after a warm-up of its own. A row gives the median of
each side, the median and range of the ratio pair by pair, and the median share of the limit that
`pyrite bench` measured in the same process: bytes read a second for decode, products of the best
instruction for prefill.
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
    words = f"-m pyrite bench {model} -p {test.prompt} -n {test.generate} -r 1 -t {threads}"
    return [sys.executable, *words.split(), "--precision", precision, "-o", "json"]


def theirs_command(program: Path, model: Path, test: Test, threads: int) -> list[str]:
    words = f"-m {model} -p {test.prompt} -n {test.generate} -r 1 -t {threads} -fa 1 -o json"
    return [str(program), *words.split()]


def answer(command: list[str]) -> dict[str, float]:
    """The one row that the program itself reports, as JSON."""
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=900)
    return dict(json.loads(done.stdout)[0])


@dataclass(frozen=True)
class Pairing:
    ours: list[float]  # tokens a second
    theirs: list[float]
    shares: list[float]  # of the measured limit, ours

    def cells(self) -> list[str]:
        ratios = [a / b for a, b in zip(self.ours, self.theirs, strict=True)]
        return [
            f"{statistics.median(self.ours):.1f}",
            f"{statistics.median(self.theirs):.1f}",
            f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
            f"{statistics.median(self.shares):.0%}",
        ]


def pair(ours: list[str], theirs: list[str], pairs: int) -> Pairing:
    answer(ours)  # warms the page cache and the packed copy
    answer(theirs)
    rows = [(answer(ours), answer(theirs)) for _ in range(pairs)]
    return Pairing(
        [row["tokens_per_second"] for row, _ in rows],
        [row["avg_ts"] for _, row in rows],
        [row["of_limit"] for row, _ in rows],
    )


def describe(program: Path, options: argparse.Namespace) -> None:
    version = subprocess.run([program, "--version"], capture_output=True, text=True).stderr.split(
        "\n"
    )
    print(f"machine: {processor()}, {os.cpu_count()} processors; {platform.platform()}")
    isa = os.environ.get("PYRITE_ISA", "chosen at run time")
    print(f"PYRITE_ISA: {isa}; threads: {options.threads}")
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
    print("\n| model | test | precision | pyrite t/s | llama.cpp t/s | ratio (range) | of limit |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for model in options.models:
        for test in tests(options.prompt, options.generate):
            for precision in options.precision.split(","):
                result = pair(
                    ours_command(model, test, options.threads, precision),
                    theirs_command(options.llama_bench, model, test, options.threads),
                    options.pairs,
                )
                print(
                    f"| {model.name} | {test.name} | {precision} |", " | ".join(result.cells()), "|"
                )


if __name__ == "__main__":
    main()
