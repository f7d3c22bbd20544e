"""Looks through a whole tensor for values that are not finite, some rows at a time.

What they do to a model is unknown here.
"""

from __future__ import annotations

from dataclasses import replace

from pyrite.formats.checkpoint import Tensor
from pyrite.quant.not_finite import NotFinite, find_not_finite

ROWS_AT_ONCE = 1024  # as float32 a tensor may be large


def find_in_tensor(tensor: Tensor) -> NotFinite | None:
    """How many there are, and the first; None where there is none."""
    first, count = None, 0
    for start in range(0, tensor.num_rows, ROWS_AT_ONCE):
        rows = tensor.read(start, min(ROWS_AT_ONCE, tensor.num_rows - start))
        found = find_not_finite(rows, tensor.type, tensor.shape[-1])
        if found is not None:
            count += found.count
            first = first or replace(found, row=start + found.row)
    return None if first is None else replace(first, count=count)


def require_finite(tensor: Tensor) -> None:
    """Raises TensorError that names it, and the first such value."""
    if found := find_in_tensor(tensor):
        raise found.error(tensor.name)
