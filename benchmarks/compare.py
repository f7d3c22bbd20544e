"""This engine beside its peers, in turn: ours, theirs, ours, theirs. `make bench` runs this.

    python benchmarks/compare.py [--quick] [--models smollm2,q4_0] [--works prefill,decode]
        [--engines llama.cpp] [--pairs 3] [--types]

Each run is a process of its own that measures once after a warm-up. A round runs every engine once;
ratios are taken round by round. Runs are kept in a file as they end (--keep), and what is there is
not measured again (--fresh does), so that the table can be made in pieces. `--types` sets random
models of every weight type beside llama.cpp instead.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import peers
import pyrite
from comparison import comparison_table, lines_of
from engines import ENGINES, Engine, Task, Unable
from models import RANDOM, REAL, TYPES, model_path
from pyrite.cli.limits import measure_machine
from pyrite.cli.limits_report import as_markdown
from pyrite.cli.machine import machine_line, processor
from pyrite.config import cache_home
from records import Record, Records, Subject
from works import WORKS, Work


@dataclass(frozen=True)
class Plan:
    """What is asked for: everything is compared with everything."""

    models: Sequence[str]
    works: Sequence[Work]
    engines: Sequence[Engine]
    pairs: int
    threads: int
    timeout: float  # seconds of one run

    def subject(self, model: str, work: Work) -> Subject:
        machine = f"{processor()}, {len(os.sched_getaffinity(0))} processors"
        isa = os.environ.get("PYRITE_ISA", "")
        return Subject(Path(model).name, work.name, self.threads, isa, machine)

    def subjects(self) -> list[tuple[Subject, str]]:
        return [
            (self.subject(name, work), work.unit) for name in self.models for work in self.works
        ]


def measure(plan: Plan, records: Records) -> None:
    """Adds the runs that are not there. A failure is a record, and ends nothing."""
    for model in plan.models:
        warm = partial(warm_up, model_path(model), plan.threads)
        for work in plan.works:
            subject = plan.subject(model, work)
            task = Task(model_path(model), work, plan.threads)
            for number in range(plan.pairs):
                for engine in plan.engines:
                    before = records.find(subject, engine.name)
                    if any(one.was_run and (one.why or one.round == number) for one in before):
                        continue
                    warm()
                    warm = partial(lambda: None)
                    note(f"{subject.model}, {work.name}, {engine.name}, round {number + 1} ...")
                    records.add(run(subject, engine, task, number, plan.timeout))


def warm_up(model: Path, threads: int) -> None:
    """Our packed copy is written, and the file is in the page cache."""
    words = [sys.executable, "-m", "pyrite", "bench", str(model), "-p", "1", "-n", "0", "-r", "1"]
    subprocess.run([*words, "-t", str(threads)], capture_output=True)
    model.read_bytes()


def run(subject: Subject, engine: Engine, task: Task, number: int, timeout: float) -> Record:
    record = partial(Record, subject, engine.name, number, version=version_of(engine))
    try:
        command = engine.command(task)
    except Unable as reason:
        return record(command="", why=str(reason))
    shown = shlex.join([*assignments(command.environment), *map(short, command.words)])
    start = time.perf_counter()
    try:
        done = subprocess.run(
            command.words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            # Bytecode is kept, as it is of every installed package.
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "", **command.environment},
        )
    except subprocess.TimeoutExpired:
        return record(command=shown, why=f"more than {timeout:.0f} s")
    seconds = time.perf_counter() - start
    if done.returncode != 0:
        return record(command=shown, why=last_words(done.stderr or done.stdout, done.returncode))
    if task.work.start:
        return record(command=shown, value=seconds)
    try:
        found = engine.read(done.stdout)
    except (ValueError, LookupError):
        return record(command=shown, why=f"prints no figure: {done.stdout[-80:]!r}")
    return record(
        command=shown,
        value=found["tokens_per_second"],
        of_limit=found.get("of_limit"),
        limit=found.get("limit", ""),
    )


def version_of(engine: Engine) -> str:
    if engine.is_ours:
        return f"pyrite {pyrite.__version__} {revision()}"
    return peers.PEERS[engine.peer].package


def revision() -> str:
    asked = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    return subprocess.run(asked, capture_output=True, text=True).stdout.strip()


def assignments(environment: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in environment.items()]


def short(word: str) -> str:
    """A program or file by its name alone."""
    return Path(word).name if word.startswith("/") else word


def last_words(text: str, status: int) -> str:
    """Of a failed program: the line that names an error, else its last."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if re.search("error|assert|abort", line, re.IGNORECASE)]
    return f"ended with {status}: {(named or lines or ['and said nothing'])[-1][:120]}"


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def planned(options: argparse.Namespace) -> Plan:
    """Raises SystemExit for a name that is none of ours."""
    names = {"models": [*REAL, *RANDOM], "works": list(WORKS), "engines": list(ENGINES)}
    if options.quick:
        names = {"models": ["smollm2"], "works": ["prefill", "decode"], "engines": list(ENGINES)}
    if options.types:
        names = {"models": list(TYPES), "works": ["prefill", "decode"], "engines": ["llama.cpp"]}
    for kind in names:
        if getattr(options, kind):
            names[kind] = getattr(options, kind).split(",")
    ours = [name for name, engine in ENGINES.items() if engine.is_ours]
    wanted = [*ours, *(name for name in names["engines"] if name not in ours)]
    for kind, table in (("works", WORKS), ("engines", ENGINES)):
        for name in names[kind]:
            if name not in table:
                raise SystemExit(f"--{kind}: {name} is none of {', '.join(table)}")
    return Plan(
        names["models"],
        [WORKS[name] for name in names["works"]],
        [ENGINES[name] for name in wanted],
        1 if options.quick else options.pairs,
        options.threads,
        options.timeout,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", help=f"of {', '.join([*REAL, *RANDOM])}, or paths")
    parser.add_argument("--works", help=f"of {', '.join(WORKS)}")
    parser.add_argument("--engines", help=f"beside ours, of {', '.join(ENGINES)}")
    parser.add_argument("--pairs", type=int, default=3, help="rounds")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--timeout", type=float, default=300, help="seconds of one run")
    parser.add_argument("--quick", action="store_true", help="one model, two works, one round")
    parser.add_argument("--types", action="store_true", help="every weight type beside llama.cpp")
    parser.add_argument("--fresh", action="store_true", help="measure again what is there")
    parser.add_argument("--no-limits", action="store_true", help="the table alone")
    parser.add_argument("--keep", type=Path, default=cache_home() / "benchmarks" / "compare.json")
    options = parser.parse_args()
    plan, records = planned(options), Records(options.keep)
    engines = [one.name for one in plan.engines]
    if options.fresh:
        records.forget([subject for subject, _ in plan.subjects()], engines)
    measure(plan, records)
    print(f"{machine_line()}; PYRITE_ISA: {os.environ.get('PYRITE_ISA', 'chosen at run time')}")
    print(f"{plan.threads} threads; rounds: {plan.pairs}; python {shlex.join(sys.argv)}\n")
    if not options.no_limits:
        print(as_markdown(measure_machine(plan.threads)), end="\n\n")
    print(comparison_table(lines_of(records, plan.subjects(), engines)))


if __name__ == "__main__":
    main()
