import numpy as np
from numpy.typing import NDArray

def isa_names() -> list[str]:
    """Instruction sets that this build and processor have, of scalar, avx2, avx512, amx."""

def chosen_isa(name: str = "") -> str:
    """`name`, or the best one here. Raises ValueError when it is unknown or absent."""

def packed_panel_bytes(type: str, columns: int) -> int: ...
def pack_panels(
    type: str,
    rows: int,
    columns: int,
    source: NDArray[np.uint8],  # the file's rows
    first_panel: int,
    num_panels: int,
    out: NDArray[np.uint8],  # (num_panels * packed_panel_bytes,)
) -> None: ...
def unpack_row(
    type: str,
    rows: int,
    columns: int,
    packed: NDArray[np.uint8],  # all panels, 64-byte aligned
    row: int,
    out: NDArray[np.float32],  # (columns,)
) -> None: ...
def read_bandwidth(num_threads: int, num_bytes: int) -> tuple[float, str]:
    """Bytes a second that the threads together read from a buffer of `num_bytes`, again and again,
    and the loop that read fastest. Raises MemoryError."""

def compute_peaks(isa: str, num_threads: int) -> list[tuple[str, str, str, int, float]]:
    """What the instruction set adds to those below it: (isa, instructions, factors, bits, products
    a second of all threads). `factors`: "floats", "words" or "bytes"; `bits`: of the widest weights
    that they can multiply exactly."""

class Product:
    """Prepared rows of activations and a packed matrix, for one instruction set ("": the best)."""

    def __init__(
        self,
        isa: str,
        type: str,
        rows: int,
        columns: int,
        packed: NDArray[np.uint8],
        activations: NDArray[np.float32],  # (rows of activations, columns)
        planes: int,
    ) -> None: ...
    def run(
        self,
        out: NDArray[np.float32],  # (rows of activations, outputs of the panels)
        first_panel: int,
        num_panels: int,
        first_row: int = 0,
        repeats: int = 1,
    ) -> None: ...
