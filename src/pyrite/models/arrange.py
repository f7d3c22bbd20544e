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
BOTH = "gate and up"  # a name that no file has


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

    def halve(self, name: str, first: str, second: str) -> None:
        """Of each matrix of a stack the first half of the rows, and the second."""
        tensor = self.take(name)
        if len(tensor.shape) != 3 or tensor.shape[1] % 2:
            raise TensorError(f"{name} is {tensor.shape}: must be a stack of as many rows of each")
        rows = tensor.shape[1] // 2
        for part, start in ((first, 0), (second, rows)):
            self.put(part, derived.rows_of_each(tensor, part, start, rows))

    def split_fused(self) -> None:
        """Query, key and value in one tensor, or gate and up in one, become tensors of their own.

        How wide each is shows in the projection that follows.
        """
        for layer in self.layers():
            for kind in ("weight", "bias"):
                self._split_attention(layer, kind)
            for kind in ("", "_shexp"):
                self._split_feed_forward(layer + "ffn_{}" + kind + ".weight")
            if (both := layer + "ffn_gate_up_exps.weight") in self:
                self.halve(both, layer + "ffn_gate_exps.weight", layer + "ffn_up_exps.weight")

    def _split_attention(self, layer: str, kind: str) -> None:
        fused, output = self.get(f"{layer}attn_qkv.{kind}"), self.get(layer + "attn_output.weight")
        if fused is None or output is None:
            return
        rows = output.shape[-1]
        rest = max(0, fused.shape[0] - rows) // 2
        parts = zip("qkv", (rows, rest, rest), strict=True)
        self.split(fused.name, *((f"{layer}attn_{one}.{kind}", count) for one, count in parts))

    def _split_feed_forward(self, name: str) -> None:
        up, down = self.get(name.format("up")), self.get(name.format("down"))
        gate = name.format("gate")
        if up is None or down is None or gate in self or up.shape[0] != 2 * down.shape[-1]:
            return
        self.put(BOTH, self.take(up.name))
        self.split(BOTH, (gate, down.shape[-1]), (up.name, down.shape[-1]))

    def layers(self) -> Iterator[str]:
        """`blk.0.`, `blk.1.`, ... of the layers that have tensors."""
        found = {int(match[1]) for name in self.all if (match := LAYER.match(name))}
        return (f"blk.{index}." for index in sorted(found))


def _cut(tensor: Tensor, name: str, start: int, rows: int) -> Tensor:
    if len(tensor.shape) > 1:
        return derived.rows_of(tensor, name, start, rows)
    column = derived.reshaped(tensor, (tensor.shape[0], 1))
    return derived.reshaped(derived.rows_of(column, name, start, rows), (rows,))
