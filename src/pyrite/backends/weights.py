"""The reference backend's weights: float32 values of a tensor, made when they are first wanted.

A small tensor is kept once it was dequantised; of a large one, only the rows in use are ever there.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from pyrite.formats.checkpoint import Tensor
from pyrite.quant.dequant import dequantize

Floats = NDArray[np.float32]

KEPT_BYTES = 256 << 20  # of one tensor in float32
SLICE_ROWS = 1 << 14


class LazyWeights:
    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self.tensors = tensors
        self.kept: dict[str, Floats] = {}

    def values(self, name: str) -> Floats:
        """All of the tensor, in its shape."""
        if name not in self.kept:
            tensor = self.tensors[name]
            self.kept[name] = dequantize(tensor.read(), tensor.type, tensor.shape)
        return self.kept[name]

    def part(self, name: str, index: int) -> Floats:
        """One matrix of a stack, or one row of a matrix."""
        tensor = self.tensors[name]
        count = tensor.num_rows // tensor.shape[0] if len(tensor.shape) > 1 else 1
        data = tensor.read(index * count, count)
        return dequantize(data, tensor.type, tensor.shape[1:])

    def rows(self, name: str, indices: NDArray[np.int32]) -> Floats:
        """Some rows of a matrix. (indices, columns)"""
        tensor = self.tensors[name]
        packed = tensor.read().reshape(tensor.shape[0], -1)[indices]
        return dequantize(packed.reshape(-1), tensor.type, (len(indices), tensor.shape[1]))

    def project(self, name: str, x: Floats) -> Floats:
        """x @ matrix.T: (rows, columns of the matrix) -> (rows, rows of the matrix)."""
        num_rows, columns = self.tensors[name].shape
        if num_rows * columns * 4 <= KEPT_BYTES:
            return x @ self.values(name).T
        output = np.empty((len(x), num_rows), np.float32)
        for start in range(0, num_rows, SLICE_ROWS):
            indices = np.arange(start, min(start + SLICE_ROWS, num_rows), dtype=np.int32)
            output[:, indices] = x @ self.rows(name, indices).T
        return output
