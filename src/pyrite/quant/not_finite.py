"""Finds weights that are not finite: no model is meant to have one, and each spoils every answer.

Whether there may be one is told by the exponents alone, of values or of the scales of blocks: rows
that are merely copied need not become floats for it. Files are unknown here.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyrite.errors import TensorError
from pyrite.quant.dequant import dequantize
from pyrite.quant.formats import FORMATS
from pyrite.records import dataclass

Floats = NDArray[np.float32]

# An exponent whose bits are all set is of no finite value.
FLOATS: dict[str, tuple[type[np.unsignedinteger], int]] = {
    "F32": (np.uint32, 0x7F800000),
    "F16": (np.uint16, 0x7C00),
    "BF16": (np.uint16, 0x7F80),
}
# Where a block has the float16 numbers by which all else in it is multiplied.
SCALES: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("Q4_0", "Q5_0", "Q8_0", "Q1_0", "Q2_0", "IQ4_NL", "IQ4_XS", "IQ1_S"), (0,)),
    **dict.fromkeys(("IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S"), (0,)),
    **dict.fromkeys(("Q4_1", "Q5_1", "Q4_K", "Q5_K"), (0, 2)),
    "Q2_K": (80, 82),
    "Q3_K": (108,),
    "Q6_K": (208,),
    "TQ1_0": (52,),
    "TQ2_0": (64,),
    "NVFP4": (),  # its scales of a byte are all finite
}
# Codes of 8-bit floats from which on, less the sign, none is a number; and the exponent of a scale
# from which on the largest code is beyond float32.
CODES = {"E4M3": (0x7F, 246), "E5M2": (0x7C, 239)}
HIGH_EXPONENT = 0x7C  # of a float16's second byte
HUGE = 253  # an MXFP4 block's exponent from which its largest code is beyond float32


@dataclass(frozen=True, slots=True)
class NotFinite:
    """How many there are, and the first."""

    count: int
    row: int
    column: int
    value: float

    def error(self, name: str) -> TensorError:
        """Of the tensor that was looked at."""
        many = f"{self.count} values that are" if self.count > 1 else "a value that is"
        return TensorError(
            f"tensor {name} holds {many} not finite: the first is {self.value}, in row {self.row}, "
            f"column {self.column}",
            hint="the file is damaged, or its training failed: take another",
        )


def find_not_finite(data: NDArray[np.uint8], type: str, columns: int) -> NotFinite | None:
    """In whole rows as they are stored."""
    if not may_have_any(data, type):
        return None
    row = FORMATS[type]
    rows = data.size // (columns // row.block_columns * row.block_bytes)
    return find_in_floats(dequantize(data.reshape(-1), type, (rows, columns)))


def find_in_floats(values: Floats) -> NotFinite | None:
    """The same in (rows, columns)."""
    finite = np.isfinite(values)
    if finite.all():
        return None
    row, column = np.argwhere(~finite)[0].tolist()
    count = finite.size - int(np.count_nonzero(finite))
    return NotFinite(count, row, column, float(values[row, column]))


def may_have_any(data: NDArray[np.uint8], type: str) -> bool:
    """False where no value can be: all exponents are those of finite numbers."""
    if type in FLOATS:
        item, exponent = FLOATS[type]
        bits = np.ascontiguousarray(data).view(item) & item(exponent)
        return bool((bits == exponent).any())
    blocks = data.reshape(-1, FORMATS[type].block_bytes)
    if type == "MXFP4":
        return bool((blocks[:, 0] >= HUGE).any())
    if type in CODES:
        first, huge = CODES[type]
        exponents = np.ascontiguousarray(blocks[:, 2:4]).view(np.uint16) >> 7 & 0xFF
        return bool((blocks[:, 4:] & 0x7F >= first).any() or (exponents >= huge).any())
    if type not in SCALES:
        return True
    seconds = (blocks[:, start + 1] & HIGH_EXPONENT for start in SCALES[type])
    return any(bool((second == HIGH_EXPONENT).any()) for second in seconds)
