"""The table of tensor types: names, numbers in GGUF files, block sizes, which ones are executed.

A type is known when its bytes can be counted, so that a file can be listed; it is executed when
`dequant` and the kernels give it meaning. Nothing here knows what a file is.

Source of names, numbers and block sizes: the GGUF specification and ggml's type list.
"""

from __future__ import annotations

from pyrite.errors import UnsupportedError
from pyrite.records import dataclass


@dataclass(frozen=True, slots=True)
class Format:
    """`block_columns` neighbouring values of a row are stored in `block_bytes` bytes."""

    name: str
    number: int | None  # in GGUF files; None: no file has it, folders are read into it
    block_columns: int
    block_bytes: int
    executed: bool = False


_TABLE = (
    Format("F32", 0, 1, 4, executed=True),
    Format("F16", 1, 1, 2, executed=True),
    Format("Q4_0", 2, 32, 18, executed=True),
    Format("Q4_1", 3, 32, 20, executed=True),
    Format("Q5_0", 6, 32, 22, executed=True),
    Format("Q5_1", 7, 32, 24, executed=True),
    Format("Q8_0", 8, 32, 34, executed=True),
    Format("Q8_1", 9, 32, 36),
    Format("Q2_K", 10, 256, 84, executed=True),
    Format("Q3_K", 11, 256, 110, executed=True),
    Format("Q4_K", 12, 256, 144, executed=True),
    Format("Q5_K", 13, 256, 176, executed=True),
    Format("Q6_K", 14, 256, 210, executed=True),
    Format("Q8_K", 15, 256, 292),
    Format("IQ2_XXS", 16, 256, 66, executed=True),
    Format("IQ2_XS", 17, 256, 74, executed=True),
    Format("IQ3_XXS", 18, 256, 98, executed=True),
    Format("IQ1_S", 19, 256, 50, executed=True),
    Format("IQ4_NL", 20, 32, 18, executed=True),
    Format("IQ3_S", 21, 256, 110, executed=True),
    Format("IQ2_S", 22, 256, 82, executed=True),
    Format("IQ4_XS", 23, 256, 136, executed=True),
    Format("I8", 24, 1, 1),
    Format("I16", 25, 1, 2),
    Format("I32", 26, 1, 4),
    Format("I64", 27, 1, 8),
    Format("F64", 28, 1, 8),
    Format("IQ1_M", 29, 256, 56, executed=True),
    Format("BF16", 30, 1, 2, executed=True),
    Format("TQ1_0", 34, 256, 54, executed=True),
    Format("TQ2_0", 35, 256, 66, executed=True),
    Format("MXFP4", 39, 32, 17, executed=True),
    Format("NVFP4", 40, 64, 36, executed=True),
    Format("Q1_0", 41, 128, 18, executed=True),
    Format("Q2_0", 42, 64, 18, executed=True),
    Format("E4M3", None, 128, 132, executed=True),
    Format("E5M2", None, 128, 132, executed=True),
)

FORMATS = {row.name: row for row in _TABLE}
FORMATS_BY_NUMBER = {row.number: row for row in _TABLE if row.number is not None}
EXECUTED = tuple(row.name for row in _TABLE if row.executed)
FLOATS = ("F32", "F16", "BF16")
FLOATS_8 = ("E4M3", "E5M2")  # of a byte, with a float32 scale for 128 columns before them

# Numbers that were given out once and taken back: their bytes cannot be counted any more.
REMOVED = {
    4: "Q4_2",
    5: "Q4_3",
    31: "Q4_0_4_4",
    32: "Q4_0_4_8",
    33: "Q4_0_8_8",
    36: "IQ4_NL_4_4",
    37: "IQ4_NL_4_8",
    38: "IQ4_NL_8_8",
}


def bytes_per_row(name: str, columns: int) -> int:
    """Bytes of one row of `columns` values; `columns` is a multiple of the type's block."""
    row = FORMATS[name]
    assert columns % row.block_columns == 0, (name, columns)
    return columns // row.block_columns * row.block_bytes


def require_executed(name: str, tensor: str) -> Format:
    """The type's row. Raises UnsupportedError naming `tensor` when it is only listed, or not even
    that: safetensors files have types of their own."""
    row = FORMATS.get(name)
    if row is None or not row.executed:
        raise UnsupportedError(
            f"tensor {tensor} has type {name}, which is not executed here",
            hint=f"take a file in one of {', '.join(EXECUTED)}",
        )
    return row
