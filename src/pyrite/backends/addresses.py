"""Where the things of a plan are in a native program: values are columns of its arena, weights
and rotary tables are numbered as they are added.

It adds no operation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from pyrite._native import program as native
from pyrite.backends.packing import PackedMatrix
from pyrite.formats.checkpoint import Tensor
from pyrite.formats.finite import require_finite
from pyrite.graph.ops import Op
from pyrite.graph.plan import Plan
from pyrite.graph.rope import attention_factor, inverse_frequencies
from pyrite.graph.values import Activation, Norm, Rope, View
from pyrite.quant.dequant import dequantize

ACTIVATIONS: Mapping[Activation | None, native.Activation] = {
    None: native.Activation.NONE,
    "identity": native.Activation.IDENTITY,
    "silu": native.Activation.SILU,
    "gelu": native.Activation.GELU,
    "gelu_tanh": native.Activation.GELU_TANH,
    "relu": native.Activation.RELU,
    "relu_squared": native.Activation.RELU_SQUARED,
    "sigmoid": native.Activation.SIGMOID,
    "tanh": native.Activation.TANH,
    "clamped_swiglu": native.Activation.CLAMPED_SWIGLU,
}

NORM_KINDS: Mapping[str, native.NormKind] = {
    "rms": native.NormKind.RMS,
    "layer": native.NormKind.LAYER,
    "l2": native.NormKind.L2,
}

STATE_ALIGNMENT = 16  # floats


def state_offsets(plan: Plan) -> tuple[int, ...]:
    """Where each stateful operation's state begins in a slot, then the floats of a slot.

    Each begins at a cache line.
    """
    sizes = (-(-floats // STATE_ALIGNMENT) * STATE_ALIGNMENT for floats in plan.states)
    return tuple(accumulate(sizes, initial=0))


@dataclass(slots=True)
class Addresses:
    """Names become indices, each thing being added to `program` when it is first named."""

    plan: Plan
    program: native.Program
    matrices: Mapping[str, PackedMatrix]
    weights: Mapping[str, Tensor]
    _matrix_ids: dict[str, int] = field(default_factory=dict, init=False)
    _vector_ids: dict[str, int] = field(default_factory=dict, init=False)
    _rope_ids: dict[Rope, int] = field(default_factory=dict, init=False)
    _state_offsets: tuple[int, ...] = field(default=(), init=False)

    def __post_init__(self) -> None:
        self._state_offsets = state_offsets(self.plan)

    def _columns(self, view: View) -> tuple[int, int]:
        return self.plan.columns[view.value] + view.start, view.width

    def _optional(self, view: View | None) -> tuple[int, int] | None:
        return None if view is None else self._columns(view)

    def _output(self, op: Op) -> tuple[int, int]:
        return self.plan.columns[op.output], self.plan.values[op.output].width

    def _rows(self, op: Op) -> native.Rows:
        tokens = self.plan.values[op.output].rows == "tokens"
        return native.Rows.TOKENS if tokens else native.Rows.OUTPUTS

    def _weight(self, name: str, bias: str | None) -> tuple[int, int]:
        return self._matrix(name), self._optional_vector(bias)

    def _matrix(self, name: str) -> int:
        if name not in self._matrix_ids:
            matrix = self.matrices[name]
            self._matrix_ids[name] = self.program.add_matrix(
                matrix.type, matrix.count, matrix.rows, matrix.columns, matrix.data
            )
        return self._matrix_ids[name]

    def _norm(self, norm: Norm | None) -> native.NormOf | None:
        if norm is None:
            return None
        weight, bias = self._optional_vector(norm.weight), self._optional_vector(norm.bias)
        return NORM_KINDS[norm.kind], weight, bias, norm.eps

    def _optional_vector(self, name: str | None) -> int:
        return -1 if name is None else self._vector(name)

    def _vector(self, name: str) -> int:
        """Of a tensor of any shape: its values in their order."""
        if name not in self._vector_ids:
            self._vector_ids[name] = self.program.add_vector(self._values(name))
        return self._vector_ids[name]

    def _values(self, name: str) -> NDArray[np.float32]:
        """Raises TensorError for one that is not finite: it may spoil answers without a trace."""
        tensor = self.weights[name]
        values = dequantize(tensor.read(), tensor.type, tensor.shape).reshape(-1)
        if not np.isfinite(values).all():
            require_finite(tensor)
        return values

    def _constant(self, values: NDArray[np.float32]) -> int:
        """What was made of a weight that only one operation reads."""
        return self.program.add_vector(np.ascontiguousarray(values).reshape(-1))

    def _rope(self, rope: Rope) -> int:
        if rope not in self._rope_ids:
            self._rope_ids[rope] = self.program.add_rope(
                inverse_frequencies(rope).astype(np.float64),
                attention_factor(rope),
                rope.layout == "pairs",
                rope.growth,
                rope.growth_span,
            )
        return self._rope_ids[rope]
