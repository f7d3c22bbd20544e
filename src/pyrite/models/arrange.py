"""The tensors of one model on their way from a file to a graph: renamed, cut, stacked.

A family's `arrange` and a folder's translation work on this value. Names are GGUF's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from pyrite.errors import TensorError
from pyrite.formats import derived
from pyrite.formats.checkpoint import Tensor

LAYER = re.compile(r"blk\.(\d+)\.")


class Tensors:
    """Tensors by name; each method gives the model another set of the same values."""

    def __init__(self, tensors: dict[str, Tensor]) -> None:
        self.all = tensors

    def __contains__(self, name: str) -> bool:
        return name in self.all

    def __getitem__(self, name: str) -> Tensor:
        if name not in self.all:
            raise TensorError(f"tensor {name} is missing", hint="fetch all files of the model")
        return self.all[name]

    def get(self, name: str) -> Tensor | None:
        return self.all.get(name)

    def put(self, name: str, tensor: Tensor) -> None:
        if name in self.all:
            raise TensorError(f"tensor {name} is there twice")
        self.all[name] = replace(tensor, name=name)

    def take(self, name: str) -> Tensor:
        """Removes it. Raises TensorError when it is missing."""
        tensor = self[name]
        del self.all[name]
        return tensor

    def change(self, name: str, change: Callable[[Tensor], Tensor]) -> None:
        """What is not there is not changed: loading finds what is missing."""
        if name in self.all:
            self.all[name] = replace(change(self.all[name]), name=name)

    def rename(self, old: str, new: str) -> None:
        if old in self.all:
            self.put(new, self.take(old))

    def split(self, name: str, *parts: tuple[str, int]) -> None:
        """The rows of a matrix, or the values of a vector, become several: (name, rows) each."""
        tensor = self.get(name)
        total = sum(rows for _, rows in parts)
        if tensor is None:
            return
        count = tensor.shape[0]
        if count != total:
            needed = " and ".join(f"{rows} of {part}" for part, rows in parts)
            raise TensorError(f"{name} has {count} rows, and {needed} are needed")
        self.take(name)
        start = 0
        for part, rows in parts:
            self.put(part, _cut(tensor, part, start, rows))
            start += rows

    def layers(self) -> Iterator[str]:
        """`blk.0.`, `blk.1.`, ... of the layers that have tensors."""
        found = {int(match[1]) for name in self.all if (match := LAYER.match(name))}
        return (f"blk.{index}." for index in sorted(found))


def _cut(tensor: Tensor, name: str, start: int, rows: int) -> Tensor:
    if len(tensor.shape) > 1:
        return derived.rows_of(tensor, name, start, rows)
    column = derived.reshaped(tensor, (tensor.shape[0], 1))
    return derived.reshaped(derived.rows_of(column, name, start, rows), (rows,))
