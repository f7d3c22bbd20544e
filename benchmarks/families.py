"""A member of each family beside llama.cpp: true shapes, random weights, Q4_0.

    python benchmarks/families.py --llama-bench FILE [--families olmo2,mamba] [--rounds 2]

Models are those of `family_models.py`, with the tensors of `family_tensors.py`, in files that
Pyrite's own converter writes. Prompt and decode are timed in turn, ours, theirs. With `--records`
each pair is kept in a file, and the table is of all that are there, but for rounds that other
programs disturbed. The table says where llama.cpp does not run a family.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from family_models import MEMBERS
from family_tensors import random_folder, shapes_of
from pyrite.config import cache_home
from pyrite.conversion import convert, find_recipe, plan_conversion
from pyrite.export import as_gguf_file
from pyrite.formats.token_table import string_table

PROMPT, DECODE = 256, 32
MOST_OTHERS = 0.05  # of the processors' time, in a round that counts
NOTHING = {"tokens_per_second": 0.0, "gb_per_second": 0.0}
HEAD = ("family", "of", "GB", "prompt t/s", "ratio", "decode t/s", "ratio", "of memory")


@dataclass(frozen=True)
class Pair:
    """One round: tokens a second; bytes a second that our decode reads, and that the memory gives,
    measured in the same process. `why`: what llama.cpp said where it ended without figures.
    `others`: the share of the processors' time that other programs took meanwhile."""

    family: str
    num_bytes: int
    prompt: float
    decode: float
    read_speed: float
    bandwidth: float
    their_prompt: float = 0.0
    their_decode: float = 0.0
    why: str = ""
    others: float = 0.0


class Meter:
    """Seconds of all processors since it was made, and what of them is neither idle nor ours."""

    def __init__(self) -> None:
        self.started = self._read()

    def share(self) -> float:
        whole, busy, own = (b - a for a, b in zip(self.started, self._read(), strict=True))
        return max(0.0, busy - own) / whole

    def _read(self) -> tuple[float, float, float]:
        """By Linux's counters; ours are of this process and of those that have ended."""
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
        ticks = [int(field) / os.sysconf("SC_CLK_TCK") for field in fields]
        user, nice, system, idle, waiting, *interrupts, stolen = ticks
        busy = user + nice + system + sum(interrupts) + stolen
        times = os.times()
        return busy + idle + waiting, busy, sum(times[:4])


def write_model(name: str, python: Path, folder: Path) -> Path:
    """The GGUF file; made once."""
    out = folder / f"family-{name}.gguf"
    if out.exists():
        return out
    member = MEMBERS[name]
    file, _ = as_gguf_file(random_folder(member.config, shapes_of(member.config, python)))
    rows = file.tensors["token_embd.weight"].shape[0]
    file = replace(file, metadata={**file.metadata, **tokenizer(rows)})
    folder.mkdir(parents=True, exist_ok=True)
    plan = plan_conversion(file, find_recipe(member.recipe), keeps_quantized=True)
    convert(plan, out, os.cpu_count() or 1)
    return out


def tokenizer(rows: int) -> dict[str, Any]:
    """A vocabulary of bytes and made-up words, for engines that want one."""
    texts = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    texts += [f"w{index}" for index in range(rows - len(texts))]
    kinds = np.array([2, 3, 3, *[6] * 256, *[1] * (rows - 259)], np.int32)
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": string_table(texts),
        "tokenizer.ggml.scores": -np.arange(rows, dtype=np.float32),
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
    }


