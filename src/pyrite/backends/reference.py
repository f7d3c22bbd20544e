"""The reference backend: runs a plan in NumPy and float32, the oracle that defines right.

It lives by the plan as every backend does: values lie in the arena at the plan's columns, keys and
values in pages, so a plan that places two living values together gives wrong numbers here too.
Precision and threads are not its to choose: it is always float32, and NumPy's BLAS has its own.
Keys and values are float32 too, but rounded where 8 bits are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyrite.backends import meaning, mixture, recurrent
from pyrite.backends.base import PAGE_TOKENS, Batch
from pyrite.backends.check import check_batch, check_page, check_slot, check_state
from pyrite.backends.weights import Floats, LazyWeights
from pyrite.formats.checkpoint import Tensor
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
    Scale,
    ScaleRows,
    SelectRows,
    Softcap,
)
from pyrite.graph.plan import Plan
from pyrite.graph.recurrence import DeltaRule, Scan, ShiftTokens, ShortConv, Wkv4, Wkv7
from pyrite.graph.values import Norm, View


class ReferenceBackend:
    name = "reference"

    def prepare(
        self,
        plan: Plan,
        weights: Mapping[str, Tensor],
        *,
        num_pages: int,
        max_tokens: int,
        num_threads: int = 1,
        precision: str = "default",
        kv_type: str = "f16",
        num_slots: int = 1,
    ) -> ReferenceRunner:
        lazy = LazyWeights(weights)
        return ReferenceRunner(plan, lazy, num_pages, max_tokens, kv_type, num_slots)


class Pages:
    """Keys and values of one layer: page_tables' numbers index the first axis. Of values that are
    columns of the keys (`value_width` 0) there are none."""

    def __init__(
        self, num_pages: int, key_heads: int, head_width: int, value_width: int, kv_type: str
    ) -> None:
        self.kv_type = kv_type
        shape = (num_pages, PAGE_TOKENS, key_heads)
        self.keys = np.zeros((*shape, head_width), np.float32)
        self.values = np.zeros((*shape, value_width), np.float32)

    def write(
        self, pages: NDArray[np.int32], slots: NDArray[np.int32], k: Floats, v: Floats
    ) -> None:
        if self.kv_type == "q8":
            k, v = meaning.eight_bit_keys(k), meaning.eight_bits(v)
        self.keys[pages, slots] = k
        self.values[pages, slots] = v

    def read(self, table: NDArray[np.int32], first: int, stop: int) -> tuple[Floats, Floats]:
        """Positions first : stop of a sequence. 2 x (stop - first, key_heads, columns)"""
        first_page = first // PAGE_TOKENS
        pages = table[first_page : -(-stop // PAGE_TOKENS)]
        span = slice(first - first_page * PAGE_TOKENS, stop - first_page * PAGE_TOKENS)
        keys, values = (
            part[pages].reshape(len(pages) * PAGE_TOKENS, *part.shape[2:])[span]
            for part in (self.keys, self.values)
        )
        return keys, values

    def copy(self, source: int, target: int) -> None:
        self.keys[target] = self.keys[source]
        self.values[target] = self.values[source]

    def parts(self, page: int) -> tuple[NDArray[np.uint8], ...]:
        """Views of the bytes of a page."""
        return tuple(part[page].reshape(-1).view(np.uint8) for part in (self.keys, self.values))


class ReferenceRunner:
    def __init__(
        self,
        plan: Plan,
        weights: LazyWeights,
        num_pages: int,
        max_tokens: int,
        kv_type: str,
        num_slots: int,
    ) -> None:
        self.plan = plan
        self.weights = weights
        self.num_pages = num_pages
        self.max_tokens = max_tokens
        self.num_slots = num_slots
        self.arena = np.zeros((max_tokens, plan.arena_columns), np.float32)
        layers = zip(plan.key_heads, plan.head_widths, plan.value_widths, strict=True)
        self.pages = [Pages(num_pages, *sizes, kv_type) for sizes in layers]
        self.states = np.zeros((num_slots, sum(plan.states)), np.float32)

    def run(self, batch: Batch) -> Floats:
        check_batch(
            batch,
            self.plan,
            num_pages=self.num_pages,
            max_tokens=self.max_tokens,
            num_slots=self.num_slots,
        )
        before = self.states[batch.state_slots].copy() if self.plan.has_state else None
        try:
            return self._run(batch)
        except BaseException:
            if before is not None:
                self.states[batch.state_slots] = before
            raise

    def _run(self, batch: Batch) -> Floats:
        step = _Step(self, batch)
        with np.errstate(over="ignore", invalid="ignore"):  # the engine looks at the logits
            for op in self.plan.ops:
                step.store(op.output, OPERATIONS[type(op)](step, op))
        return step.result

    @property
    def page_bytes(self) -> int:
        return sum(layer.keys[:1].nbytes + layer.values[:1].nbytes for layer in self.pages)

    def copy_page(self, source: int, target: int) -> None:
        for layer in self.pages:
            layer.copy(source, target)

    def read_page(self, page: int, out: NDArray[np.uint8]) -> None:
        check_page(self, page, out)
        out[...] = np.concatenate([part for layer in self.pages for part in layer.parts(page)])

    def write_page(self, page: int, data: NDArray[np.uint8]) -> None:
        check_page(self, page, data)
        start = 0
        for part in (part for layer in self.pages for part in layer.parts(page)):
            part[...] = data[start : start + len(part)]
            start += len(part)

    @property
    def state_bytes(self) -> int:
        return sum(self.plan.states) * self.states.itemsize

    def copy_state(self, source: int, target: int) -> None:
        check_slot(self, source)
        check_slot(self, target)
        self.states[target] = self.states[source]

    def read_state(self, slot: int, out: NDArray[np.uint8]) -> None:
        check_state(self, slot, out)
        out[...] = self.states[slot].view(np.uint8)

    def write_state(self, slot: int, data: NDArray[np.uint8]) -> None:
        check_state(self, slot, data)
        self.states[slot] = data.view(np.float32)


class _Step:
    """One batch on its way through the plan. Methods named as operations give their outputs."""

    def __init__(self, runner: ReferenceRunner, batch: Batch) -> None:
        self.plan = runner.plan
        self.weights = runner.weights
        self.arena = runner.arena
        self.pages = runner.pages
        self.states = runner.states
        self.batch = batch
        self.num_rows = {"tokens": batch.num_tokens, "outputs": len(batch.output_rows)}
        result = self.plan.values[self.plan.result]
        self.result = np.zeros((self.num_rows[result.rows], result.width), np.float32)

    def whole(self, value_id: int) -> Floats:
        value, column = self.plan.values[value_id], self.plan.columns[value_id]
        if value_id == self.plan.result:
            return self.result
        return self.arena[: self.num_rows[value.rows], column : column + value.width]

    def load(self, view: View) -> Floats:
        return self.whole(view.value)[:, view.start : view.start + view.width]

    def store(self, value_id: int, output: Floats) -> None:
        self.whole(value_id)[...] = output

    def embed(self, op: Embed) -> Floats:
        return self.weights.rows(op.weight, self.batch.token_ids) * np.float32(op.scale)

    def embed_positions(self, op: EmbedPositions) -> Floats:
        return self.weights.rows(op.weight, self.batch.positions)

    def normalize(self, op: Normalize) -> Floats:
        x = self.load(op.input)
        group = op.group or x.shape[1]
        groups = x.reshape(len(x), x.shape[1] // group, group)
        output = meaning.normalize(groups, op.norm, self.weights).reshape(x.shape)
        return output if op.residual is None else output + self.load(op.residual)

    def linear(self, op: Linear) -> Floats:
        residual = None if op.residual is None else self.load(op.residual)
        return meaning.linear(op, self.load(op.input), residual, self.weights)

    def rotate(self, op: Rotate) -> Floats:
        x = self.load(op.input)
        split = x.reshape(len(x), x.shape[1] // op.head_width, op.head_width)
        turned = meaning.rotate(split, op.rope, self._positions(op), op.start)
        return turned.reshape(x.shape)

    def adapt(self, op: Adapt) -> Floats:
        x = self.load(op.input)
        return self._adapted(op, lambda down, rows: self.weights.project(down, x[rows]))

    def adapt_embed(self, op: AdaptEmbed) -> Floats:
        def picked(down: str, rows: NDArray[np.int64]) -> Floats:
            found = self.weights.rows(down, self.batch.token_ids[rows])
            return found * np.float32(op.scale)

        return self._adapted(op, picked)

    def _adapted(
        self, op: Adapt | AdaptEmbed, inner: Callable[[str, NDArray[np.int64]], Floats]
    ) -> Floats:
        """The base, and what comes of `inner`, which the first matrix makes of some rows."""
        output = self.load(op.base).copy()
        for adapter in np.unique(self.batch.adapters):
            if (pair := op.adapters.of(adapter)) is not None:
                rows = np.flatnonzero(self._row_adapters(op) == adapter)
                output[rows] += self.weights.project(pair[1], inner(pair[0], rows))
        return output

    def _row_adapters(self, op: Op) -> NDArray[np.int32]:
        """The adapter that each row's sequence is computed with."""
        if not len(self.batch.adapters):
            return np.full(self.num_rows[self.plan.values[op.output].rows], -1, np.int32)
        of_tokens = np.repeat(self.batch.adapters, np.diff(self.batch.sequence_starts))
        is_by_token = self.plan.values[op.output].rows == "tokens"
        return of_tokens if is_by_token else of_tokens[self.batch.output_rows]

    def head_linear(self, op: HeadLinear) -> Floats:
        return meaning.head_linear(op, self.load(op.input), self.weights)

    def experts(self, op: Experts) -> Floats:
        x, scores = self.load(op.input), self.load(op.scores)
        return mixture.mix(op, x, scores, self.weights, self._row_adapters(op))

    def gate(self, op: Gate) -> Floats:
        return meaning.gated(self.load(op.gate), self.load(op.up), op.activation)

    def add(self, op: Add) -> Floats:
        return self.load(op.left) + self.load(op.right)

    def activate(self, op: Activate) -> Floats:
        return meaning.activate(self.load(op.input), op.activation)

    def scale(self, op: Scale) -> Floats:
        return self.load(op.input) * np.float32(op.factor)

    def affine(self, op: Affine) -> Floats:
        x = self.load(op.input)
        if op.weight is not None:
            x = x * self.weights.values(op.weight)
        return x if op.bias is None else x + self.weights.values(op.bias)

    def scale_rows(self, op: ScaleRows) -> Floats:
        return self.load(op.input) * meaning.activate(self.load(op.factor), op.activation)

    def lerp(self, op: Lerp) -> Floats:
        left = self.load(op.left)
        return left + (self.load(op.right) - left) * self.weights.values(op.weight)

    def blend(self, op: Blend) -> Floats:
        left = self.load(op.left)
        return left + (self.load(op.right) - left) * self.load(op.share)

    def concat(self, op: Concat) -> Floats:
        return np.concatenate([self.load(op.left), self.load(op.right)], axis=1)

    def pick(self, op: Pick) -> Floats:
        return self.load(op.input)[:, self.weights.values(op.order).astype(np.int64)]

    def head_dot(self, op: HeadDot) -> Floats:
        value = self.load(op.value)
        heads = (len(value), -1, op.head_width)
        products = self.load(op.left) * self.load(op.right) * self.weights.values(op.weight)
        sums = products.reshape(heads).sum(axis=2, keepdims=True)
        output: Floats = (sums * value.reshape(heads)).reshape(value.shape)
        return output

    def shift_tokens(self, op: ShiftTokens) -> Floats:
        return self._by_sequence(op.state, recurrent.shift_tokens, op.input)

    def short_conv(self, op: ShortConv) -> Floats:
        def convolve(x: Floats, state: Floats) -> Floats:
            return recurrent.short_conv(op, x, state, self.weights)

        return self._by_sequence(op.state, convolve, op.input)

    def scan(self, op: Scan) -> Floats:
        def scan(x: Floats, step: Floats, b: Floats, c: Floats, state: Floats) -> Floats:
            return recurrent.scan(op, x, step, b, c, state, self.weights)

        return self._by_sequence(op.state, scan, op.input, op.step, op.b, op.c)

    def wkv4(self, op: Wkv4) -> Floats:
        def mix(key: Floats, value: Floats, state: Floats) -> Floats:
            return recurrent.wkv4(op, key, value, state, self.weights)

        return self._by_sequence(op.state, mix, op.key, op.value, fresh=recurrent.NOTHING_YET)

    def wkv7(self, op: Wkv7) -> Floats:
        views = (op.receptance, op.decay, op.key, op.value, op.removal, op.rate)
        return self._by_sequence(op.state, partial(recurrent.wkv7, op), *views)

    def delta_rule(self, op: DeltaRule) -> Floats:
        mix = partial(recurrent.delta_rule, op, self.weights)
        return self._by_sequence(op.state, mix, op.value, op.query, op.key, op.step, op.rate)

    def _by_sequence(
        self, state: int, run: Callable[..., Floats], *views: View, fresh: np.float32 | None = None
    ) -> Floats:
        """`run` on the rows of each sequence, with its state; `fresh`: of Wkv4's last third."""
        inputs = [self.load(view) for view in views]
        output = np.empty_like(inputs[0])
        first, size = sum(self.plan.states[:state]), self.plan.states[state]
        for (start, stop), slot in zip(
            pairwise(self.batch.sequence_starts), self.batch.state_slots, strict=True
        ):
            held = self.states[slot, first : first + size]
            if self.batch.positions[start] == 0:
                held[:] = 0
                if fresh is not None:
                    held[2 * len(held) // 3 :] = fresh
            output[start:stop] = run(*(x[start:stop] for x in inputs), held)
        return output

    def softcap(self, op: Softcap) -> Floats:
        return meaning.softcap(self.load(op.input), op.cap)

    def select_rows(self, op: SelectRows) -> Floats:
        return self.load(op.input)[self.batch.output_rows]

    def attention(self, op: Attention) -> Floats:
        positions = self._positions(op)
        query = self._heads(op, op.query, op.heads, op.query_norm)
        if op.key is not None:
            self._remember(op, op.key)
        output = np.empty((len(query), op.heads * op.value_width), np.float32)
        for rows, table in self._sequences(op):
            if rows.stop > rows.start:
                output[rows] = self._attend(op, table, positions[rows], query[rows])
        return output

    def _heads(self, op: Attention, view: View, count: int, norm: Norm | None) -> Floats:
        """As attention sees them. (tokens, count, head_width)"""
        heads = meaning.heads(self.load(view), count, norm, self.weights)
        return heads if op.rope is None else meaning.rotate(heads, op.rope, self._positions(op))

    def _positions(self, op: Op) -> NDArray[np.int32]:
        """Of each row of what the operation gives."""
        every = self.batch.positions
        is_whole = self.plan.values[op.output].rows == "tokens"
        return every if is_whole else every[self.batch.output_rows]

    def _sequences(self, op: Op) -> Iterator[tuple[slice, NDArray[np.int32]]]:
        """The rows of each, and its pages."""
        starts = self.batch.sequence_starts
        if self.plan.values[op.output].rows == "outputs":
            starts = np.searchsorted(self.batch.output_rows, starts).astype(np.int32)
        for (start, stop), table in zip(pairwise(starts), self.batch.page_tables, strict=True):
            yield slice(start, stop), table

    def _values(self, op: Attention, num_tokens: int) -> Floats:
        """What is kept beside the keys."""
        if op.value is None:
            return np.empty((num_tokens, op.key_heads, 0), np.float32)
        return meaning.heads(self.load(op.value), op.key_heads, None, self.weights)

    def _remember(self, op: Attention, keys: View) -> None:
        """Writes the keys and values of the new tokens to the pages."""
        key = self._heads(op, keys, op.key_heads, op.key_norm)
        value = self._values(op, len(key))
        for rows, table in self._sequences(op):
            column, slot = np.divmod(self.batch.positions[rows], PAGE_TOKENS)
            self.pages[op.layer].write(table[column], slot, key[rows], value[rows])

    def _attend(
        self,
        op: Attention,
        table: NDArray[np.int32],
        positions: NDArray[np.int32],
        query: Floats,
    ) -> Floats:
        """One sequence; pages that lie wholly before every window are not read."""
        first = max(0, int(positions[0]) - op.window + 1) if op.window else 0
        stop = int(positions[-1]) + 1
        keys, values = self.pages[op.layer].read(table, first, stop)
        if op.has_values_in_keys:
            values = keys[..., : op.value_width]
        visible = meaning.visible_positions(positions, first, stop, op.window)
        sinks = None if op.sinks is None else self.weights.values(op.sinks)
        return meaning.attend(op, query, keys, values, visible, sinks)


OPERATIONS: Mapping[type, Callable[[_Step, Any], Floats]] = {
    Embed: _Step.embed,
    EmbedPositions: _Step.embed_positions,
    Normalize: _Step.normalize,
    Linear: _Step.linear,
    Adapt: _Step.adapt,
    AdaptEmbed: _Step.adapt_embed,
    HeadLinear: _Step.head_linear,
    Experts: _Step.experts,
    Rotate: _Step.rotate,
    Attention: _Step.attention,
    Gate: _Step.gate,
    Add: _Step.add,
    Activate: _Step.activate,
    Scale: _Step.scale,
    Affine: _Step.affine,
    ScaleRows: _Step.scale_rows,
    Lerp: _Step.lerp,
    Blend: _Step.blend,
    Concat: _Step.concat,
    Pick: _Step.pick,
    HeadDot: _Step.head_dot,
    ShiftTokens: _Step.shift_tokens,
    ShortConv: _Step.short_conv,
    Scan: _Step.scan,
    Wkv4: _Step.wkv4,
    Wkv7: _Step.wkv7,
    DeltaRule: _Step.delta_rule,
    Softcap: _Step.softcap,
    SelectRows: _Step.select_rows,
}
