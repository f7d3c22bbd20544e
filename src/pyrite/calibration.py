"""The importance of columns for the tensors of one model: found by name, and checked to be of it.

How it was measured, and what is done with it, is unknown here.
"""

from __future__ import annotations

from collections.abc import Set

import numpy as np
from numpy.typing import NDArray

from pyrite.errors import FormatError
from pyrite.formats.checkpoint import Tensor
from pyrite.formats.imatrix import Importance

Floats = NDArray[np.float32]

HEADS = frozenset(("output.weight", "token_embd.weight"))  # files differ in which is the head
ANOTHER = "it was made of another model; pyrite imatrix MODEL TEXT makes one of this"


def importance_of(tensor: Tensor, importance: Importance) -> Floats | None:
    """(matrices, columns); None for a tensor that the file is silent about.

    Raises FormatError where the tensor has other columns.
    """
    sums = importance.entries.get(tensor.name)
    if sums is None:
        return None
    means = sums.means()
    matrices, columns = tensor.num_rows // tensor.shape[-2], tensor.shape[-1]
    if means.size != matrices * columns:
        raise FormatError(
            f"{importance.path.name} has {means.size} columns of {tensor.name}, and the model "
            f"{matrices * columns}",
            hint=ANOTHER,
        )
    return means.reshape(matrices, columns)


def check_importance(importance: Importance, tensors: Set[str], quantized: Set[str]) -> None:
    """Raises FormatError where it knows of tensors that the model has not, or nothing of a whole
    layer. Experts that no token went to may be left out, and so may the head."""
    strange = sorted(importance.entries.keys() - tensors - HEADS)
    silent = sorted({_layer(name) for name in quantized} - set(map(_layer, importance.entries)))
    silent = [layer for layer in silent if layer]
    if strange:
        problem = f"{len(strange)} tensors that the model has not: {', '.join(strange[:3])}"
    elif silent:
        problem = f"nothing of {len(silent)} layers of the model: {', '.join(silent[:3])}"
    else:
        return
    raise FormatError(f"{importance.path.name} knows {problem}", hint=ANOTHER)


def _layer(name: str) -> str:
    """`blk.3`; empty for what is in no layer."""
    return ".".join(name.split(".")[:2]) if name.startswith("blk.") else ""
