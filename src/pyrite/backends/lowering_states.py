"""Lowering of the operations that keep a state, and the layouts that kernels want weights in.

What a state looks like in its slot is the kernels' own affair (`native/kernels/recurrence.h`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pyrite.backends.addresses import ACTIVATIONS, Addresses
from pyrite.errors import UnsupportedError
from pyrite.graph.recurrence import DeltaRule, Scan, ShiftTokens, ShortConv, Wkv4, Wkv7

RUN = 16  # columns that a kernel takes together
TAPS = range(2, 17)  # of a convolution, that a kernel holds
MOST_HEAD_COLUMNS = 256  # of the keys and values of a head's state, likewise


@dataclass(slots=True)
class StateLowering(Addresses):
    def shift_tokens(self, label: str, op: ShiftTokens) -> None:
        self.program.add_shift(
            label,
            input=self._columns(op.input),
            out=self._output(op),
            state=self._state_offsets[op.state],
        )

    def short_conv(self, label: str, op: ShortConv) -> None:
        if op.kernel not in TAPS:
            raise UnsupportedError(
                f"a convolution over {op.kernel} tokens: it may be {TAPS.start} to {TAPS[-1]}",
                hint="load the model with the reference backend",
            )
        taps = self._values(op.weight).reshape(op.input.width, op.kernel)
        self.program.add_conv(
            label,
            input=self._columns(op.input),
            out=self._output(op),
            taps=self._constant(taps.T),
            bias=self._optional_vector(op.bias),
            num_taps=op.kernel,
            activation=ACTIVATIONS[op.activation],
            state=self._state_offsets[op.state],
        )

    def scan(self, label: str, op: Scan) -> None:
        a = self._values(op.a)
        if op.is_by_state:
            a = in_runs(a.reshape(op.groups, op.heads // op.groups, op.state_width))
        self.program.add_scan(
            label,
            input=self._columns(op.input),
            step=self._columns(op.step),
            b=self._columns(op.b),
            c=self._columns(op.c),
            out=self._output(op),
            a=self._constant(a),
            d=self._vector(op.d),
            step_bias=self._optional_vector(op.step_bias),
            head_width=op.head_width,
            state_width=op.state_width,
            groups=op.groups,
            is_by_state=op.is_by_state,
            step_low=op.step_low,
            step_high=op.step_high,
            state=self._state_offsets[op.state],
        )

    def wkv4(self, label: str, op: Wkv4) -> None:
        self.program.add_wkv4(
            label,
            key=self._columns(op.key),
            value=self._columns(op.value),
            out=self._output(op),
            decay=self._constant(-np.exp(self._values(op.decay))),
            first=self._vector(op.first),
            state=self._state_offsets[op.state],
        )

    def wkv7(self, label: str, op: Wkv7) -> None:
        check_head(op.head_width)
        self.program.add_wkv7(
            label,
            receptance=self._columns(op.receptance),
            decay=self._columns(op.decay),
            key=self._columns(op.key),
            value=self._columns(op.value),
            removal=self._columns(op.removal),
            rate=self._columns(op.rate),
            out=self._output(op),
            head_width=op.head_width,
            state=self._state_offsets[op.state],
        )

    def delta_rule(self, label: str, op: DeltaRule) -> None:
        check_head(max(op.key_width, op.value_width))
        self.program.add_delta(
            label,
            query=self._columns(op.query),
            key=self._columns(op.key),
            value=self._columns(op.value),
            step=self._columns(op.step),
            rate=self._columns(op.rate),
            out=self._output(op),
            a=self._vector(op.a),
            step_bias=self._vector(op.step_bias),
            key_heads=op.key_heads,
            is_tiled=op.is_tiled,
            state=self._state_offsets[op.state],
        )


def check_head(width: int) -> None:
    if width > MOST_HEAD_COLUMNS:
        raise UnsupportedError(
            f"heads of {width} columns with a state: {MOST_HEAD_COLUMNS} are the most",
            hint="load the model with the reference backend",
        )


def in_runs(a: NDArray[np.float32]) -> NDArray[np.float32]:
    """(groups, heads, state_width) -> for each run of up to RUN heads of a group
    (state_width, heads of the run), one after the other."""
    starts = range(0, a.shape[1], RUN)
    return np.concatenate(
        [group[start : start + RUN].T.reshape(-1) for group in a for start in starts]
    )