def measure(name: str, model: Path, options: argparse.Namespace) -> Pair:
    embeds, meter = MEMBERS[name].embeds, Meter()
    works = ["-p", str(PROMPT), "-n", str(0 if embeds else DECODE), "-r", "1", "-o", "json"]
    works += ["-t", str(options.threads)]
    rows = {row["test"][:2]: row for row in ours(model, works)}
    last = rows.get("tg", NOTHING)
    own = Pair(
        name,
        model.stat().st_size,
        rows["pp"]["tokens_per_second"],
        last["tokens_per_second"],
        last["gb_per_second"] * 1e9,
        rows["pp"]["limits"]["reads"][0]["bytes_per_second"],
    )
    more = ["-embd", "1"] if embeds else []
    told = theirs(model, [*works, *more], options.llama_bench)
    if isinstance(told, str):
        return replace(own, why=told, others=meter.share())
    return replace(own, their_prompt=told[0], their_decode=told[1], others=meter.share())


def ours(model: Path, works: list[str]) -> Any:
    command = [sys.executable, "-m", "pyrite", "bench", str(model), *works]
    return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)


def theirs(model: Path, works: list[str], program: Path) -> tuple[float, float] | str:
    """Prompt and decode, or why there are no figures."""
    command = [str(program), "-m", str(model), *works]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.decode(errors="replace").splitlines() if line]
        return next((line for line in lines if "error loading model:" in line), lines[-1])
    rows = {bool(row["n_prompt"]): row["avg_ts"] for row in json.loads(done.stdout)}
    return rows[True], rows.get(False, 0.0)


def table(pairs: Iterable[Pair]) -> str:
    by_family: dict[str, list[Pair]] = {}
    for pair in quiet(pairs):
        by_family.setdefault(pair.family, []).append(pair)
    lines = [HEAD, ["---"] * len(HEAD), *(row(found) for found in by_family.values())]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def quiet(pairs: Iterable[Pair]) -> list[Pair]:
    """Without rounds that other programs disturbed, where a family has others."""
    found = list(pairs)
    calm = {one.family for one in found if one.others <= MOST_OTHERS}
    return [one for one in found if one.others <= MOST_OTHERS or one.family not in calm]


def row(pairs: list[Pair]) -> list[str]:
    """Medians of rounds; ratios with the least and the greatest."""
    middle = statistics.median
    member = MEMBERS[pairs[0].family]
    return [
        pairs[0].family,
        member.what + (f", {member.layers} layers" if member.layers else ""),
        f"{pairs[0].num_bytes / 1e9:.2f}",
        f"{middle(one.prompt for one in pairs):.0f}",
        ratio([(one.prompt, one.their_prompt) for one in pairs]),
        *(["none"] * 3 if member.embeds else decode_cells(pairs)),
    ]


def decode_cells(pairs: list[Pair]) -> list[str]:
    middle = statistics.median
    return [
        f"{middle(one.decode for one in pairs):.1f}",
        ratio([(one.decode, one.their_decode) for one in pairs]),
        f"{middle(one.read_speed for one in pairs) / max(one.bandwidth for one in pairs):.0%}",
    ]


def ratio(speeds: list[tuple[float, float]]) -> str:
    found = [own / other for own, other in speeds if other]
    if not found:
        return "not run there"
    return f"{statistics.median(found):.2f} ({min(found):.2f}, {max(found):.2f})"


def read(path: Path | None) -> list[Pair]:
    if path is None or not path.is_file():
        return []
    return [Pair(**json.loads(line)) for line in path.read_text().splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--llama-bench", type=Path, required=True)
    parser.add_argument("--transformers", type=Path, required=True, help="its Python")
    parser.add_argument("--families", default=",".join(MEMBERS))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--records", type=Path, help="file that pairs are added to")
    parser.add_argument("--keep", action="store_true", help="leave the files where they are")
    options = parser.parse_args()
    pairs = read(options.records)
    for name in filter(None, options.families.split(",")):
        model = write_model(name, options.transformers, cache_home() / "benchmarks")
        for _ in range(options.rounds):
            pairs.append(measure(name, model, options))
            print(row(pairs[-1:]), pairs[-1].why, file=sys.stderr, flush=True)
            if options.records is not None:
                with options.records.open("a") as file:
                    file.write(json.dumps(asdict(pairs[-1])) + "\n")
        if not options.keep:
            model.unlink()
    print(table(pairs))


if __name__ == "__main__":
    main()
