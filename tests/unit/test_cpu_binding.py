"""The native program refuses operations whose widths, vectors or states do not belong together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite._native import program as native

X, Y, NARROW, ONE = (0, 16), (16, 16), (32, 8), (40, 1)  # columns of the arena
OUT = (48, 16)
TOKENS = {"rows": native.Rows.TOKENS}
RMS = (native.NormKind.RMS, 0, -1, 1e-5)
SILU, CLAMPED = native.Activation.SILU, native.Activation.CLAMPED_SWIGLU
SCAN: dict[str, Any] = {
    "input": X, "step": (32, 2), "b": NARROW, "c": NARROW, "out": OUT, "a": 1, "d": 1,
    "step_bias": -1, "head_width": 8, "state_width": 8, "groups": 1, "is_by_state": False,
    "step_low": 0.0, "step_high": 1.0, "state": 0,
}  # fmt: skip
WKV7 = dict.fromkeys(("receptance", "decay", "key", "value", "removal", "rate"), X)
CONV: dict[str, Any] = {
    "input": X, "out": OUT, "taps": 2, "bias": 0, "num_taps": 4, "activation": SILU, "state": 0,
}  # fmt: skip

# Each operation as it should be, then fields that are wrong, one at a time.
CALLS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "add_norm": (
        {**TOKENS, "input": X, "out": OUT, "norm": RMS, "group": 16, "is_wide": False,
         "residual": None},
        {"out": NARROW, "group": 5, "norm": None, "residual": NARROW},
    ),
    "add_gate": (
        {**TOKENS, "gate": X, "up": Y, "out": OUT, "activation": CLAMPED},
        {"up": NARROW, "activation": native.Activation.NONE},
    ),
    "add_activate": (
        {**TOKENS, "input": X, "out": OUT, "activation": SILU},
        {"input": NARROW, "activation": CLAMPED},
    ),
    "add_scale": ({**TOKENS, "input": X, "out": OUT, "factor": 2.0}, {"out": NARROW}),
    "add_affine": (
        {**TOKENS, "input": X, "out": OUT, "weight": 0, "bias": -1},
        {"weight": 1, "bias": 9, "input": NARROW},
    ),
    "add_scale_rows": (
        {**TOKENS, "input": X, "factor": ONE, "out": OUT, "activation": SILU},
        {"factor": NARROW, "activation": CLAMPED},
    ),
    "add_lerp": (
        {**TOKENS, "left": X, "right": Y, "out": OUT, "weight": 0},
        {"right": NARROW, "weight": 1},
    ),
    "add_blend": (
        {**TOKENS, "left": X, "right": Y, "share": X, "out": OUT},
        {"share": ONE},
    ),
    "add_concat": ({**TOKENS, "left": (0, 8), "right": NARROW, "out": OUT}, {"left": X}),
    "add_pick": ({**TOKENS, "input": X, "out": OUT, "order": 0}, {"order": 1, "input": ONE}),
    "add_head_dot": (
        {**TOKENS, "left": X, "right": Y, "value": X, "out": OUT, "weight": 0, "head_width": 8},
        {"value": NARROW, "head_width": 5, "weight": 1},
    ),
    "add_shift": ({"input": X, "out": OUT, "state": 128}, {"out": NARROW, "state": 129}),
    "add_conv": (
        CONV,
        {"num_taps": 1, "taps": 0, "bias": 1, "activation": CLAMPED, "state": 97, "out": NARROW},
    ),
    "add_scan": (
        SCAN,
        {"step": (32, 3), "b": (32, 7), "c": ONE, "a": 0, "d": 0, "step_bias": 0, "groups": 0,
         "is_by_state": True, "step_low": 2.0, "state": 17, "head_width": 4, "out": NARROW},
    ),
    "add_wkv4": (
        {"key": X, "value": Y, "out": OUT, "decay": 0, "first": 0, "state": 96},
        {"value": NARROW, "first": 1, "state": 97},
    ),
    "add_wkv7": (
        {**WKV7, "out": OUT, "head_width": 8, "state": 16},
        {"rate": NARROW, "head_width": 5, "state": 17},
    ),
    "add_delta": (
        {"query": X, "key": X, "value": Y, "step": (32, 2), "rate": (34, 2), "out": OUT, "a": 1,
         "step_bias": 1, "key_heads": 2, "is_tiled": True, "state": 16},
        {"query": NARROW, "value": NARROW, "step": ONE, "a": 0, "key_heads": 3, "state": 17},
    ),
}  # fmt: skip
WRONG = [(call, name) for call, (_, wrong) in CALLS.items() for name in wrong]


def program() -> native.Program:
    made = native.Program(
        isa="", num_threads=1, max_tokens=4, arena_columns=64, result_width=16, num_pages=0,
        page_bytes=0, num_slots=1, state_floats=144,
    )  # fmt: skip
    for width in (16, 2, 64):
        made.add_vector(np.ones(width, np.float32))
    return made


@pytest.mark.parametrize("call", CALLS)
def test_what_belongs_together_is_taken(call: str):
    getattr(program(), call)("x", **CALLS[call][0])


@pytest.mark.parametrize(("call", "name"), WRONG, ids=str)
def test_what_does_not_is_refused(call: str, name: str):
    right, wrong = CALLS[call]
    with pytest.raises(
        ValueError, match=r"differ|columns?|heads?|taps|lies|needs?|kind|vector|crossed|needed"
    ):
        getattr(program(), call)("x", **{**right, name: wrong[name]})
