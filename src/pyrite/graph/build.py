"""Builds a graph one operation at a time, and notes the weights that it reads with their shapes.

Models call it; it knows operations and widths, not architectures.
"""

from __future__ import annotations

from pyrite.errors import TensorError
from pyrite.graph.ops import (
    Activation,
    Add,
    Attention,
    Embed,
    Gate,
    Graph,
    Linear,
    Norm,
    Op,
    RmsNorm,
    Rope,
    Rotate,
    Rows,
    SelectRows,
    Softcap,
    Value,
    View,
)


class GraphBuilder:
    """Each method appends one operation and returns a view of the whole value that it writes."""

    def __init__(self) -> None:
        self.values: list[Value] = []
        self.ops: list[Op] = []
        self.weights: dict[str, tuple[int, ...]] = {}  # name -> shape, as the graph needs it

    def embed(self, weight: str, vocabulary: int, width: int, scale: float = 1.0) -> View:
        self._weight(weight, (vocabulary, width))
        output = self._value(width, "tokens")
        return self._append(Embed(output.value, weight, scale), output)

    def norm(self, x: View, norm: Norm, group: int = 0) -> View:
        self._weight(norm.weight, (group or x.width,))
        output = self._like(x)
        return self._append(RmsNorm(output.value, x, norm, group), output)

    def linear(self, x: View, weight: str, width: int, bias: str | None = None) -> View:
        self._weight(weight, (width, x.width))
        if bias is not None:
            self._weight(bias, (width,))
        output = self._value(width, self._rows(x))
        return self._append(Linear(output.value, x, (weight,), (bias,)), output)

    def tied_linear(self, x: View, weight: str, width: int) -> View:
        """A projection by a weight that the graph reads elsewhere: the embedding table."""
        if self.weights.get(weight) != (width, x.width):
            raise AssertionError(f"{weight} is not shared as ({width}, {x.width})")
        output = self._value(width, self._rows(x))
        return self._append(Linear(output.value, x, (weight,), (None,)), output)

    def rotate(self, x: View, head_width: int, rope: Rope) -> View:
        output = self._like(x)
        return self._append(Rotate(output.value, x, head_width, rope), output)

    def attention(
        self,
        query: View,
        key: View,
        value: View,
        *,
        layer: int,
        head_width: int,
        scale: float,
        window: int = 0,
        softcap: float = 0.0,
    ) -> View:
        output = self._like(query)
        op = Attention(
            output.value,
            query,
            key,
            value,
            layer=layer,
            heads=query.width // head_width,
            key_heads=key.width // head_width,
            head_width=head_width,
            scale=scale,
            window=window,
            softcap=softcap,
        )
        return self._append(op, output)

    def gate(self, gate: View, up: View, activation: Activation) -> View:
        output = self._like(gate)
        return self._append(Gate(output.value, gate, up, activation), output)

    def add(self, left: View, right: View) -> View:
        output = self._like(left)
        return self._append(Add(output.value, left, right), output)

    def softcap(self, x: View, cap: float) -> View:
        output = self._like(x)
        return self._append(Softcap(output.value, x, cap), output)

    def select_rows(self, x: View) -> View:
        output = self._value(x.width, "outputs")
        return self._append(SelectRows(output.value, x), output)

    def finish(self, result: View) -> Graph:
        return Graph(tuple(self.values), tuple(self.ops), result.value)

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

    def _weight(self, name: str, shape: tuple[int, ...]) -> None:
        if name in self.weights:
            raise TensorError(f"the architecture reads {name} twice")
        self.weights[name] = shape
