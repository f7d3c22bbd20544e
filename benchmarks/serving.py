"""Serving beside peers, by one client: ours, theirs, ours, theirs, each a fresh server.

    python benchmarks/serving.py [MODEL] [--pairs 3] [--clients 32] [--scenarios own,shared]
        [--servers llama.cpp,xllamacpp]

A round runs every server once; ratios are taken round by round. The figures are those of
`pyrite bench serve`, and the processor time of a server, with that of waits that spin. Runs are
kept in a file as they end (--keep), and what is there is not measured again (--fresh does). Peers
that read no GGUF are given a folder of safetensors (drivers/gguf_to_folder.py writes one).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyrite
import servers
from compare import last_words, revision, short
from comparison import spread
from engines import Unable
from models import model_path
from peers import PEERS
from processes import sample
from pyrite.cli.machine import machine_line
from pyrite.cli.markdown import table
from pyrite.config import cache_home
from server_peers import OURS, SERVERS, command_of


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
# Title: the way to it in a summary.
FIGURES = {
    "output tokens/s": ("output_tokens_per_second", None),
    "first token, p50 s": ("first_token", "p50"),
    "first token, p99 s": ("first_token", "p99"),
    "gap, p99 s": ("gap", "p99"),
    "processor ms a token": ("processor_ms_per_token", None),
}
SPEED = "output tokens/s"

Summary = Mapping[str, Any]


@dataclass(frozen=True)
class Run:
    """One server under one scenario; `why` where there is no summary, or not of all requests."""

    model: str
    scenario: str
    server: str
    round: int
    isa: str
    clients: int
    command: str
    version: str
    summary: dict[str, Any] | None = None
    why: str = ""

    def figure(self, title: str) -> float:
        """NaN for what was not measured, because nothing was answered."""
        name, part = FIGURES[title]
        value = (self.summary or {}).get(name)
        found = value[part] if isinstance(value, dict) and part else value
        return found if isinstance(found, (int, float)) else math.nan


def measure(command: servers.Command, words: list[str], timeout: float) -> dict[str, Any]:
    """Raises Unable for a server that does not start, or does not answer the client."""
    with servers.running(command) as server:
        spent = sample(server.pids).processor_seconds
        client = [sys.executable, "-m", "pyrite", "bench", "serve", "--url", server.url, *words]
        done = subprocess.run(client, capture_output=True, text=True, timeout=timeout + 300)
        spent = sample(server.pids).processor_seconds - spent
    if not done.stdout:
        raise Unable(last_words(done.stderr, done.returncode))
    summary = dict(json.loads(done.stdout))
    summary["processor_ms_per_token"] = 1000 * spent / max(1, summary["output_tokens"])
    return summary


def run(name: str, scenario: Scenario, number: int, options: argparse.Namespace) -> Run:
    words = scenario.words(options, number)
    isa = os.environ.get("PYRITE_ISA", "")
    known = (options.model, scenario.name, name, number, isa, options.clients)
    try:
        command = command_of(
            name,
            model_path(options.model),
            threads=options.threads,
            context=options.context,
            slots=options.clients,
        )
    except Unable as reason:
        return Run(*known, "", version_of(name), why=str(reason))
    told = shlex.join(map(short, command.words)), version_of(name)
    try:
        summary = measure(command, words, options.timeout)
    except (Unable, servers.Failure, subprocess.TimeoutExpired) as reason:
        return Run(*known, *told, why=str(reason)[-300:])
    answered, asked = summary["answered"], summary["requests"]
    why = "" if answered == asked else f"{answered} of {asked} answered: {summary['first_fault']}"
    return Run(*known, *told, summary, why)


def version_of(name: str) -> str:
    if name not in PEERS:
        return f"pyrite {pyrite.__version__} {revision()}"
    return PEERS[name].package


def read_runs(path: Path) -> list[Run]:
    return [Run(**row) for row in json.loads(path.read_text())] if path.is_file() else []


def write_runs(path: Path, runs: Sequence[Run]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}.partial")
    partial.write_text(json.dumps([asdict(one) for one in runs], indent=1))
    partial.replace(path)


def cells(name: str, found: Sequence[Run], ours: Mapping[str, Sequence[Run]]) -> list[str]:
    """A line of the table: one server's runs of one scenario."""
    values = {title: [one.figure(title) for one in found] for title in FIGURES}
    why = next((one.why for one in found if one.why), "")
    measured = [] if all(map(math.isnan, values[SPEED])) else [*FIGURES]
    told = [told_spread(values[title]) if title in measured else "-" for title in FIGURES]
    against = ["" if name in ours else told_spread(ratios(mine, found)) for mine in ours.values()]
    return [found[0].scenario, name, *told, *against, why]


