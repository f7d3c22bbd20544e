"""Serving beside peers, by one client: ours, theirs, ours, theirs, each a fresh server.

    python benchmarks/serving.py MODEL.gguf [--pairs 3] [--clients 32] [--scenarios own,shared]
        [--llama-server PROGRAM] [--vllm PROGRAM --folder F] [--transformers PYTHON --folder F]

Each peer that is named is measured in pairs with ours. A row gives the median of each side, and the
median and range of the ratio pair by pair (ours / theirs). `--folder` is the same model as a folder
of safetensors, for peers that read no GGUF (gguf_to_folder.py writes one). The figures are those of
`pyrite bench serve`, and the processor time of a server, with that of waits that spin.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shlex
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import peers
import pyrite
import servers
from processes import sample
from pyrite.cli.machine import machine_line


@dataclass(frozen=True)
class Scenario:
    """What the clients ask, as options of `pyrite bench serve`."""

    name: str
    what: str
    prompt_tokens: str
    output_tokens: str
    shared_tokens: int = 0
    single: bool = False  # one client, whatever number is asked for

    def words(self, options: argparse.Namespace, seed: int) -> list[str]:
        clients = 1 if self.single else options.clients
        words = f"--prompt-tokens {self.prompt_tokens} --output-tokens {self.output_tokens}"
        words += f" --shared-prefix-tokens {self.shared_tokens} --concurrency {clients}"
        count = 4 if self.single else clients * options.waves
        words += f" --requests {count} --seed {seed} --timeout {options.timeout}"
        return [*words.split(), "--warmup", "1", "-o", "json"]


SCENARIOS = {
    one.name: one
    for one in (
        Scenario("own", "512-token prompts of their own, 128 out", "512", "128"),
        Scenario("shared", "400 tokens in common and 40 of their own, 128 out", "440", "128", 400),
        Scenario("single", "one client, 512-token prompts, 128 out", "512", "128", single=True),
        Scenario("mixed", "64- or 1500-token prompts, 32 or 128 out", "64,1500", "32,128"),
    )
}
# Title: the way to it in a summary; what is better.
FIGURES = {
    "output tokens/s": ("output_tokens_per_second", None),
    "first token, p50 s": ("first_token", "p50"),
    "first token, p99 s": ("first_token", "p99"),
    "gap, p99 s": ("gap", "p99"),
    "gap, max s": ("gap", "max"),
    "processor ms a token": ("processor_ms_per_token", None),
}

Summary = dict[str, object]


def figure(summary: Summary, title: str) -> float:
    """NaN for what was not measured, because nothing was answered."""
    name, part = FIGURES[title]
    value = summary[name]
    found = value[part] if isinstance(value, dict) and part else value
    return found if isinstance(found, (int, float)) else math.nan


def measure(command: servers.Command, words: list[str], timeout: float) -> Summary:
    """One run against a fresh server. Faults are told on stderr, and are in the summary."""
    with servers.running(command) as server:
        spent = sample(server.pids).processor_seconds
        client = [sys.executable, "-m", "pyrite", "bench", "serve", "--url", server.url, *words]
        done = subprocess.run(client, capture_output=True, text=True, timeout=timeout + 300)
        spent = sample(server.pids).processor_seconds - spent
        if not done.stdout:
            raise SystemExit(
                f"{shlex.join(client)}\n{done.stderr}\n{server.log.read_text()[-2000:]}"
            )
    summary = dict(json.loads(done.stdout))
    summary["processor_ms_per_token"] = 1000 * spent / max(1, summary["output_tokens"])
    if summary["faults"]:
        print(f"{command.name}: faults {summary['faults']}: {summary['first_fault']}", flush=True)
    return summary


def compare(
    first: servers.Command, second: servers.Command, scenario: Scenario, options: argparse.Namespace
) -> list[tuple[Summary, Summary]]:
    pairs = []
    for seed in range(options.pairs):
        words = scenario.words(options, seed)
        pairs.append(
            (
                measure(first, words, options.timeout),
                measure(second, words, options.timeout),
            )
        )
    return pairs


def rows(name: str, scenario: Scenario, pairs: list[tuple[Summary, Summary]]) -> Iterator[str]:
    for title in FIGURES:
        mine = [figure(one, title) for one, _ in pairs]
        other = [figure(one, title) for _, one in pairs]
        ratios = [a / b if b else math.nan for a, b in zip(mine, other, strict=True)]
        yield (
            f"| {scenario.name} | {name} | {title} | {statistics.median(mine):.3g} "
            f"| {statistics.median(other):.3g} | {statistics.median(ratios):.2f} "
            f"({min(ratios):.2f} to {max(ratios):.2f}) |"
        )


def commands(options: argparse.Namespace) -> list[servers.Command]:
    """The peers that are named."""
    found = []
    shape = {"threads": options.threads, "context": options.context}
    if options.llama_server:
        found.append(
            servers.llama_server(
                options.llama_server, options.model, slots=options.clients, **shape
            )
        )
    if options.vllm:
        found.append(servers.vllm(options.vllm, options.folder, dtype=options.dtype, **shape))
    if options.transformers:
        found.append(
            servers.transformers(
                options.transformers, options.folder, threads=options.threads, dtype=options.dtype
            )
        )
    return found


def describe(options: argparse.Namespace, found: list[servers.Command]) -> None:
    print(f"machine: {machine_line()}")
    isa = os.environ.get("PYRITE_ISA", "chosen at run time")
    print(f"PYRITE_ISA: {isa}; threads: {options.threads}")
    print(f"pyrite {pyrite.__version__} {revision()}")
    for command in found:
        print(f"{command.name} {version(command)}: {shlex.join(command.words)}")
    print(f"command: python {shlex.join(sys.argv)}\n")


def revision() -> str:
    asked = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    return subprocess.run(asked, capture_output=True, text=True).stdout.strip()


def version(command: servers.Command) -> str:
    """What the peer says of itself, in one line."""
    program = command.words[0]
    asked = {
        "llama-server": [program, "--version"],
        "vllm-cpu": [program, "--version"],
        "transformers": [program, "-c", "import transformers as t; print(t.__version__)"],
    }[command.name]
    done = subprocess.run(asked, capture_output=True, text=True)
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    return next((line for line in lines if any(map(str.isdigit, line))), "of unknown version")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--scenarios", default=",".join(SCENARIOS))
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--waves", type=int, default=1, help="requests of each client")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--context", type=int, default=2048, help="tokens of one request")
    parser.add_argument("--timeout", type=float, default=600, help="seconds of one run")
    parser.add_argument("--precision", default="default")
    parser.add_argument("--llama-server", type=Path, default=peers.binary("llama-server"))
    parser.add_argument("--vllm", type=Path, help="the program `vllm` of a vllm-cpu environment")
    parser.add_argument("--transformers", type=Path, help="a python with torch and transformers")
    parser.add_argument("--folder", type=Path, help="the model for vllm and transformers")
    parser.add_argument("--dtype", default="bfloat16", help="of vllm and transformers")
    parser.add_argument("--keep", type=Path, help="write every summary to this JSON file")
    options = parser.parse_args()
    if (options.vllm or options.transformers) and not options.folder:
        parser.error("--vllm and --transformers need --folder")
    found = commands(options)
    describe(options, found)
    more = ["--precision", options.precision]
    mine = servers.ours(options.model, threads=options.threads, context=options.context, more=more)
    kept = []
    print("| scenario | peer | figure | pyrite | peer's | ratio (range) |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name in options.scenarios.split(","):
        for peer in found:
            pairs = compare(mine, peer, SCENARIOS[name], options)
            kept.append({"scenario": name, "peer": peer.name, "pairs": pairs})
            print("\n".join(rows(peer.name, SCENARIOS[name], pairs)), flush=True)
    if options.keep:
        options.keep.write_text(json.dumps(kept, indent=1))


if __name__ == "__main__":
    main()
