import numpy as np
from numpy.typing import NDArray

def scan_strings(
    data: NDArray[np.uint8],
    offset: int,
    starts: NDArray[np.int64],
    lengths: NDArray[np.int32],
) -> int: ...
