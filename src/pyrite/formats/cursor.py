"""Reading a mapped file from front to back, never past its end.

Every size is compared with what remains before anything is read or allocated, and an error names
the field and the bytes. Which fields there are is known by the caller.
"""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from pyrite.errors import FormatError

MAX_STRING_BYTES = (1 << 31) - 1  # of a string in an array: its length is kept in 32 bits
MAX_NAME_BYTES = (1 << 16) - 1  # of a key or a tensor's name, as the GGUF specification has it
TRUNCATED = "the file is cut short or damaged; fetch it again"


class Cursor:
    """`offset` is the next byte; `order` is "<" for little-endian numbers or ">" for big."""

    __slots__ = ("data", "name", "offset", "order")

    def __init__(self, data: NDArray[np.uint8], name: str) -> None:
        self.data = data
        self.name = name  # of the file, for errors
        self.offset = 0
        self.order = "<"

    @property
    def remaining(self) -> int:
        return len(self.data) - self.offset

    def fail(self, field: str, problem: str, hint: str = "") -> FormatError:
        return FormatError(f"{self.name}: {field}: {problem}", hint=hint)

    def take(self, size: int, field: str) -> int:
        """Where the next `size` bytes start; the cursor moves past them."""
        start = self.offset
        if size > self.remaining:
            problem = f"bytes {start} to {start + size} run past the end at {len(self.data)}"
            raise self.fail(field, problem, TRUNCATED)
        self.offset = start + size
        return start

    def number(self, code: str, field: str) -> int | float:
        """One number of a `struct` code."""
        start = self.take(struct.calcsize("=" + code), field)
        value: int | float = struct.unpack_from(self.order + code, self.data.data, start)[0]
        return value

    def count(self, code: str, field: str, *, least_bytes: int, limit: int) -> int:
        """A number of things that follow, of at least `least_bytes` each and at most `limit`."""
        at = self.offset
        value = int(self.number(code, field))
        if value * least_bytes > self.remaining:
            problem = f"{value} at byte {at} would need {value * least_bytes} bytes or more"
            left = f"{self.remaining} are left of {len(self.data)}"
            raise self.fail(field, f"{problem}, and {left}", TRUNCATED)
        if value > limit:
            raise self.fail(field, f"{value} at byte {at}: at most {limit} are read")
        return value

    def span(self, field: str, limit: int = MAX_STRING_BYTES) -> tuple[int, int]:
        """A 64-bit length, then that many bytes: where they start, and how many."""
        at = self.offset
        size = int(self.number("Q", f"length of {field}"))
        if size > limit and size <= self.remaining:
            raise self.fail(field, f"{size} bytes at byte {at}: at most {limit} are read")
        return self.take(size, field), size

    def identifier(self, field: str) -> str:
        """The name of a key or a tensor: UTF-8, not empty, at most MAX_NAME_BYTES."""
        start, size = self.span(field, MAX_NAME_BYTES)
        data = self.data[start : start + size].tobytes()
        try:
            name = data.decode()
        except UnicodeDecodeError:
            raise self.fail(field, f"{data[:40]!r} at byte {start} is not UTF-8") from None
        if name == "":
            raise self.fail(field, f"the name at byte {start} is empty")
        return name

    def array(self, code: str, count: int, field: str) -> NDArray[np.generic]:
        """`count` numbers, read-only and aligned: a view of the file where that is possible."""
        dtype = np.dtype(self.order + code)
        start = self.take(count * dtype.itemsize, field)
        view = self.data[start : start + count * dtype.itemsize].view(dtype)
        native = np.require(view, dtype.newbyteorder("="), requirements="A")
        native.flags.writeable = False
        return native