def told_spread(values: Sequence[float]) -> str:
    known = [value for value in values if not math.isnan(value)]
    return spread(known, 2) if known else "-"


def ratios(ours: Sequence[Run], theirs: Sequence[Run]) -> list[float]:
    """Of tokens a second, round by round."""
    speeds = {one.round: one.figure(SPEED) for one in theirs}
    pairs = [(one.figure(SPEED), speeds[one.round]) for one in ours if one.round in speeds]
    return [mine / other for mine, other in pairs if other > 0]


def serving_table(runs: Sequence[Run], names: Sequence[str]) -> str:
    head = ["scenario", "server", *FIGURES]
    compared = [name for name in OURS if name in names]
    titles = [f"{name.removeprefix('pyrite ')} is" for name in compared]
    rows = []
    for scenario in dict.fromkeys(one.scenario for one in runs):
        found = {
            name: [one for one in runs if (one.scenario, one.server) == (scenario, name)]
            for name in names
        }
        ours = {name: found[name] for name in compared}
        rows += [cells(name, several, ours) for name, several in found.items() if several]
    text = table([*head, *titles, "why"], rows, right=list(FIGURES))
    told = dict.fromkeys(f"- {one.server}, {one.version}: {one.command}" for one in runs)
    return "\n".join([text, "", *(line for line in told if not line.endswith(": "))])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default="smollm2", help="a path, or of models.py")
    parser.add_argument("--scenarios", default="own,shared", help=f"of {', '.join(SCENARIOS)}")
    parser.add_argument("--servers", help=f"beside ours, of {', '.join(SERVERS)}")
    parser.add_argument("--pairs", type=int, default=3, help="rounds")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--waves", type=int, default=1, help="requests of each client")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--context", type=int, default=2048, help="tokens of one request")
    parser.add_argument("--timeout", type=float, default=600, help="seconds of one run")
    parser.add_argument("--fresh", action="store_true", help="measure again what is there")
    parser.add_argument("--keep", type=Path, default=cache_home() / "benchmarks" / "serving.json")
    options = parser.parse_args()
    names = options.servers.split(",") if options.servers else list(SERVERS)
    names = [*OURS, *(name for name in names if name not in OURS)]
    for name in names:
        if name not in SERVERS:
            parser.error(f"{name} is none of {', '.join(SERVERS)}")
    runs = measured(names, options)
    isa = os.environ.get("PYRITE_ISA", "")
    print(f"{machine_line()}; PYRITE_ISA: {isa or 'chosen at run time'}; {options.threads} threads")
    print(f"{options.model}, {options.clients} clients; python {shlex.join(sys.argv)}\n")
    shown = [one for one in runs if is_wanted(one, names, options)]
    print(serving_table(shown, names))


def is_wanted(one: Run, names: Sequence[str], options: argparse.Namespace) -> bool:
    known = (one.model, one.isa, one.clients)
    asked = (options.model, os.environ.get("PYRITE_ISA", ""), options.clients)
    return known == asked and one.server in names and one.scenario in options.scenarios.split(",")


def measured(names: Sequence[str], options: argparse.Namespace) -> list[Run]:
    """Adds the runs that are not there to the file, and gives all."""
    runs = read_runs(options.keep)
    if options.fresh:
        runs = [one for one in runs if not is_wanted(one, names, options)]
    for scenario in options.scenarios.split(","):
        for number in range(options.pairs):
            for name in names:
                before = [
                    one
                    for one in runs
                    if (one.scenario, one.server) == (scenario, name)
                    and is_wanted(one, names, options)
                ]
                if any(one.command and (one.why or one.round == number) for one in before):
                    continue
                runs = [one for one in runs if one not in before or one.command]
                print(f"{scenario}, {name}, round {number + 1} ...", file=sys.stderr, flush=True)
                runs.append(run(name, SCENARIOS[scenario], number, options))
                write_runs(options.keep, runs)
    return runs


if __name__ == "__main__":
    main()
