"""How each engine is asked for a work, and where in its output the figure stands.

A command prints; a reader makes tokens a second of what was printed. An engine that cannot do a
work, or cannot read a model, is `Unable`, with the reason. Nothing here runs a command.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import peers
from pyrite.config import cache_home
from works import START_PROMPT, Work

DRIVERS = Path(__file__).parent / "drivers"


class Unable(Exception):  # noqa: N818 - a fact about the engine
    """Why an engine does not do a work."""


@dataclass(frozen=True)
class Task:
    model: Path
    work: Work
    threads: int


@dataclass(frozen=True)
class Command:
    words: list[str]
    environment: Mapping[str, str] = field(default_factory=dict)  # added to ours


# What a command printed -> "tokens_per_second", and what else the engine tells of itself.
Reader = Callable[[str], dict[str, Any]]


@dataclass(frozen=True)
class Engine:
    name: str
    command: Callable[[Task], Command]
    read: Reader
    peer: str = ""  # its row in peers.PEERS; none for ours

    @property
    def is_ours(self) -> bool:
        return not self.peer


def ours(precision: str) -> Engine:
    def command(task: Task) -> Command:
        work, start = task.work, [sys.executable, "-m", "pyrite"]
        more = ["--precision", precision, "-t", str(task.threads)]
        if work.start:
            words = ["run", str(task.model), START_PROMPT, "--max-tokens", "1", "--json"]
        else:
            words = ["bench", str(task.model), "-p", str(work.prompt), "-n", str(work.generate)]
            words += ["-d", str(work.depth), "-b", str(work.streams), "-r", "1", "-o", "json"]
        return Command([*start, *words, *more])

    return Engine(f"pyrite {precision}", command, read_ours)


def read_ours(output: str) -> dict[str, Any]:
    row = json.loads(output)[0]
    names = ("tokens_per_second", "of_limit", "limit")
    return {name: row[name] for name in names}


def llama_cpp(task: Task) -> Command:
    work = task.work
    threads = ["-t", str(task.threads)]
    if work.start:
        words = ["-m", str(task.model), "-p", START_PROMPT, "-n", "1", "-fa", "on", "-st"]
        return Command([llama_program("llama-cli"), *words, *threads])
    if work.streams > 1:
        words = f"-m {task.model} -c {work.streams * work.context} -b 2048 -ub 512 -fa on"
        words += f" -npp {work.depth} -ntg {work.generate} -npl {work.streams}"
        more = ["-tb", str(task.threads), "--output-format", "jsonl"]
        return Command([llama_program("llama-batched-bench"), *words.split(), *threads, *more])
    words = (
        f"-m {task.model} -p {work.prompt} -n {work.generate} -d {work.depth} -r 1 -fa 1 -o json"
    )
    return Command([llama_program("llama-bench"), *words.split(), *threads])


def llama_program(name: str) -> str:
    found = peers.binary(name)
    if found is None:
        raise Unable(
            f"the package has no {name}" if peers.binary("llama-bench") else "not installed"
        )
    return str(found)


def read_llama_cpp(output: str) -> dict[str, Any]:
    """llama-bench's list of one row, or the last of llama-batched-bench's lines of JSON."""
    if output.lstrip().startswith("["):
        row = json.loads(output)[0]
        return {"tokens_per_second": row["avg_ts"]}
    lines = [line for line in output.splitlines() if line.startswith("{")]
    return {"tokens_per_second": json.loads(lines[-1])["speed_tg"]}


def driven(peer: str, script: str, *, torch: bool = False, most: int = 0) -> Engine:
    """A peer that is a Python package, driven by a script of ours.

    `torch`: it is built on that, and reads folders of safetensors alone. `most`: tokens that it is
    asked for at most, because it is so slow; the command tells.
    """

    def command(task: Task) -> Command:
        python = peers.python_of(peer)
        if python is None:
            raise Unable(peers.missing(peer))
        model = folder_of(task.model) if torch else task.model
        prompt, generate, depth = task.work.prompt, task.work.generate, task.work.depth
        if most:
            if depth > most:
                raise Unable(f"{depth} tokens would take it too long")
            prompt, generate = min(prompt, most), min(generate, most)
        asked = {"prompt": prompt, "generate": generate, "depth": depth}
        asked |= {"streams": task.work.streams, "threads": task.threads}
        words = [word for name, value in asked.items() for word in (f"--{name}", str(value))]
        return Command(
            [str(python), str(DRIVERS / script), str(model), *words],
            torch_environment(task.threads) if torch else {},
        )

    return Engine(peer, command, read_driver, peer)


def read_driver(output: str) -> dict[str, Any]:
    lines = [line for line in output.splitlines() if line.startswith("{")]
    return dict(json.loads(lines[-1]))


def folder_of(model: Path) -> Path:
    """The model as a folder of safetensors in bfloat16, as drivers/gguf_to_folder.py writes it."""
    folder = cache_home() / "benchmarks" / "folders" / model.stem
    if not (folder / "config.json").is_file():
        raise Unable("reads no GGUF, and there is no folder of this model")
    return folder


def torch_environment(threads: int) -> dict[str, str]:
    """With the instructions that PYRITE_ISA names for us, so that like meets like."""
    cores = ",".join(map(str, sorted(os.sched_getaffinity(0))[:threads]))
    found = {
        "HF_HUB_OFFLINE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": cores,
        "VLLM_CPU_KVCACHE_SPACE": "2",
        "VLLM_NO_USAGE_STATS": "1",
    }
    return found | torch_limits()


def torch_limits() -> dict[str, str]:
    if os.environ.get("PYRITE_ISA") != "avx2":
        return {}
    return {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"}


ENGINES = {
    one.name: one
    for one in (
        ours("default"),
        ours("fast"),
        Engine("llama.cpp", llama_cpp, read_llama_cpp, "llama.cpp"),
        driven("ik_llama.cpp", "steps_ik_llama.py"),
        driven("xllamacpp", "steps_xllamacpp.py"),
        driven("mistral.rs", "steps_mistralrs.py", most=64),
        driven("transformers", "steps_transformers.py", torch=True),
        driven("vllm", "steps_vllm.py", torch=True),
    )
}
