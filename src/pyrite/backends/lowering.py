"""From a plan to a native program: each operation becomes one call that adds it.

Names become indices of packed matrices, float32 vectors and rotary tables; values become columns of
the arena. Nothing here computes, and nothing is decided about how the work is cut.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np

from pyrite._native import program as native
from pyrite.backends.packing import PackedMatrix
from pyrite.errors import UnsupportedError
from pyrite.formats.checkpoint import Tensor
from pyrite.graph.ops import (
    Activate,
    Add,
    Affine,
    Attention,
    Blend,
    Concat,
    Embed,
    EmbedPositions,
    Experts,
    Gate,
    HeadDot,
    HeadLinear,
    Lerp,
    Linear,
    Normalize,
    Op,
    Rotate,
    Routing,
    Scale,
    ScaleRows,
    SelectRows,
    Softcap,
)
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


KV_TYPES: Mapping[str, native.KvType] = {"f16": native.KvType.F16, "q8": native.KvType.Q8}


STATE_ALIGNMENT = 16  # floats


def matrix_names(plan: Plan) -> tuple[str, ...]:
    """Weights that are packed, each once, in the order of their first use."""
    names: dict[str, None] = {}
    for op in plan.ops:
        if isinstance(op, Embed | EmbedPositions):
            names[op.weight] = None
        elif isinstance(op, Linear):
            names |= dict.fromkeys(op.weights)
        elif isinstance(op, HeadLinear):
            names[op.weight] = None
        elif isinstance(op, Experts):
            names |= dict.fromkeys(name for name in (op.gate, op.up, op.down) if name is not None)
    return tuple(names)


def layer_offsets(plan: Plan, kv_type: str) -> tuple[int, ...]:
    """Where each layer's keys and values begin in a page, then the bytes of a page."""
    layers = zip(plan.key_heads, plan.head_widths, plan.value_widths, strict=True)
    sizes = (
        heads * native.head_block_bytes(key, value, KV_TYPES[kv_type])
        for heads, key, value in layers
    )
    return tuple(accumulate(sizes, initial=0))


