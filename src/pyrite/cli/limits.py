"""What this machine can do at most, measured: bytes read and products made a second.

The best of many rounds counts, for anything else that runs on the machine can only lower it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from pyrite._native import kernels
from pyrite.errors import BackendError

BYTES_READ = 256 << 20  # well past any cache


@dataclass(frozen=True, slots=True)
class Limits:
    """Of `threads` threads together, a second. `products` are by instruction, of `isa`."""

    threads: int
    isa: str
    bytes_read: float
    products: dict[str, float]

    @property
    def most_products(self) -> float:
        """The ceiling of any product of matrices."""
        return max(self.products.values())


def measure_limits(threads: int) -> Limits:
    """Raises BackendError for an instruction set that is asked for and not here."""
    try:
        isa = kernels.chosen_isa(os.environ.get("PYRITE_ISA", ""))
    except ValueError as error:
        raise BackendError(str(error), hint="unset PYRITE_ISA to have one chosen") from None
    return Limits(
        threads=threads,
        isa=isa,
        bytes_read=kernels.read_bandwidth(threads, BYTES_READ),
        products=kernels.compute_peaks(isa, threads),
    )


def limits_text(limits: Limits) -> str:
    rows = [("memory read", f"{limits.bytes_read / 1e9:8.1f} GB/s")]
    rows += [(name, f"{peak / 1e9:8.1f} GMAC/s") for name, peak in limits.products.items()]
    width = max(len(name) for name, _ in rows) + 2
    title = f"{limits.threads} threads of this machine, {limits.isa}, measured:"
    return "\n".join([title, *[f"{name:<{width}}{value}" for name, value in rows]])
