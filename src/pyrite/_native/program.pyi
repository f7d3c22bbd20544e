import enum
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Columns = tuple[int, int]  # first column of the arena (-1: of the logits), width
NormOf = tuple["NormKind", int, int, float]  # weight and bias (vectors, or -1), eps
WeightOf = tuple[int, int]  # matrix, bias (-1: none)

class Rows(enum.Enum):
    TOKENS = 0
    OUTPUTS = 1

class Activation(enum.Enum):
    NONE = 0
    IDENTITY = 1
    SILU = 2
    GELU = 3
    GELU_TANH = 4
    RELU = 5
    RELU_SQUARED = 6
    SIGMOID = 7
    TANH = 8
    CLAMPED_SWIGLU = 9

class NormKind(enum.Enum):
    RMS = 1
    LAYER = 2
    L2 = 3

class KvType(enum.Enum):
    F16 = 0
    Q8 = 1

def interleave_memory(nodes: list[int]) -> bool: ...
def phase_seconds(num_threads: int) -> float: ...
def head_block_bytes(key_width: int, value_width: int, kv_type: KvType) -> int:
    """`value_width` 0: values are columns of the keys."""

def populate(data: NDArray[np.uint8]) -> None: ...

class Routing:
    def __init__(
        self,
        *,
        num_used: int,
        by_sigmoid: bool,
        bias: int | None,
        expert_scale: int | None,
        is_normalized: bool,
        eps: float,
        scale: float,
        groups: int,
        used_groups: int,
        by_two: bool,
    ) -> None: ...

