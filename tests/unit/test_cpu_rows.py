"""Operations over rows on each instruction set, against their meaning in NumPy, over odd widths."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from plans import VOCABULARY, Model, float_tensor, make_model
from pyrite._native.kernels import isa_names
from pyrite.errors import BackendError
from pyrite.graph.fuse import PASSES
from pyrite.graph.ops import Linear
from pyrite.graph.values import Activation, Norm, Rope, View
from runners import assert_as_reference, prepare, token_ids
from steps import Part, make_batch, sequence_logits

WIDTHS = (8, 24, 40, 300)
ACTIVATIONS = get_args(Activation)
ONE_SIDED = tuple(name for name in ACTIVATIONS if name != "clamped_swiglu")
ROWS = (1, 5, 65)
NORMS = {
    "rms": Norm("w", 1e-5),
    "rms without weight": Norm(None, 1e-5),
    "layer": Norm("w", 1e-5, kind="layer", bias="b"),
    "layer without bias": Norm("w", 1e-5, kind="layer"),
    "layer without weight": Norm(None, 1e-5, kind="layer"),
    "l2": Norm(None, 1e-6, kind="l2"),
    "l2 of what is short": Norm(None, 100.0, kind="l2"),
}


@pytest.fixture(params=isa_names(), autouse=True)
def isa(request, monkeypatch) -> str:
    monkeypatch.setenv("PYRITE_ISA", request.param)
    return request.param


@pytest.mark.parametrize("norm", NORMS.values(), ids=NORMS)
@pytest.mark.parametrize(("width", "group"), [(8, 0), (300, 0), (96, 24), (512, 128)])
def test_norms(norm: Norm, width: int, group: int):
    assert_as_reference(make_model(lambda b, x: b.norm(x, norm, group), width), rows=ROWS)


@pytest.mark.parametrize("kind", ["rms", "layer"])
def test_wide_norm(kind):
    norm = Norm("w", 1e-5, kind=kind, bias="b", is_wide=True)
    assert_as_reference(make_model(lambda b, x: b.norm(x, norm, 24), 96), rows=ROWS)


@pytest.mark.parametrize("norm", NORMS.values(), ids=NORMS)
def test_norm_fused_into_a_product(norm: Norm):
    def build(b, x):
        return b.add(b.linear(b.norm(x, norm), "p", 96), b.norm(x, Norm("other", 1e-5)))

    model = make_model(build, 96, passes=PASSES)
    assert any(isinstance(op, Linear) and op.norm for op in model.plan.ops)
    assert_as_reference(model, rows=ROWS)


def test_layer_norm_far_from_zero():
    """The mean is taken away before anything is squared."""
    model = make_model(
        lambda b, x: b.norm(b.affine(x, None, "far"), Norm(None, 1e-5, kind="layer")), 40
    )
    far = float_tensor("far", np.full(40, 1000, np.float32))
    # A column near 1000 is a multiple of 2^-14.
    assert_as_reference(Model(model.plan, {**model.weights, "far": far}), rows=ROWS, atol=2e-4)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("passes", [(), PASSES], ids=["plain", "fused"])
def test_gates(activation, passes):
    def build(b, x):
        return b.gate(b.linear(x, "gate", 72), b.linear(x, "up", 72), activation)

    assert_as_reference(make_model(build, 40, passes=passes), rows=ROWS)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations_anywhere(activation):
    """Also where exponentials overflow: never NaN. The error is that of a few roundings."""
    values = np.concatenate([np.linspace(-200, 200, 512), np.linspace(-8, 8, 512)])
    table = float_tensor("table", values.astype(np.float32).reshape(VOCABULARY, 16))

    def build(b, x):
        return b.gate(x, b.add(x, x), activation)

    plan = make_model(build, 16).plan
    with np.errstate(over="ignore"):
        assert_as_reference(Model(plan, {"table": table}), rows=(VOCABULARY,), rtol=2e-6, atol=3e-6)


@pytest.mark.parametrize("activation", ONE_SIDED)
@pytest.mark.parametrize("width", WIDTHS)
def test_activate(activation, width: int):
    assert_as_reference(make_model(lambda b, x: b.activate(x, activation), width), rows=ROWS)


def test_activations_keep_the_bits_of_small_values():
    """tanh x is x, gelu x is x / 2 for what is small."""
    values = np.geomspace(1e-30, 1e-3, VOCABULARY * 16).astype(np.float32)
    values[::2] *= -1
    table = float_tensor("table", values.reshape(VOCABULARY, 16))
    for activation in ("tanh", "gelu", "gelu_tanh", "silu"):
        model = make_model(lambda b, x, a=activation: b.activate(x, a), 16)
        model = Model(model.plan, {"table": table})
        assert_as_reference(model, rows=(VOCABULARY,), rtol=1e-6, atol=0)


@pytest.mark.usefixtures("any_weights")
def test_activations_show_what_is_no_number():
    table = np.full((VOCABULARY, 16), np.nan, np.float32)
    for activation in ACTIVATIONS:
        model = make_model(lambda b, x, a=activation: b.gate(x, x, a), 16)
        model = Model(model.plan, {"table": float_tensor("table", table)})
        assert np.isnan(sequence_logits(prepare(model), token_ids(3))).all()


@pytest.mark.parametrize("width", WIDTHS)
def test_pick(width: int):
    model = make_model(lambda b, x: b.pick(b.linear(x, "p", width), "order"), 16)
    order = np.random.default_rng(2).permutation(width).astype(np.float32)
    assert_as_reference(Model(model.plan, {**model.weights, "order": float_tensor("order", order)}))


BUILDS = {
    "scale": lambda b, x: b.scale(x, 0.3),
    "affine": lambda b, x: b.affine(x, "w", "b"),
    "affine by weight": lambda b, x: b.affine(x, "w"),
    "affine by bias": lambda b, x: b.affine(x, None, "b"),
    "affine by nothing": lambda b, x: b.affine(x, None),
    "scale rows": lambda b, x: b.scale_rows(x, b.linear(x, "p", 1), "sigmoid"),
    "scale rows as they are": lambda b, x: b.scale_rows(x, b.linear(x, "p", 1)),
    "lerp": lambda b, x: b.lerp(x, b.linear(x, "p", x.width), "w"),
    "blend": lambda b, x: b.blend(x, b.linear(x, "p", x.width), b.linear(x, "q", x.width)),
    "concat": lambda b, x: b.concat(b.linear(x, "p", 9), x),
    "parts": lambda b, x: b.concat(View(x.value, 3, 5), View(x.value, 1, 2)),
    "positions": lambda b, x: b.add(x, b.embed_positions("p", 80, x.width)),
    "softcap": lambda b, x: b.softcap(x, 2.5),
}


@pytest.mark.parametrize("build", BUILDS.values(), ids=BUILDS)
@pytest.mark.parametrize("width", WIDTHS)
def test_operations_over_rows(build, width: int):
    assert_as_reference(make_model(build, width), rows=ROWS)
    assert_as_reference(make_model(lambda b, x: build(b, build_again(b, x)), width), rows=ROWS)


def build_again(b, x):
    """Something between, so that operands die and the result lies where one was."""
    return b.add(x, b.linear(x, "before", x.width))


@pytest.mark.parametrize(("width", "head_width"), [(24, 8), (96, 16), (300, 100), (40, 40)])
def test_head_dot(width: int, head_width: int):
    def build(b, x):
        left, right = b.linear(x, "left", width), b.linear(x, "right", width)
        return b.head_dot(left, right, x, "w", head_width)

    assert_as_reference(make_model(build, width), rows=ROWS)


@pytest.mark.parametrize("layout", ["halves", "pairs"])
@pytest.mark.parametrize(
    ("head_width", "turned", "start"),
    [(16, 16, 0), (24, 24, 0), (64, 20, 0), (64, 32, 32), (96, 12, 40), (128, 96, 8)],
)
def test_rotate(layout, head_width: int, turned: int, start: int):
    rope = Rope(10000.0, turned, layout)
    model = make_model(lambda b, x: b.rotate(x, head_width, rope, start), 3 * head_width)
    assert_as_reference(model, rtol=1e-5, atol=1e-5)


RESULTS = {
    "scale": lambda b, x: b.scale(x, 0.5),
    "affine": lambda b, x: b.affine(x, "w", "b"),
    "softcap": lambda b, x: b.softcap(b.scale(x, 0.25), 30.0),
}


@pytest.mark.parametrize("build", RESULTS.values(), ids=RESULTS)
def test_logits_wider_than_one_chunk(build):
    """One row is cut by columns; the same bits with any number of threads."""
    model = make_model(lambda b, x: build(b, b.linear(x, "head", 20000)), 32)
    assert_as_reference(model, rows=(1, 3))
    alone, among = (sequence_logits(prepare(model, threads=n), token_ids(3)) for n in (1, 3))
    np.testing.assert_array_equal(alone, among)


@pytest.mark.usefixtures("any_weights")
@pytest.mark.parametrize("name", ["scale", "affine"])
def test_logits_that_are_no_numbers_are_reported(name):
    model = make_model(lambda b, x: RESULTS[name](b, b.linear(x, "head", 9000)), 32)
    table = model.weights["table"].data.view(np.float32).reshape(VOCABULARY, 32).copy()
    table[3, 5], table[4, 31] = np.nan, np.inf
    runner = prepare(Model(model.plan, {**model.weights, "table": float_tensor("table", table)}))
    runner.run(make_batch([Part([1, 3, 2, 4, 5], [0])]))
    assert runner.broken_outputs() == [1, 3]


def test_a_position_without_embedding_is_refused():
    model = make_model(BUILDS["positions"], 40)
    runner = prepare(model)
    runner.run(make_batch([Part(token_ids(10), [0, 1, 2], 70)]))
    with pytest.raises(BackendError, match="position"):
        runner.run(make_batch([Part(token_ids(11), [0, 1, 2], 70)]))
