"""What this machine can do: `pyrite bench --limits`, and how fast it reads, by size of the buffer.

    python benchmarks/limits.py [--threads 2] [--sizes 1,4,16,64,128,256,512,1024,2048]

A model that is read again and again, token by token, is fed by the level of memory that holds it:
the second table shows where each level ends.
"""

from __future__ import annotations

import argparse
import os

from pyrite.cli.limits import measure_machine, read, room, thread_counts
from pyrite.cli.limits_report import as_markdown
from pyrite.cli.markdown import table

SIZES = "1,4,16,64,128,256,512,1024,2048"  # MiB


def by_size(sizes: list[int], threads: int) -> str:
    """GB/s of each number of threads; a size that memory has no room for is left out."""
    counts = thread_counts(threads)
    rows = []
    for size in sizes:
        if size << 20 <= room():
            found = [read("", size << 20, count) for count in counts]
            speeds = [f"{one.bytes_per_second / 1e9:.1f}" for one in found]
            rows.append([f"{size} MiB", *speeds, found[-1].way])
    heads = [f"{count} threads" for count in counts]
    return table(["read again and again", *heads, "way"], rows, right=heads)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--sizes", default=SIZES, help="MiB, with commas between")
    options = parser.parse_args()
    print(as_markdown(measure_machine(options.threads)), end="\n\n")
    print(by_size([int(size) for size in options.sizes.split(",")], options.threads))


if __name__ == "__main__":
    main()
