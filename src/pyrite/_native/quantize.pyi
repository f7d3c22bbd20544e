from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

def quantized_types(names: Sequence[str]) -> list[str]:
    """Those of the types that rows can be quantized to."""

def quantize_rows(
    isa: str,
    type: str,
    values: NDArray[np.float32],  # (rows, columns)
    importance: NDArray[np.float32] | None,  # (columns,) positive
    out: NDArray[np.uint8],  # (rows, bytes of a row)
    num_threads: int,
    limit: float,
) -> int:
    """-1, or the first row with a value that is not finite or larger than `limit`: then `out` is
    worth nothing. Raises ValueError for an instruction set, type or shape that does not fit."""
