"""What this machine can do at most, measured: bytes read and products made a second.

The best of many rounds counts, for anything else that runs on the machine can only lower it. Reads
are measured over a buffer of a stated size, again and again, so that a figure is that of the level
of memory that holds so much. Knows no model.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pyrite._native import kernels
from pyrite._native.program import phase_seconds
from pyrite.cli.caches import Cache, caches
from pyrite.errors import BackendError
from pyrite.memory import available_bytes

LEAST_BYTES = 1 << 20  # of a read, by each thread
MEMORY_BYTES = 256 << 20  # past the caches of most machines
MOST_BYTES = 4 << 30
MEMORY_SHARE = 0.25  # of what is free: the most that a measurement takes
# What else an instruction set's kernels may use.
BELOW = {
    "amx": ("amx", "avx512", "avx2"),
    "avx512": ("avx512", "avx2"),
    "avxvnni": ("avxvnni", "avx2"),
    "i8mm": ("i8mm", "dotprod", "neon"),
    "dotprod": ("dotprod", "neon"),
}
# Bits that the numbers of a type have once unpacked, where not 8: fewer can be added up in 16 bits.
BITS = {
    **dict.fromkeys(("Q2_K", "Q3_K", "Q4_0", "Q4_1", "Q4_K"), 4),
    **dict.fromkeys(("IQ1_S", "TQ1_0", "TQ2_0", "Q1_0", "Q2_0"), 4),
    **dict.fromkeys(("Q5_0", "Q5_1", "Q5_K", "IQ1_M", "IQ3_S"), 5),
    **dict.fromkeys(("MXFP4", "NVFP4"), 5),
    **dict.fromkeys(("Q6_K", "IQ3_XXS"), 6),
}
FLOATS = ("F32", "F16", "BF16", "E4M3", "E5M2")  # multiplied as such


@dataclass(frozen=True, slots=True)
class Read:
    """Of `num_bytes`, again and again, by all threads together; `way` is the fastest loop."""

    what: str
    num_bytes: int
    bytes_per_second: float
    way: str


@dataclass(frozen=True, slots=True)
class Peak:
    """Of all threads together. `factors`: "floats", "words" of 16 bits or "bytes"."""

    isa: str
    instructions: str
    factors: str
    bits: int  # of the widest weights that can be multiplied exactly
    products_per_second: float


@dataclass(frozen=True, slots=True)
class Limits:
    """Of so many threads, measured together. `phase_seconds`: what it takes them to go on from one
    phase of a step to the next; None where that was not asked for."""

    threads: int
    reads: tuple[Read, ...]
    peaks: tuple[Peak, ...]
    phase_seconds: float | None = None

    def peak(self, weight_type: str, planes: int) -> Peak:
        """The fastest way to multiply an activation of so many planes of 8 bits by a weight; its
        products are whole ones, so of bytes `planes` are needed for each."""
        return max(self._ways(weight_type, planes), key=lambda way: way.products_per_second)

    def _ways(self, weight_type: str, planes: int) -> Iterator[Peak]:
        for one in self.peaks:
            exact = one.factors == "floats" or weight_type not in FLOATS
            if not exact or one.bits < BITS.get(weight_type, 8):
                continue
            if one.factors != "bytes" or planes == 1:
                yield one
                continue
            yield replace(
                one,
                instructions=f"{one.instructions}, {planes} planes",
                products_per_second=one.products_per_second / planes,
            )


def measure_limits(threads: int, num_bytes: int) -> Limits:
    """Of the chosen instruction set, and of reading as many bytes as the weights have.

    Raises BackendError for an instruction set that is asked for and not here.
    """
    try:
        isa = kernels.chosen_isa(os.environ.get("PYRITE_ISA", ""))
    except ValueError as error:
        raise BackendError(str(error), hint="unset PYRITE_ISA to have one chosen") from None
    size = min(num_bytes, room())
    what = "as many bytes as the weights" if size == num_bytes else "memory"
    return Limits(threads, (read(what, size, threads),), usable_peaks(isa, threads))


def measure_machine(threads: int) -> list[Limits]:
    """For 1 thread, 2, 4 and so on to `threads`: every level of memory, every instruction set."""
    isas = kernels.isa_names()
    return [
        Limits(
            count,
            tuple(read(what, size, count) for what, size in levels(caches(), count)),
            peaks_of(isas, count),
            phase_seconds(count),
        )
        for count in thread_counts(threads)
    ]


def thread_counts(threads: int) -> list[int]:
    doubled = [1 << power for power in range(threads.bit_length())]
    return sorted({*doubled, threads}) if threads > 8 else list(range(1, threads + 1))


def levels(found: Sequence[Cache], threads: int) -> list[tuple[str, int]]:
    """(what, bytes) to read: half of each cache from the second on, then what none can hold."""
    sizes = [
        (f"level {cache.level} cache", cache.num_bytes // 2 * min(cache.count, threads))
        for cache in found
        if cache.level > 1
    ]
    last = max((cache.num_bytes * cache.count for cache in found), default=0)
    size = min(max(MEMORY_BYTES, 2 * last), room())
    what = "memory" if size > last else "memory and the last cache, for lack of room"
    return [*sizes, (what, size)]


def room() -> int:
    """Bytes that a measurement may take; it needs no more, past any cache."""
    free = available_bytes()
    return MOST_BYTES if free is None else min(MOST_BYTES, int(free * MEMORY_SHARE))


def read(what: str, num_bytes: int, threads: int) -> Read:
    size = max(num_bytes, threads * LEAST_BYTES)
    speed, way = kernels.read_bandwidth(threads, size)
    return Read(what, size, speed, way)


def usable_peaks(isa: str, threads: int) -> tuple[Peak, ...]:
    """Of all that the kernels of one instruction set may use."""
    here = kernels.isa_names()
    return peaks_of([name for name in BELOW.get(isa, (isa,)) if name in here], threads)


def peaks_of(isas: Sequence[str], threads: int) -> tuple[Peak, ...]:
    return tuple(Peak(*one) for isa in isas for one in kernels.compute_peaks(isa, threads))