def state_offsets(plan: Plan) -> tuple[int, ...]:
    """Where each stateful operation's state begins in a slot, then the floats of a slot.

    Each begins at a cache line.
    """
    sizes = (-(-floats // STATE_ALIGNMENT) * STATE_ALIGNMENT for floats in plan.states)
    return tuple(accumulate(sizes, initial=0))


@dataclass(slots=True)
class Lowering:
    """Adds the operations of `plan` to `program`. `planes` of activations: 2, or 1 for "fast"."""

    plan: Plan
    program: native.Program
    matrices: Mapping[str, PackedMatrix]
    weights: Mapping[str, Tensor]
    planes: int
    kv_type: str
    _matrix_ids: dict[str, int] = field(default_factory=dict)
    _vector_ids: dict[str, int] = field(default_factory=dict)
    _rope_ids: dict[Rope, int] = field(default_factory=dict)
    _offsets: Sequence[int] = ()

    def lower(self) -> None:
        self._offsets = layer_offsets(self.plan, self.kv_type)
        for index, op in enumerate(self.plan.ops):
            label = f"{index} {type(op).__name__}"
            if type(op) not in LOWERED:
                raise UnsupportedError(f"the CPU backend does not execute {type(op).__name__}")
            LOWERED[type(op)](self, label, op)

    def embed(self, label: str, op: Embed) -> None:
        table = self._matrix(op.weight)
        self.program.add_embed(label, table=table, scale=op.scale, out=self._output(op))

    def embed_positions(self, label: str, op: EmbedPositions) -> None:
        table = self._matrix(op.weight)
        self.program.add_embed_positions(label, table=table, out=self._output(op))

    def normalize(self, label: str, op: Normalize) -> None:
        self.program.add_norm(
            label,
            rows=self._rows(op),
            input=self._columns(op.input),
            out=self._output(op),
            norm=self._norm(op.norm),
            group=op.group or op.input.width,
            is_wide=op.norm.is_wide,
            residual=self._optional(op.residual),
        )

    def linear(self, label: str, op: Linear) -> None:
        self.program.add_linear(
            f"{label} {' '.join(op.weights)}",
            rows=self._rows(op),
            input=self._columns(op.input),
            out=self._output(op),
            weights=[self._weight(*pair) for pair in zip(op.weights, op.biases, strict=True)],
            norm=self._norm(op.norm),
            activation=ACTIVATIONS[op.activation],
            residual=self._optional(op.residual),
            softcap=op.softcap,
            planes=self._planes(op),
        )

    def head_linear(self, label: str, op: HeadLinear) -> None:
        self.program.add_head_linear(
            f"{label} {op.weight}",
            rows=self._rows(op),
            input=self._columns(op.input),
            out=self._output(op),
            weight=self._matrix(op.weight),
            heads=op.heads,
            carried=op.carried,
            planes=self._planes(op),
        )

    def experts(self, label: str, op: Experts) -> None:
        self.program.add_experts(
            f"{label} {op.up}",
            rows=self._rows(op),
            input=self._columns(op.input),
            scores=self._columns(op.scores),
            out=self._output(op),
            routing=self._routing(op.routing),
            gate=None if op.gate is None else self._weight(op.gate, op.gate_bias),
            up=self._weight(op.up, op.up_bias),
            down=self._weight(op.down, op.down_bias),
            activation=ACTIVATIONS[op.activation],
            planes=self._planes(op),
        )

    def rotate(self, label: str, op: Rotate) -> None:
        self.program.add_rotate(
            label,
            input=self._columns(op.input),
            out=self._output(op),
            head_width=op.head_width,
            start=op.start,
            rope=self._rope(op.rope),
        )

    def attention(self, label: str, op: Attention) -> None:
        for width in (op.head_width, op.value_width):
            if width % 8:
                raise UnsupportedError(
                    f"attention heads are {width} columns wide: a multiple of 8 is needed",
                    hint="load the model with the reference backend",
                )
        self.program.add_attention(
            label,
            query=self._columns(op.query),
            key=self._columns(op.key),
            value=self._columns(op.value),
            out=self._output(op),
            key_heads=op.key_heads,
            key_width=op.head_width,
            value_width=op.value_width,
            layer_offset=self._offsets[op.layer],
            scale=op.scale,
            window=op.window,
            softcap=op.softcap,
            sinks=None if op.sinks is None else self._vector(op.sinks),
            query_norm=self._norm(op.query_norm),
            key_norm=self._norm(op.key_norm),
            rope=None if op.rope is None else self._rope(op.rope),
            kv_type=KV_TYPES[self.kv_type],
        )

    def gate(self, label: str, op: Gate) -> None:
        self.program.add_gate(
            label,
            rows=self._rows(op),
            gate=self._columns(op.gate),
            up=self._columns(op.up),
            out=self._output(op),
            activation=ACTIVATIONS[op.activation],
        )

    def add(self, label: str, op: Add) -> None:
        self.program.add_add(
            label,
            rows=self._rows(op),
            left=self._columns(op.left),
            right=self._columns(op.right),
            out=self._output(op),
        )

    def activate(self, label: str, op: Activate) -> None:
        self.program.add_activate(
            label,
            rows=self._rows(op),
            input=self._columns(op.input),
            out=self._output(op),
            activation=ACTIVATIONS[op.activation],
        )

    def scale(self, label: str, op: Scale) -> None:
        self.program.add_scale(
            label,
            rows=self._rows(op),
            input=self._columns(op.input),
            out=self._output(op),
            factor=op.factor,
        )

    def affine(self, label: str, op: Affine) -> None:
        self.program.add_affine(
            label,
            rows=self._rows(op),
            input=self._columns(op.input),
            out=self._output(op),
            weight=self._optional_vector(op.weight),
            bias=self._optional_vector(op.bias),
        )

    def scale_rows(self, label: str, op: ScaleRows) -> None:
        self.program.add_scale_rows(
            label,
            rows=self._rows(op),
            input=self._columns(op.input),
            factor=self._columns(op.factor),
            out=self._output(op),
            activation=ACTIVATIONS[op.activation],
        )

    def lerp(self, label: str, op: Lerp) -> None:
        self.program.add_lerp(
            label,
            rows=self._rows(op),
            left=self._columns(op.left),
            right=self._columns(op.right),
            out=self._output(op),
            weight=self._vector(op.weight),
        )

    def blend(self, label: str, op: Blend) -> None:
        self.program.add_blend(
            label,
            rows=self._rows(op),
            left=self._columns(op.left),
            right=self._columns(op.right),
            share=self._columns(op.share),
            out=self._output(op),
        )

    def concat(self, label: str, op: Concat) -> None:
        self.program.add_concat(
            label,
            rows=self._rows(op),
            left=self._columns(op.left),
            right=self._columns(op.right),
            out=self._output(op),
        )

    def head_dot(self, label: str, op: HeadDot) -> None:
        self.program.add_head_dot(
            label,
            rows=self._rows(op),
            left=self._columns(op.left),
            right=self._columns(op.right),
            value=self._columns(op.value),
            out=self._output(op),
            weight=self._vector(op.weight),
            head_width=op.head_width,
        )

    def softcap(self, label: str, op: Softcap) -> None:
        self.program.add_softcap(
            label,
            rows=self._rows(op),
            input=self._columns(op.input),
            out=self._output(op),
            cap=op.cap,
        )

    def select_rows(self, label: str, op: SelectRows) -> None:
        self.program.add_select(label, input=self._columns(op.input), out=self._output(op))

    def _columns(self, view: View) -> tuple[int, int]:
        return self.plan.columns[view.value] + view.start, view.width

    def _optional(self, view: View | None) -> tuple[int, int] | None:
        return None if view is None else self._columns(view)

    def _output(self, op: Op) -> tuple[int, int]:
        return self.plan.columns[op.output], self.plan.values[op.output].width

    def _rows(self, op: Op) -> native.Rows:
        tokens = self.plan.values[op.output].rows == "tokens"
        return native.Rows.TOKENS if tokens else native.Rows.OUTPUTS

    def _planes(self, op: Op) -> int:
        return 2 if self._rows(op) == native.Rows.OUTPUTS else self.planes

    def _routing(self, routing: Routing) -> native.Routing:
        return native.Routing(
            num_used=routing.num_used,
            by_sigmoid=routing.shares == "sigmoid",
            bias=None if routing.bias is None else self._vector(routing.bias),
            is_normalized=routing.is_normalized,
            eps=routing.eps,
            scale=routing.scale,
            groups=routing.groups,
            used_groups=routing.used_groups,
            by_two=routing.group_score == "top2",
        )

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
            tensor = self.weights[name]
            values = dequantize(tensor.read(), tensor.type, tensor.shape).reshape(-1)
            self._vector_ids[name] = self.program.add_vector(values)
        return self._vector_ids[name]

    def _rope(self, rope: Rope) -> int:
        if rope not in self._rope_ids:
            self._rope_ids[rope] = self.program.add_rope(
                inverse_frequencies(rope).astype(np.float64),
                attention_factor(rope),
                rope.layout == "pairs",
            )
        return self._rope_ids[rope]


# A new operation is a row here, in graph.ops and in the reference backend.
LOWERED: Mapping[type[Op], Callable[..., None]] = {
    Embed: Lowering.embed,
    EmbedPositions: Lowering.embed_positions,
    Normalize: Lowering.normalize,
    Linear: Lowering.linear,
    HeadLinear: Lowering.head_linear,
    Experts: Lowering.experts,
    Rotate: Lowering.rotate,
    Attention: Lowering.attention,
    Gate: Lowering.gate,
    Add: Lowering.add,
    Activate: Lowering.activate,
    Scale: Lowering.scale,
    Affine: Lowering.affine,
    ScaleRows: Lowering.scale_rows,
    Lerp: Lowering.lerp,
    Blend: Lowering.blend,
    Concat: Lowering.concat,
    HeadDot: Lowering.head_dot,
    Softcap: Lowering.softcap,
    SelectRows: Lowering.select_rows,
}
