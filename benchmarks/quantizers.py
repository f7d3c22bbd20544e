"""Error and speed of quantizing, beside llama.cpp's quantizers.

    python benchmarks/quantizers.py [--types Q4_K,Q6_K] [--threads 2] [--real MODEL:TENSOR]

The peer is libgguf, which wraps llama.cpp's code; it is no dependency: install it where this runs,
or name its folder in PYTHONPATH. It quantizes the rows in as many threads as we do, each its share.
Error is the squared error of the values that come back, weighed by the importance where there is
one; the ratio is ours over theirs: below 1 ours is smaller. The best of some runs counts, in turn.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import libgguf
import numpy as np

from pyrite.cli.machine import machine_line
from pyrite.formats.checkpoint import open_checkpoint
from pyrite.quant.dequant import dequantize
from pyrite.quant.quantize import QUANTIZED, quantize

ROWS, COLUMNS = 512, 2048
RUNS = 3
PLAIN = ("F32", "F16", "BF16")


def tensors(real: str | None) -> Iterator[tuple[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    yield "gaussian", rng.standard_normal((ROWS, COLUMNS), np.float32)
    yield "heavy", rng.standard_t(3, (ROWS, COLUMNS)).astype(np.float32)
    if real:
        path, _, name = real.rpartition(":")
        tensor = open_checkpoint(path).tensors[name]
        rows = min(tensor.num_rows, ROWS * COLUMNS // tensor.shape[-1])
        shape = (rows, tensor.shape[-1])
        values = dequantize(tensor.read(0, rows), tensor.type, shape)
        yield "real", values.reshape(-1)[: values.size // COLUMNS * COLUMNS].reshape(-1, COLUMNS)


def theirs(values: np.ndarray, name: str, importance: np.ndarray | None, threads: int):
    """Shares of the rows, each in a thread: libgguf lets go of the interpreter."""
    kind = getattr(libgguf.GGMLQuantizationType, name)
    with ThreadPoolExecutor(threads) as pool:
        shares = np.array_split(values, threads)
        parts = pool.map(lambda part: libgguf.quantize_rows(part, kind, imatrix=importance), shares)
        return np.concatenate([part.reshape(-1) for part in parts])


def timed(work: Callable[[], np.ndarray]) -> tuple[np.ndarray, float]:
    started = time.perf_counter()
    found = work()
    return found.reshape(-1).view(np.uint8), time.perf_counter() - started


def error(blocks: np.ndarray, name: str, values: np.ndarray, weights: np.ndarray | float) -> float:
    back = dequantize(blocks, name, values.shape).astype(np.float64)
    return float(np.mean(weights * np.square(back - values)))


def compare(
    name: str, values: np.ndarray, importance: np.ndarray | None, threads: int
) -> tuple[float, float, float]:
    """Ratio of the errors, then values a second of ours and theirs."""
    best = [float("inf"), float("inf")]
    for _ in range(RUNS):
        own, seconds = timed(lambda: quantize(values, name, importance, threads))
        other, others = timed(lambda: theirs(values, name, importance, threads))
        best = [min(best[0], seconds), min(best[1], others)]
    weights = 1.0 if importance is None else importance.astype(np.float64)
    errors = [error(blocks, name, values, weights) for blocks in (own, other)]
    ratio = errors[0] / errors[1] if errors[1] else float("nan")
    return ratio, values.size / best[0], values.size / best[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--types", default=",".join(set(QUANTIZED) - set(PLAIN)))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--real", help="a file and a tensor of it: its first rows")
    options = parser.parse_args()
    print(machine_line(), f"{options.threads} threads", sep="\n")
    print("type     importance  values    error  M values/s   peer  times")
    for name in sorted(options.types.split(",")):
        for what, values in tensors(options.real):
            known = np.random.default_rng(1).lognormal(0, 1, COLUMNS).astype(np.float32)
            for importance in (None, known):
                ratio, own, other = compare(name, values, importance, options.threads)
                print(
                    f"{name:9}{'no' if importance is None else 'yes':12}{what:9}{ratio:6.3f}"
                    f"{own / 1e6:12.0f}{other / 1e6:7.0f}{own / other:7.1f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
