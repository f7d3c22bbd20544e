"""The golden tensors of each stored type, and the floats that they mean.

Q2_0 is younger than the rest and lies in files of its own.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pyrite.formats.gguf import read_gguf

FILES = ("quant_types", "q2_0")

Stored = tuple[np.ndarray, str, tuple[int, ...]]  # bytes, type, shape


def stored_tensors(golden: Path) -> dict[str, Stored]:
    files = [read_gguf(golden / "gguf" / f"{name}.gguf") for name in FILES]
    return {
        place.name: (file.data[place.start : place.end], place.type, place.shape)
        for file in files
        for place in file.tensors
    }


def expected_values(golden: Path) -> dict[str, np.ndarray]:
    values: dict[str, np.ndarray] = {}
    for name in FILES:
        with np.load(golden / "gguf" / f"{name}.expected.npz") as arrays:
            values |= arrays
    return values
