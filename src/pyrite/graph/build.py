"""Builds a graph one operation at a time, and notes the weights that it reads with their shapes.

Models call it; it knows operations and widths, not architectures.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from pyrite.errors import TensorError
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
    Graph,
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
from pyrite.graph.recurrence import DeltaRule, Scan, ShiftTokens, ShortConv, Wkv4, Wkv7
from pyrite.graph.values import Activation, Norm, Pairs, Rope, Rows, Value, View

UP_NAME = re.compile(r"(.+)\.lora_b\.(\d{1,3})")  # the other way: a weight, an adapter's number

Shape = tuple[int, ...]


def down_name(weight: str, adapter: int) -> str:
    """The tensor of an adapter, by its number, that takes a weight's input to its rank."""
    return f"{weight}.lora_a.{adapter}"


def up_name(weight: str, adapter: int) -> str:
    return f"{weight}.lora_b.{adapter}"


class GraphBuilder:
    """Each method appends one operation and returns a view of the whole value that it writes."""

    def __init__(
        self,
        ranks: Mapping[str, tuple[int, ...]] | None = None,
        orders: Mapping[str, str] | None = None,
    ) -> None:
        """`ranks`: of each adapter for a weight that some adapt; 0 where one does not. `orders`:
        the vector with the input's column for each of a weight's, where these are moved."""
        self.ranks = ranks or {}
        self.orders = orders or {}
        self.picked: dict[tuple[View, str], View] = {}  # an input in an order
        self.values: list[Value] = []
        self.ops: list[Op] = []
        self.weights: dict[str, Shape] = {}  # name -> shape, as the graph needs it
        self.kept: dict[str, View] = {}  # what a layer leaves to later ones, by a name of its own
        self.num_attentions = 0
        self.num_states = 0

    def embed(self, weight: str, vocabulary: int, width: int, scale: float = 1.0) -> View:
        self._weight(weight, (vocabulary, width))
        output = self._value(width, "tokens")
        self._append(Embed(output.value, weight, scale), output)
        if weight not in self.ranks:
            return output
        pairs = self._pairs(weight, lambda rank: ((vocabulary, rank), (width, rank)))
        adapted = self._like(output)
        return self._append(AdaptEmbed(adapted.value, output, pairs, scale), adapted)

    def embed_positions(self, weight: str, context_length: int, width: int) -> View:
        self._weight(weight, (context_length, width))
        output = self._value(width, "tokens")
        return self._append(EmbedPositions(output.value, weight), output)

    def norm(self, x: View, norm: Norm, group: int = 0) -> View:
        width = x.width if norm.is_wide or not group else group
        self._vector(norm.weight, width)
        self._vector(norm.bias, width)
        output = self._like(x)
        return self._append(Normalize(output.value, x, norm, group), output)

    def linear(self, x: View, weight: str, width: int, bias: str | None = None) -> View:
        self._weight(weight, (width, x.width))
        if bias is not None:
            self._weight(bias, (width,))
        picked = self.pick(x, self.orders[weight]) if weight in self.orders else x
        output = self._value(width, self._rows(x))
        self._append(Linear(output.value, picked, (weight,), (bias,)), output)
        return self._adapted(x, output, weight) if weight in self.ranks else output

    def pick(self, x: View, order: str) -> View:
        """The columns of x in another order, made once for all that want them so."""
        if (x, order) not in self.picked:
            self.weights[order] = (x.width,)  # read by as many inputs as there are
            output = self._like(x)
            self.picked[x, order] = self._append(Pick(output.value, x, order), output)
        return self.picked[x, order]

    def tied_linear(self, x: View, weight: str, width: int, adapted: str) -> View:
        """A projection by a weight that the graph reads elsewhere: the embedding table. Adapters
        of the projection, which are not those of the table, go by the name `adapted`."""
        if self.weights.get(weight) != (width, x.width):
            raise AssertionError(f"{weight} is not shared as ({width}, {x.width})")
        output = self._value(width, self._rows(x))
        self._append(Linear(output.value, x, (weight,), (None,)), output)
        return self._adapted(x, output, adapted) if adapted in self.ranks else output

    def head_linear(
        self, x: View, weight: str, *, heads: int, inputs: int, width: int, carried: int = 0
    ) -> View:
        """`inputs` and `width`: columns of a head that the product takes and gives."""
        self._weight(weight, (heads, width, inputs))
        output = self._value(heads * (width + carried), self._rows(x))
        return self._append(HeadLinear(output.value, x, weight, heads, carried), output)

    def experts(
        self,
        x: View,
        scores: View,
        routing: Routing,
        names: tuple[str | None, str, str],
        *,
        feed_forward: int,
        activation: Activation,
        biases: tuple[str | None, str | None, str | None] = (None, None, None),
    ) -> View:
        """`names` and `biases` are those of gate, up and down."""
        count, inner = scores.width, (scores.width, feed_forward)
        gate, up, down = names
        if gate is not None:
            self._weight(gate, (*inner, x.width))
        self._weight(up, (*inner, x.width))
        self._weight(down, (count, x.width, feed_forward))
        for name, shape in zip(biases, (inner, inner, (count, x.width)), strict=True):
            if name is not None:
                self._weight(name, shape)
        self._vector(routing.bias, count)
        self._vector(routing.expert_scale, count)
        output = self._like(x)
        op = Experts(
            output.value,
            x,
            scores,
            routing,
            gate,
            up,
            down,
            activation,
            *biases,
            gate_adapters=self._expert_pairs(gate, *inner, x.width),
            up_adapters=self._expert_pairs(up, *inner, x.width),
            down_adapters=self._expert_pairs(down, count, x.width, feed_forward),
        )
        return self._append(op, output)

    def rotate(self, x: View, head_width: int, rope: Rope, start: int = 0) -> View:
        output = self._like(x)
        return self._append(Rotate(output.value, x, head_width, rope, start), output)

    def attention(
        self,
        query: View,
        key: View,
        value: View | None,
        *,
        head_width: int,
        scale: float,
        window: int = 0,
        softcap: float = 0.0,
        sinks: str | None = None,
        value_width: int | None = None,
    ) -> View:
        """Layers that have keys and values are numbered in the order they are built. `value_width`
        is told where there is no `value`, for those in the keys."""
        heads, key_heads = query.width // head_width, key.width // head_width
        if value is not None:
            value_width = value.width // key_heads
        assert value_width is not None
        assert value_width <= head_width or value is not None
        self._vector(sinks, heads)
        self.num_attentions += 1
        output = self._value(heads * value_width, "tokens")
        op = Attention(
            output.value,
            query,
            key,
            value,
            layer=self.num_attentions - 1,
            heads=heads,
            key_heads=key_heads,
            head_width=head_width,
            value_width=value_width,
            scale=scale,
            window=window,
            softcap=softcap,
            sinks=sinks,
        )
        return self._append(op, output)

    def attend_kept(
        self,
        query: View,
        layer: int,
        *,
        key_heads: int,
        head_width: int,
        scale: float,
        window: int = 0,
    ) -> View:
        """Attention to the keys and values that `attention`, as the `layer`-th that was built,
        keeps: heads are as wide, and nothing is written."""
        output = self._like(query)
        op = Attention(
            output.value,
            query,
            None,
            None,
            layer=layer,
            heads=query.width // head_width,
            key_heads=key_heads,
            head_width=head_width,
            value_width=head_width,
            scale=scale,
            window=window,
        )
        return self._append(op, output)

    def gate(self, gate: View, up: View, activation: Activation) -> View:
        output = self._like(gate)
        return self._append(Gate(output.value, gate, up, activation), output)

    def add(self, left: View, right: View) -> View:
        output = self._like(left)
        return self._append(Add(output.value, left, right), output)

    def activate(self, x: View, activation: Activation) -> View:
        output = self._like(x)
        return self._append(Activate(output.value, x, activation), output)

    def scale(self, x: View, factor: float) -> View:
        """`x` itself where the factor is 1."""
        if factor == 1.0:
            return x
        output = self._like(x)
        return self._append(Scale(output.value, x, factor), output)

    def affine(self, x: View, weight: str | None, bias: str | None = None) -> View:
        self._vector(weight, x.width)
        self._vector(bias, x.width)
        output = self._like(x)
        return self._append(Affine(output.value, x, weight, bias), output)

    def scale_rows(self, x: View, factor: View, activation: Activation = "identity") -> View:
        output = self._like(x)
        return self._append(ScaleRows(output.value, x, factor, activation), output)

    def lerp(self, left: View, right: View, weight: str) -> View:
        self._vector(weight, left.width)
        output = self._like(left)
        return self._append(Lerp(output.value, left, right, weight), output)

    def blend(self, left: View, right: View, share: View) -> View:
        output = self._like(left)
        return self._append(Blend(output.value, left, right, share), output)

    def concat(self, left: View, right: View) -> View:
        output = self._value(left.width + right.width, self._rows(left))
        return self._append(Concat(output.value, left, right), output)

    def head_dot(self, left: View, right: View, value: View, weight: str, head_width: int) -> View:
        self._vector(weight, left.width)
        output = self._like(value)
        op = HeadDot(output.value, left, right, value, weight, head_width)
        return self._append(op, output)

    def shift_tokens(self, x: View) -> View:
        output = self._like(x)
        return self._append(ShiftTokens(output.value, x, self._state()), output)

    def short_conv(
        self,
        x: View,
        weight: str,
        kernel: int,
        *,
        bias: str | None = None,
        activation: Activation = "identity",
    ) -> View:
        self._weight(weight, (x.width, kernel))
        self._vector(bias, x.width)
        output = self._like(x)
        op = ShortConv(output.value, x, weight, bias, kernel, activation, self._state())
        return self._append(op, output)

    def scan(
        self,
        x: View,
        step: View,
        b: View,
        c: View,
        *,
        a: str,
        d: str,
        step_bias: str | None = None,
        groups: int = 1,
        step_limits: tuple[float, float] = (0.0, float("inf")),
    ) -> View:
        """With a step for each column (Mamba) `a` has a column for each of the state's, and `d` is
        a vector; with one a head (Mamba 2) both have one column."""
        heads, state_width = step.width, b.width // groups
        is_by_state = heads == x.width
        self._weight(a, (heads, state_width if is_by_state else 1))
        self._weight(d, (heads,) if is_by_state else (heads, 1))
        self._vector(step_bias, heads)
        output = self._like(x)
        op = Scan(
            output.value,
            x,
            step,
            b,
            c,
            a,
            d,
            step_bias,
            heads=heads,
            head_width=x.width // heads,
            state_width=state_width,
            groups=groups,
            is_by_state=is_by_state,
            state=self._state(),
            step_low=step_limits[0],
            step_high=step_limits[1],
        )
        return self._append(op, output)

    def wkv4(self, key: View, value: View, decay: str, first: str) -> View:
        self._vector(decay, key.width)
        self._vector(first, key.width)
        output = self._like(value)
        op = Wkv4(output.value, key, value, decay, first, self._state())
        return self._append(op, output)

    def wkv7(
        self,
        receptance: View,
        decay: View,
        key: View,
        value: View,
        removal: View,
        rate: View,
        head_width: int,
    ) -> View:
        output = self._like(value)
        parts = (receptance, decay, key, value, removal, rate)
        return self._append(Wkv7(output.value, *parts, head_width, self._state()), output)

    def delta_rule(
        self,
        query: View,
        key: View,
        value: View,
        step: View,
        rate: View,
        *,
        a: str,
        step_bias: str,
        key_heads: int,
        is_tiled: bool = False,
    ) -> View:
        self._vector(a, step.width)
        self._vector(step_bias, step.width)
        output = self._like(value)
        parts = (query, key, value, step, rate, a, step_bias)
        op = DeltaRule(output.value, *parts, key_heads, is_tiled, self._state())
        return self._append(op, output)

    def softcap(self, x: View, cap: float) -> View:
        output = self._like(x)
        return self._append(Softcap(output.value, x, cap), output)

    def select_rows(self, x: View) -> View:
        output = self._value(x.width, "outputs")
        return self._append(SelectRows(output.value, x), output)

    def finish(self, result: View) -> Graph:
        return Graph(tuple(self.values), tuple(self.ops), result.value)

    def _adapted(self, x: View, base: View, weight: str) -> View:
        pairs = self._pairs(weight, lambda rank: ((rank, x.width), (base.width, rank)))
        output = self._like(base)
        return self._append(Adapt(output.value, x, base, pairs), output)

    def _expert_pairs(
        self, weight: str | None, experts: int, rows: int, columns: int
    ) -> Pairs | None:
        if weight is None or weight not in self.ranks:
            return None
        return self._pairs(weight, lambda rank: ((experts, rank, columns), (experts, rows, rank)))

    def _pairs(self, weight: str, shapes: Callable[[int], tuple[Shape, Shape]]) -> Pairs:
        """`shapes`: of an adapter's matrices, by its rank."""
        down: list[str | None] = []
        up: list[str | None] = []
        for index, rank in enumerate(self.ranks[weight]):
            down.append(down_name(weight, index) if rank else None)
            up.append(up_name(weight, index) if rank else None)
            if rank:
                first, second = shapes(rank)
                self._weight(down_name(weight, index), first)
                self._weight(up_name(weight, index), second)
        return Pairs(tuple(down), tuple(up))

    def _value(self, width: int, rows: Rows) -> View:
        self.values.append(Value(len(self.values), width, rows))
        return View(len(self.values) - 1, 0, width)

    def _like(self, x: View) -> View:
        return self._value(x.width, self._rows(x))

    def _rows(self, x: View) -> Rows:
        return self.values[x.value].rows

    def _append(self, op: Op, output: View) -> View:
        self.ops.append(op)
        return output

    def _state(self) -> int:
        self.num_states += 1
        return self.num_states - 1

    def _vector(self, name: str | None, width: int) -> None:
        if name is not None:
            self._weight(name, (width,))

    def _weight(self, name: str, shape: Shape) -> None:
        if name in self.weights:
            raise TensorError(f"the architecture reads {name} twice")
        self.weights[name] = shape
