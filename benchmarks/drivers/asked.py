"""What a driver is asked for, and how it answers: one line of JSON on its standard output.

Drivers run a peer by its own Python, in the peer's environment, so they import nothing of Pyrite;
and this folder holds no file whose name another package would look for.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

SEED = 1


@dataclass(frozen=True)
class Asked:
    """`prompt` tokens are timed at once; or `generate` tokens one by one in each of `streams`,
    after `depth` tokens of each."""

    model: str
    prompt: int
    generate: int
    depth: int
    streams: int
    threads: int

    def ids(self, vocabulary: int) -> list[int]:
        """Of one stream: what comes before what is timed, or is timed as the prompt."""
        dice = random.Random(SEED)
        return [dice.randrange(vocabulary // 2) for _ in range(self.prompt or max(1, self.depth))]


def asked() -> Asked:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    for name, default in (("prompt", 0), ("generate", 0), ("depth", 0), ("streams", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--threads", type=int, required=True)
    return Asked(**vars(parser.parse_args()))


def quiet() -> Callable[[str], None]:
    """Sends what libraries print to stderr; gives the way to the true standard output."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def tell(text: str) -> None:
        print(text, file=out, flush=True)

    return tell


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def answer(tell: Callable[[str], None], tokens: int, taken: float, version: str) -> None:
    tell(json.dumps({"tokens_per_second": tokens / taken, "version": version}))
    sys.stderr.flush()
    os._exit(0)  # some libraries hang or crash on their way out
