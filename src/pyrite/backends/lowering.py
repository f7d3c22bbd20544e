"""From a plan to a native program: each operation becomes one call that adds it.

`addresses` says where things are, and `lowering_states` adds the operations that keep a state.
Nothing here computes, and nothing is decided about how the work is cut.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from pyrite._native import program as native
from pyrite.backends.addresses import ACTIVATIONS
from pyrite.backends.lowering_states import StateLowering
from pyrite.errors import UnsupportedError
from pyrite.graph.ops import (
    Activate,
    Adapt,
    AdaptEmbed,
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
    Pick,
    Rotate,
    Routing,
    Scale,
    ScaleRows,
    SelectRows,
    Softcap,
)
from pyrite.graph.plan import Plan
from pyrite.graph.recurrence import DeltaRule, Scan, ShiftTokens, ShortConv, Wkv4, Wkv7
from pyrite.graph.values import Norm, Pairs

KV_TYPES: Mapping[str, native.KvType] = {"f16": native.KvType.F16, "q8": native.KvType.Q8}


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


def adapter_names(plan: Plan) -> tuple[str, ...]:
    """The matrices of adapters, which are packed apart from the model's."""
    found = (pairs for op in plan.ops for pairs in _adapters_of(op) if pairs is not None)
    return tuple(dict.fromkeys(name for pairs in found for name in pairs.named()))


def _adapters_of(op: Op) -> tuple[Pairs | None, ...]:
    if isinstance(op, Adapt | AdaptEmbed):
        return (op.adapters,)
    if isinstance(op, Experts):
        return op.gate_adapters, op.up_adapters, op.down_adapters
    return ()


def layer_offsets(plan: Plan, kv_type: str) -> tuple[int, ...]:
    """Where each layer's keys and values begin in a page, then the bytes of a page."""
    layers = zip(plan.key_heads, plan.head_widths, plan.value_widths, strict=True)
    sizes = (
        heads * native.head_block_bytes(key, value, KV_TYPES[kv_type])
        for heads, key, value in layers
    )
    return tuple(accumulate(sizes, initial=0))


@dataclass(slots=True)
class Lowering(StateLowering):
    """Adds the operations of `plan` to `program`. `planes` of activations: 2, or 1 for "fast"."""

    planes: int
    kv_type: str
    observed: dict[int, tuple[str, ...]] | None = None  # sums of squares: the matrices they are of
    _offsets: Sequence[int] = field(default=(), init=False)

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
        if self.observed is not None:
            self.observed[self._observe(label, op, op.norm)] = op.weights
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

    def adapt(self, label: str, op: Adapt) -> None:
        self.program.add_adapt(
            label,
            rows=self._rows(op),
            input=self._columns(op.input),
            base=self._columns(op.base),
            out=self._output(op),
            adapters=self._pairs(op.adapters),
        )

    def adapt_embed(self, label: str, op: AdaptEmbed) -> None:
        self.program.add_adapt_embed(
            label,
            base=self._columns(op.base),
            out=self._output(op),
            scale=op.scale,
            adapters=self._pairs(op.adapters),
        )

    def _pairs(self, pairs: Pairs | None) -> list[tuple[int, int] | None]:
        """Of each adapter its two matrices."""
        found = map(pairs.of, range(len(pairs.up))) if pairs is not None else ()
        return [pair and (self._matrix(pair[0]), self._matrix(pair[1])) for pair in found]

    def head_linear(self, label: str, op: HeadLinear) -> None:
        if self.observed is not None:
            index = self._observe(label, op, heads=op.heads, carried=op.carried)
            self.observed[index] = (op.weight,)
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
            gate_adapters=self._pairs(op.gate_adapters),
            up_adapters=self._pairs(op.up_adapters),
            down_adapters=self._pairs(op.down_adapters),
        )
        if self.observed is not None:
            outer, inner = self._observe_experts(label, op)
            self.observed[outer] = (op.up,) if op.gate is None else (op.gate, op.up)
            self.observed[inner] = (op.down,)

    def _observe(
        self,
        label: str,
        op: Linear | HeadLinear,
        norm: Norm | None = None,
        heads: int = 1,
        carried: int = 0,
    ) -> int:
        """Adds up squares of what goes into a product, or each head's; gives the sums' index."""
        return self.program.add_squares(
            f"{label} squares",
            rows=self._rows(op),
            input=self._columns(op.input),
            norm=self._norm(norm),
            heads=heads,
            carried=carried,
        )

    def _observe_experts(self, label: str, op: Experts) -> tuple[int, int]:
        """The same for a mixture: of what goes into its first products, and into the last."""
        count, feed_forward = self.weights[op.up].shape[:2]
        return self.program.add_expert_squares(
            f"{label} squares",
            rows=self._rows(op),
            input=self._columns(op.input),
            num_experts=count,
            feed_forward=feed_forward,
        )

    def rotate(self, label: str, op: Rotate) -> None:
        self.program.add_rotate(
            label,
            rows=self._rows(op),
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
            rows=self._rows(op),
            query=self._columns(op.query),
            key=self._optional(op.key),
            value=self._optional(op.value),
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

    def pick(self, label: str, op: Pick) -> None:
        self.program.add_pick(
            label,
            rows=self._rows(op),
            input=self._columns(op.input),
            out=self._output(op),
            order=self._vector(op.order),
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

    def _planes(self, op: Op) -> int:
        return 2 if self._rows(op) == native.Rows.OUTPUTS else self.planes

    def _routing(self, routing: Routing) -> native.Routing:
        return native.Routing(
            num_used=routing.num_used,
            by_sigmoid=routing.shares == "sigmoid",
            bias=None if routing.bias is None else self._vector(routing.bias),
            expert_scale=(
                None if routing.expert_scale is None else self._vector(routing.expert_scale)
            ),
            is_normalized=routing.is_normalized,
            eps=routing.eps,
            scale=routing.scale,
            groups=routing.groups,
            used_groups=routing.used_groups,
            by_two=routing.group_score == "top2",
        )


# A new operation is a row here, in graph.ops and in the reference backend.
LOWERED: Mapping[type[Op], Callable[..., None]] = {
    Embed: Lowering.embed,
    EmbedPositions: Lowering.embed_positions,
    Normalize: Lowering.normalize,
    Linear: Lowering.linear,
    Adapt: Lowering.adapt,
    AdaptEmbed: Lowering.adapt_embed,
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
    Pick: Lowering.pick,
    HeadDot: Lowering.head_dot,
    Softcap: Lowering.softcap,
    ShiftTokens: Lowering.shift_tokens,
    ShortConv: Lowering.short_conv,
    Scan: Lowering.scan,
    Wkv4: Lowering.wkv4,
    Wkv7: Lowering.wkv7,
    DeltaRule: Lowering.delta_rule,
    SelectRows: Lowering.select_rows,
}
