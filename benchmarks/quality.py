"""KL divergence from the float32 log-probabilities of tests/golden/real, ours and llama.cpp's.

    python benchmarks/quality.py MODEL... [--llama-server PATH]

For each prompt the fixture holds the 50 likeliest tokens of up to 8 positions. The divergence is
taken over these 50 and one bucket for the rest: sum p log(p / q). llama.cpp answers over its own
HTTP server, one request a position, with its default settings and 16-bit keys and values.
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import peers
from models import model_path

GOLDEN = Path(__file__).resolve().parent.parent / "tests" / "golden" / "real"

OURS: dict[str, dict[str, str]] = {
    "default": {},
    "default, 8-bit keys and values": {"kv_type": "q8"},
    "fast": {"precision": "fast"},
}

# ids of a prompt up to a position, ids whose log-probabilities are wanted -> those, or None where
# the engine gives none
Probe = Callable[[list[int], NDArray[np.int32]], NDArray[np.float64] | None]


def divergence(reference: NDArray[np.float64], found: NDArray[np.float64]) -> float:
    """KL(reference || found) over the given tokens and one bucket for all others; nats."""
    p, q = np.exp(reference), np.exp(found)
    inside = float(np.sum(p * (reference - found)))
    rest_p, rest_q = max(1 - p.sum(), 1e-12), max(1 - q.sum(), 1e-12)
    return inside + float(rest_p * np.log(rest_p / rest_q))


@dataclass(frozen=True)
class Found:
    """What an engine gave at one position."""

    divergence: float
    same_top: bool
    top5_difference: float


# By prompt and position, where the engine answered.
Answers = dict[tuple[str, int], Found]


def measure(name: str, probe: Probe) -> Answers:
    prompts = json.loads((GOLDEN / f"{name}.json").read_text())["prompts"]
    answers: Answers = {}
    with np.load(GOLDEN / f"{name}.npz") as arrays:
        for prompt in prompts:
            key = prompt["name"]
            for row, position in enumerate(prompt["positions"]):
                top = arrays[f"{key}.top_ids"][row]
                found = probe(prompt["ids"][: position + 1], top)
                if found is not None:
                    reference = arrays[f"{key}.top_logprobs"][row].astype(np.float64)
                    answers[key, position] = compare(reference, found)
    return answers


def compare(reference: NDArray[np.float64], found: NDArray[np.float64]) -> Found:
    return Found(
        divergence(reference, found),
        int(np.argmax(found)) == 0,
        float(np.median(np.abs(found[:5] - reference[:5]))),
    )


def ours(path: Path, options: dict[str, str], threads: int) -> Answers:
    import pyrite

    with pyrite.load(path, threads=threads, **options) as model:

        def probe(ids: list[int], wanted: NDArray[np.int32]) -> NDArray[np.float64]:
            row = model.logits(ids)[-1].astype(np.float64)
            top = row.max()
            return row[wanted] - top - np.log(np.exp(row - top).sum())

        return measure(fixture_of(path), probe)


def fixture_of(path: Path) -> str:
    return "smollm2_135m_q4_1" if "smol" in path.name.lower() else "gemma3_270m_q4_k_m"


@contextmanager
def llama_server(binary: Path, model: Path, threads: int) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        binary,
        "-m",
        model,
        "-t",
        str(threads),
        "--port",
        str(port),
        "-c",
        "2048",
        "-np",
        "1",
    ]
    process = subprocess.Popen(
        [str(part) for part in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    url = f"http://127.0.0.1:{port}"
    try:
        wait_ready(url, process)
        yield url
    finally:
        process.terminate()
        process.wait(timeout=30)


def wait_ready(url: str, process: subprocess.Popen[bytes], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise SystemExit(f"llama-server ended with {process.returncode}")
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=2):
                return
        except OSError:
            time.sleep(0.2)
    raise SystemExit("llama-server was not ready in time")


def theirs(binary: Path, path: Path, threads: int) -> Answers:
    with llama_server(binary, path, threads) as url:
        # It joins tokens that end inside a character, and then gives no probabilities.
        def probe(ids: list[int], wanted: NDArray[np.int32]) -> NDArray[np.float64] | None:
            body = {"prompt": ids, "n_predict": 1, "n_probs": 20000, "temperature": -1}
            request = urllib.request.Request(
                f"{url}/completion",
                data=json.dumps(body | {"cache_prompt": True}).encode(),
                headers={"Content-Type": "application/json"},
            )
            with urllib.request.urlopen(request, timeout=120) as answer:
                first = (json.load(answer).get("completion_probabilities") or [None])[0]
            if first is None:
                return None
            known = {entry["id"]: entry["logprob"] for entry in first["top_logprobs"]}
            floor = min(known.values())
            return np.array([known.get(int(token), floor) for token in wanted], dtype=np.float64)

        return measure(fixture_of(path), probe)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", type=model_path, help="paths, or names of models.py")
    parser.add_argument(
        "--llama-server",
        type=Path,
        default=peers.binary("llama-server"),
        help="llama.cpp's server (default: where benchmarks/peers.py put it)",
    )
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    for path in options.models:
        rows: dict[str, Answers] = {}
        for name, chosen in OURS.items():
            rows[f"pyrite {name}"] = ours(path, chosen, options.threads)
        if options.llama_server:
            rows["llama.cpp"] = theirs(options.llama_server, path, options.threads)
        report(path, rows)


def report(path: Path, rows: dict[str, Answers]) -> None:
    """Every engine on the positions that all of them answered."""
    common = set.intersection(*(set(answers) for answers in rows.values()))
    print(f"\n{path.name}: {len(common)} positions that every engine answered")
    print("| engine | mean KL | largest KL | same top token | top-5 difference, median |")
    print("| --- | --- | --- | --- | --- |")
    for engine, answers in rows.items():
        found = [answers[key] for key in sorted(common)]
        divergences = [one.divergence for one in found]
        cells = [f"{np.mean(divergences):.2e}", f"{max(divergences):.2e}"]
        cells += [f"{np.mean([one.same_top for one in found]):.1%}"]
        cells += [f"{np.median([one.top5_difference for one in found]):.4f}"]
        print(f"| {engine} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
