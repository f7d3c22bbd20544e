"""Speed of the products with packed weights, and their share of what this machine can do.

    python benchmarks/kernels.py [--isa avx2] [--types Q4_1,Q8_0] [--columns 576] [--outputs 1536]

One core. A product of many rows is limited by its instructions, of one row by reading the weights:
the share is that of `pyrite bench`. The best of many short runs counts, since others share the
machine.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

from pyrite._native import kernels
from pyrite.cli.limits import FLOATS, MEMORY_BYTES, Limits, read, usable_peaks
from pyrite.cli.machine import machine_line
from pyrite.quant.formats import EXECUTED

ROWS = (1, 4, 32, 512)
SECONDS = 0.2  # of measuring for a figure


def aligned(size: int) -> np.ndarray:
    buffer = np.zeros(size + 64, np.uint8)
    start = -buffer.ctypes.data % 64
    return buffer[start : start + size]


def random_panels(name: str, outputs: int, columns: int) -> np.ndarray:
    """Bytes whose float16 and float32 readings are ordinary numbers."""
    size = kernels.packed_panel_bytes(name, columns) * -(-outputs // 16)
    packed = aligned(size)
    packed[:] = np.random.default_rng(0).integers(0x20, 0x3C, size, np.uint8)
    return packed


def seconds_for(product: kernels.Product, rows: int, outputs: int) -> float:
    """Seconds of one product at best. Runs are short: of many rows, some panels stand for all."""
    out = np.empty((rows, outputs), np.float32)
    all_panels = -(-outputs // 16)
    panels = min(all_panels, max(1, 2048 // rows))
    repeats = max(1, 64 // rows)
    product.run(out, 0, panels)
    best, end = float("inf"), time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        start = time.perf_counter()
        product.run(out, 0, panels, repeats=repeats)
        best = min(best, (time.perf_counter() - start) / repeats)
    return best * all_panels / panels


def measure(
    isa: str, name: str, planes: int, outputs: int, columns: int
) -> list[tuple[float, float]]:
    """(products a second, bytes of weights a second) for each number of rows."""
    packed = random_panels(name, outputs, columns)
    x = np.random.default_rng(1).standard_normal((max(ROWS), columns)).astype(np.float32)
    product = kernels.Product(isa, name, outputs, columns, packed, x, planes)
    found = []
    for rows in ROWS:
        seconds = seconds_for(product, rows, outputs)
        found.append((rows * outputs * columns / seconds, len(packed) / seconds))
    return found


def show(isa: str, types: list[str], outputs: int, columns: int) -> None:
    limits = Limits(1, (), usable_peaks(isa, 1))
    told = (f"{one.instructions} {one.products_per_second / 1e9:.0f}" for one in limits.peaks)
    print(f"\n{isa}: {', '.join(told)} GMAC/s")
    print(f"{'type':8}planes" + "".join(f"{f'{rows} rows':>18}" for rows in ROWS))
    for name in types:
        for planes in (1,) if name in FLOATS else (2, 1):
            limit = limits.peak(name, planes).products_per_second
            line = f"{name:8}{planes:6}"
            figures = measure(isa, name, planes, outputs, columns)
            for rows, (products, taken) in zip(ROWS, figures, strict=True):
                cell = f"{products / 1e9:.1f} ({products / limit:.0%})"
                if rows == 1:
                    cell = f"{products / 1e9:.1f}, {taken / 1e9:.1f} GB/s"
                line += f"{cell:>18}"
            print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--isa", default="", help="one of: " + ", ".join(kernels.isa_names()))
    parser.add_argument("--types", default=",".join(EXECUTED))
    parser.add_argument("--columns", type=int, default=768)
    parser.add_argument("--outputs", type=int, default=1536)
    choice = parser.parse_args()
    memory = read("memory", MEMORY_BYTES, 1)
    print(f"python {' '.join(sys.argv)}")
    print(f"{machine_line()}; one core reads {memory.bytes_per_second / 1e9:.1f} GB/s")
    print("GMAC/s of one core, and the share of the fastest instructions that are exact")
    isas = [choice.isa] if choice.isa else kernels.isa_names()
    for isa in isas:
        show(isa, choice.types.split(","), choice.outputs, choice.columns)


if __name__ == "__main__":
    main()
