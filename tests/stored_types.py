"""The golden tensors of each stored type, and the floats that they mean.

Q2_0 is younger than the rest and lies in files of its own; 8-bit floats, which GGUF has not, lie in
an archive.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pyrite.formats.gguf import read_gguf

FILES = ("quant_types", "q2_0")

Stored = tuple[np.ndarray, str, tuple[int, ...]]  # bytes, type, shape


def stored_tensors(golden: Path) -> dict[str, Stored]:
    blocks = dict(np.load(golden / "float8.npz"))
    files = [read_gguf(golden / "gguf" / f"{name}.gguf") for name in FILES]
    found: dict[str, Stored] = {
        place.name: (file.data[place.start : place.end], place.type, place.shape)
        for file in files
        for place in file.tensors
    }
    for name, values in _of_float8(blocks, "values").items():
        found[name] = (blocks[f"{name}.blocks"].reshape(-1), name.split(".")[0], values.shape)
    return found


def _of_float8(arrays: dict[str, np.ndarray], kind: str) -> dict[str, np.ndarray]:
    ending = f".{kind}"
    return {name.removesuffix(ending): one for name, one in arrays.items() if name.endswith(ending)}


def expected_values(golden: Path) -> dict[str, np.ndarray]:
    values: dict[str, np.ndarray] = {}
    for name in FILES:
        with np.load(golden / "gguf" / f"{name}.expected.npz") as arrays:
            values |= arrays
    return values | _of_float8(dict(np.load(golden / "float8.npz")), "values")
