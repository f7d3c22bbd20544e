"""Time to the first token of a long system prompt: computed, found in memory, read from disk.

    python benchmarks/restart.py MODEL [--tokens 400] [--rounds 5]

Each round loads the model anew for "from disk", once with the files still in the system's cache and
once after they were dropped from it. The time of loading is not counted.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

import numpy as np

import pyrite
from pyrite.config import Settings
from pyrite.llm import Model
from pyrite.loading import load_engine


def load(path: Path, cache: Path) -> Model:
    settings = Settings(cache=cache, context=2048, threads=2, kv_store_bytes=1 << 30)
    return Model(load_engine(path, settings))


def first_token(model: pyrite.Model, ids: list[int]) -> tuple[float, int]:
    """Seconds, and tokens that were cached."""
    start = time.perf_counter()
    done = model.generate(ids, max_tokens=1, temperature=0, ignore_eos=True)
    assert done.usage is not None
    return time.perf_counter() - start, done.usage.cached_tokens


def forget_files(folder: Path) -> None:
    """Asks the system to drop what it keeps of them in memory."""
    os.sync()
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    times: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder)
        load(options.model, cache).close()  # packs the weights
        for number in range(options.rounds):
            ids = np.random.default_rng(number).integers(300, 20000, options.tokens + 16).tolist()
            with load(options.model, cache) as model:
                first_token(model, ids[:40])
                times.setdefault("computed", []).append(first_token(model, ids)[0])
                times.setdefault("in memory", []).append(first_token(model, ids)[0])
            for name in ("from disk", "from disk, dropped"):
                if name != "from disk":
                    forget_files(cache / "kv")
                with load(options.model, cache) as model:
                    first_token(model, [5] * 40)
                    seconds, cached = first_token(model, ids)
                    assert cached >= options.tokens // 32 * 32 - 32, cached
                    times.setdefault(name, []).append(seconds)
    for name, found in times.items():
        print(f"{name:<20}{min(found) * 1e3:8.1f} ms least{np.median(found) * 1e3:8.1f} ms median")


if __name__ == "__main__":
    main()