class Program:
    def __init__(
        self,
        *,
        isa: str,
        num_threads: int,
        max_tokens: int,
        arena_columns: int,
        result_width: int,
        num_pages: int,
        page_bytes: int,
        num_slots: int = 0,
        state_floats: int = 0,
        places: list[list[int]] = ...,
    ) -> None: ...
    def add_matrix(
        self, type: str, count: int, rows: int, columns: int, data: NDArray[np.uint8]
    ) -> int: ...
    def add_vector(self, data: NDArray[np.float32]) -> int: ...
    def add_rope(
        self,
        frequencies: NDArray[np.float64],
        factor: float,
        pairs: bool,
        growth: float,
        growth_span: int,
    ) -> int: ...
    def add_embed(self, label: str, *, table: int, scale: float, out: Columns) -> None: ...
    def add_embed_positions(self, label: str, *, table: int, out: Columns) -> None: ...
    def add_norm(
        self,
        label: str,
        *,
        rows: Rows,
        input: Columns,
        out: Columns,
        norm: NormOf | None,
        group: int,
        is_wide: bool,
        residual: Columns | None,
    ) -> None: ...
    def add_rotate(
        self,
        label: str,
        *,
        rows: Rows,
        input: Columns,
        out: Columns,
        head_width: int,
        start: int,
        rope: int,
    ) -> None: ...
    def add_concat(
        self, label: str, *, rows: Rows, left: Columns, right: Columns, out: Columns
    ) -> None: ...
    def add_pick(
        self, label: str, *, rows: Rows, input: Columns, out: Columns, order: int
    ) -> None: ...
    def add_head_dot(
        self,
        label: str,
        *,
        rows: Rows,
        left: Columns,
        right: Columns,
        value: Columns,
        out: Columns,
        weight: int,
        head_width: int,
    ) -> None: ...
    def add_gate(
        self,
        label: str,
        *,
        rows: Rows,
        gate: Columns,
        up: Columns,
        out: Columns,
        activation: Activation,
    ) -> None: ...
    def add_add(
        self, label: str, *, rows: Rows, left: Columns, right: Columns, out: Columns
    ) -> None: ...
    def add_activate(
        self, label: str, *, rows: Rows, input: Columns, out: Columns, activation: Activation
    ) -> None: ...
    def add_scale(
        self, label: str, *, rows: Rows, input: Columns, out: Columns, factor: float
    ) -> None: ...
    def add_affine(
        self, label: str, *, rows: Rows, input: Columns, out: Columns, weight: int, bias: int
    ) -> None: ...
    def add_scale_rows(
        self,
        label: str,
        *,
        rows: Rows,
        input: Columns,
        factor: Columns,
        out: Columns,
        activation: Activation,
    ) -> None: ...
    def add_lerp(
        self, label: str, *, rows: Rows, left: Columns, right: Columns, out: Columns, weight: int
    ) -> None: ...
    def add_blend(
        self, label: str, *, rows: Rows, left: Columns, right: Columns, share: Columns, out: Columns
    ) -> None: ...
    def add_softcap(
        self, label: str, *, rows: Rows, input: Columns, out: Columns, cap: float
    ) -> None: ...
    def add_select(self, label: str, *, input: Columns, out: Columns) -> None: ...
    def add_linear(
        self,
        label: str,
        *,
        rows: Rows,
        input: Columns,
        out: Columns,
        weights: list[tuple[int, int]],
        norm: NormOf | None,
        activation: Activation,
        residual: Columns | None,
        softcap: float,
        planes: int,
    ) -> None: ...
    def add_adapt(
        self,
        label: str,
        *,
        rows: Rows,
        input: Columns,
        base: Columns,
        out: Columns,
        adapters: Sequence[tuple[int, int] | None],
    ) -> None: ...
    def add_adapt_embed(
        self,
        label: str,
        *,
        base: Columns,
        out: Columns,
        scale: float,
        adapters: Sequence[tuple[int, int] | None],
    ) -> None: ...
    def add_head_linear(
        self,
        label: str,
        *,
        rows: Rows,
        input: Columns,
        out: Columns,
        weight: int,
        heads: int,
        carried: int,
        planes: int,
    ) -> None: ...
    def add_experts(
        self,
        label: str,
        *,
        rows: Rows,
        input: Columns,
        scores: Columns,
        out: Columns,
        routing: Routing,
        gate: WeightOf | None,
        up: WeightOf,
        down: WeightOf,
        activation: Activation,
        planes: int,
        gate_adapters: Sequence[tuple[int, int] | None] = ...,
        up_adapters: Sequence[tuple[int, int] | None] = ...,
        down_adapters: Sequence[tuple[int, int] | None] = ...,
    ) -> None: ...
    def add_squares(
        self,
        label: str,
        *,
        rows: Rows,
        input: Columns,
        norm: NormOf | None,
        heads: int,
        carried: int,
    ) -> int: ...
    def add_expert_squares(
        self, label: str, *, rows: Rows, input: Columns, num_experts: int, feed_forward: int
    ) -> tuple[int, int]: ...
    def add_attention(
        self,
        label: str,
        *,
        rows: Rows,
        query: Columns,
        key: Columns | None,
        value: Columns | None,
        out: Columns,
        key_heads: int,
        key_width: int,
        value_width: int,
        layer_offset: int,
        scale: float,
        window: int,
        softcap: float,
        sinks: int | None,
        query_norm: NormOf | None,
        key_norm: NormOf | None,
        rope: int | None,
        kv_type: KvType,
    ) -> None: ...
    def add_shift(self, label: str, *, input: Columns, out: Columns, state: int) -> None: ...
    def add_conv(
        self,
        label: str,
        *,
        input: Columns,
        out: Columns,
        taps: int,  # vector (num_taps, width)
        bias: int,
        num_taps: int,
        activation: Activation,
        state: int,
    ) -> None: ...
    def add_scan(
        self,
        label: str,
        *,
        input: Columns,
        step: Columns,
        b: Columns,
        c: Columns,
        out: Columns,
        a: int,  # vector (heads,), or by state of runs of up to 16 heads (state_width, run)
        d: int,
        step_bias: int,
        head_width: int,
        state_width: int,
        groups: int,
        is_by_state: bool,
        step_low: float,
        step_high: float,
        state: int,
    ) -> None: ...
    def add_wkv4(
        self,
        label: str,
        *,
        key: Columns,
        value: Columns,
        out: Columns,
        decay: int,  # vector: -exp of the weight
        first: int,
        state: int,
    ) -> None: ...
    def add_delta(
        self,
        label: str,
        *,
        query: Columns,
        key: Columns,
        value: Columns,
        step: Columns,
        rate: Columns,
        out: Columns,
        a: int,
        step_bias: int,
        key_heads: int,
        is_tiled: bool,
        state: int,
    ) -> None: ...
    def add_wkv7(
        self,
        label: str,
        *,
        receptance: Columns,
        decay: Columns,
        key: Columns,
        value: Columns,
        removal: Columns,
        rate: Columns,
        out: Columns,
        head_width: int,
        state: int,
    ) -> None: ...
    def run(
        self,
        *,
        token_ids: NDArray[np.int32],
        positions: NDArray[np.int32],
        sequence_starts: NDArray[np.int32],
        page_tables: NDArray[np.int32],
        output_rows: NDArray[np.int32],
        state_slots: NDArray[np.int32],
        adapters: NDArray[np.int32],
    ) -> None: ...
    def logits(self) -> NDArray[np.float32]: ...
    def pages(self) -> NDArray[np.uint8]: ...
    def states(self) -> NDArray[np.float32]: ...
    def copy_page(self, source: int, target: int) -> None: ...
    def broken_outputs(self) -> list[int]: ...
    def squares(self, index: int) -> tuple[list[float], list[int]]:
        """Sums of squares since the program was made, of the columns of each matrix, and how many
        rows went into it."""

    def profile(self, on: bool) -> None: ...
    def phases(self) -> list[tuple[str, int, list[int]]]: ...
    @property
    def isa(self) -> str: ...
