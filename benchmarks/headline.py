"""The figures of the README: limits, speed, divergence, start; `make bench` runs this.

Models: the two that have aliases, and a random 1.5B in Qwen 2's shape as Q4_0 and Q4_K_M. Where the
peer is installed (`make bench-peers`) both sides are measured in turn; else ours stand alone.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import models
import peers
from pyrite.config import cache_home
from pyrite.formats import hub

HERE = Path(__file__).parent


def real_models() -> list[Path]:
    return [hub.resolve(name) for name in ("smollm2", "gemma3:270m")]


def random_models() -> list[Path]:
    folder = cache_home() / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for mix in ("Q4_0", "Q4_K_M"):
        path = folder / f"random-qwen2-1.5b-{mix.lower()}.gguf"
        if not path.exists():
            models.write_model(path, "qwen2-1.5b", mix)
        paths.append(path)
    return paths


def run(script: str, *arguments: object) -> None:
    print(f"\n## {script} {' '.join(Path(str(a)).name for a in arguments)}", flush=True)
    subprocess.run([sys.executable, str(HERE / script), *map(str, arguments)], check=True)


def main() -> None:
    real, synthetic = real_models(), random_models()
    subprocess.run([sys.executable, "-m", "pyrite", "bench", "--limits"], check=True)
    run("start.py", *real)
    run("quality.py", *real)
    if peers.binary("llama-bench"):
        run("speed.py", *real, *synthetic)
        return
    print("\nllama.cpp is not installed (make bench-peers): our figures alone")
    for path in (*real, *synthetic):
        subprocess.run([sys.executable, "-m", "pyrite", "bench", str(path)], check=True)


if __name__ == "__main__":
    main()
