"""From float32 rows to the blocks of a stored type: the inverse of `dequant`, as near as may be.

The least squared error is looked for, each value weighed by the importance of its column; the
native core does the work, and gives the same bytes for any number of threads and on any processor.
Files and the names of tensors are unknown here.
"""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from pyrite._native import quantize as native
from pyrite.errors import BackendError, TensorError
from pyrite.quant.formats import FORMATS, bytes_per_row

Floats = NDArray[np.float32]

QUANTIZED = ("F32", *native.quantized_types(list(FORMATS)))  # what rows can be made into
VERSION = 1  # of the search: grows when its bytes change
LARGEST_HALF = 65504.0  # that float16 holds, and so the scales of all blocks
FLOOR = 1e-5  # of the mean importance, that a column has at least: none is worth nothing


def quantize(
    values: Floats,
    name: str,
    importance: Floats | None = None,
    num_threads: int = 1,
    first_row: int = 0,
) -> NDArray[np.uint8]:
    """The blocks of type `name`, row by row. (rows, bytes of a row)

    `values` is (rows, columns), whose columns are a multiple of the type's block; `importance`,
    (columns,), is what a squared error in each column counts, at least 0. Raises TensorError for a
    value that the type has no place for; `first_row` is the number of the first one, to tell it.
    """
    rows, columns = values.shape
    plain = np.ascontiguousarray(values, np.float32)
    if name == "F32":
        return plain.view(np.uint8).reshape(rows, 4 * columns)
    out = np.empty((rows, bytes_per_row(name, columns)), np.uint8)
    limit = float(np.finfo(np.float32).max) if name == "BF16" else LARGEST_HALF
    isa = os.environ.get("PYRITE_ISA", "")
    weights = None if importance is None else floored(importance)
    try:
        broken = native.quantize_rows(isa, name, plain, weights, out, num_threads, limit)
    except ValueError as error:
        raise BackendError(str(error), hint="unset PYRITE_ISA to have one chosen") from error
    if broken >= 0:
        raise TensorError(
            f"row {first_row + broken} holds a value that is not finite, or beyond {limit:g}: "
            f"{name} has no place for it",
            hint="the model file is damaged, or was not meant to be quantized",
        )
    return out


def floored(importance: Floats) -> Floats | None:
    """Weights with a mean of 1, none of which is 0; None where no column has any."""
    mean = float(importance.mean(dtype=np.float64))
    if mean <= 0:
        return None
    weights: Floats = np.maximum(importance / np.float32(mean), np.float32(FLOOR))
    return weights
