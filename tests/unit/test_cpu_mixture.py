"""Products by heads and mixtures of experts on the CPU backend, against their meaning in NumPy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from plans import VOCABULARY, Model, float_tensor, make_model
from pyrite._native import program as native
from pyrite._native.kernels import isa_names, packed_panel_bytes
from pyrite.backends.cpu import CpuBackend
from pyrite.backends.reference import ReferenceBackend
from pyrite.formats.checkpoint import Tensor
from pyrite.graph.fuse import PASSES
from pyrite.graph.ops import Routing
from pyrite.graph.values import View
from pyrite.quant.formats import EXECUTED
from runners import assert_as_reference, prepare, token_ids
from steps import Part, make_batch, sequence_logits
from stored_types import stored_tensors

# Float32 sums of up to 300 terms near one, in another order; twice, for a mixture.
CLOSE = {"rtol": 5e-5, "atol": 5e-5}
ROWS = (1, 2, 3, 65, 300)


def assert_same_bits(model: Model, precision: str = "default") -> None:
    """Alone, in company, in chunks, and whatever the number of threads."""
    ids = token_ids(150)
    whole = sequence_logits(prepare(model, threads=1, precision=precision), ids)
    for threads in (1, 2, 3, 5):
        runner = prepare(model, threads=threads, precision=precision)
        for chunk in (1, 2, 7, 64, 150):
            found = sequence_logits(runner, ids, chunk=chunk)
            np.testing.assert_array_equal(found, whole, f"{threads} threads, chunks of {chunk}")
        parts = [Part(token_ids(90, 5), [5, 6, 7]), Part(ids[:3], [0], 0)]
        np.testing.assert_array_equal(runner.run(make_batch(parts))[90:], whole[:3])


# --- products by heads ----------------------------------------------------------------------------

HEADS = ((1, 16, 16, 0), (3, 24, 40, 0), (5, 40, 33, 8), (16, 32, 8, 4), (128, 8, 16, 0))


def head_model(heads: int, inputs: int, width: int, carried: int, seed: int = 0) -> Model:
    def build(b, x):
        return b.head_linear(x, "w", heads=heads, inputs=inputs, width=width, carried=carried)

    return make_model(build, heads * (inputs + carried), seed=seed)


@pytest.mark.parametrize("shape", HEADS, ids=str)
def test_head_linear(shape):
    assert_as_reference(head_model(*shape), rows=ROWS, **CLOSE)


@pytest.mark.parametrize("shape", HEADS[1:4], ids=str)
@pytest.mark.parametrize("precision", ["default", "fast"])
def test_head_linear_gives_the_same_bits(shape, precision: str):
    assert_same_bits(head_model(*shape), precision)


# --- mixtures -------------------------------------------------------------------------------------

ROUTINGS = {
    "softmax": Routing(2),
    "one": Routing(1),
    "all": Routing(6),
    "shares as they are": Routing(3, is_normalized=False),
    "scaled": Routing(2, scale=2.5, eps=1e-20),
    "sigmoid": Routing(2, shares="sigmoid", is_normalized=False),
    "bias": Routing(2, shares="sigmoid", bias="bias", eps=1e-20, scale=1.5),
    "groups": Routing(2, groups=3, used_groups=1),
    "groups by two": Routing(
        3, shares="sigmoid", bias="bias", groups=2, used_groups=1, group_score="top2"
    ),
    "groups of one": Routing(2, groups=6, used_groups=3, group_score="top2"),
}


def mixture_model(
    routing: Routing,
    *,
    experts: int = 6,
    width: int = 40,
    feed_forward: int = 96,
    activation="silu",
    has_gate: bool = True,
    has_biases: bool = False,
    passes=(),
) -> Model:

    def build(b, x):
        scores = b.linear(x, "router", experts)
        names = ("gate" if has_gate else None, "up", "down")
        biases = tuple(name and f"{name}_bias" if has_biases else None for name in names)
        return b.experts(
            x, scores, routing, names, feed_forward=feed_forward, activation=activation,
            biases=biases,
        )  # fmt: skip

    return make_model(build, width, passes=passes)


@pytest.mark.parametrize("routing", ROUTINGS.values(), ids=ROUTINGS)
def test_routings(routing: Routing):
    assert_as_reference(mixture_model(routing), rows=ROWS, **CLOSE)


@pytest.mark.parametrize("isa", isa_names())
@pytest.mark.parametrize("shape", [(5, 64, 96), (1, 8, 8), (3, 300, 17), (20, 16, 40)], ids=str)
def test_experts_of_odd_sizes(shape, isa: str, monkeypatch):
    monkeypatch.setenv("PYRITE_ISA", isa)
    experts, width, feed_forward = shape
    for num_used in {1, min(3, experts), experts}:
        model = mixture_model(
            Routing(num_used), experts=experts, width=width, feed_forward=feed_forward
        )
        assert_as_reference(model, rows=ROWS, **CLOSE)


@pytest.mark.parametrize("activation", ["silu", "gelu_tanh", "clamped_swiglu"])
def test_experts_with_biases(activation):
    assert_as_reference(
        mixture_model(Routing(2), activation=activation, has_biases=True), rows=ROWS, **CLOSE
    )


@pytest.mark.parametrize("activation", ["silu", "relu_squared"])
def test_experts_without_gate(activation):
    for has_biases in (False, True):
        model = mixture_model(
            Routing(2), activation=activation, has_gate=False, has_biases=has_biases
        )
        assert_as_reference(model, rows=ROWS, **CLOSE)


@pytest.mark.parametrize("routing", ["softmax", "groups by two", "all"])
@pytest.mark.parametrize("precision", ["default", "fast"])
def test_a_mixture_gives_the_same_bits(routing: str, precision: str):
    assert_same_bits(mixture_model(ROUTINGS[routing], has_biases=True), precision)


def test_rows_that_all_choose_the_same_experts():
    model = mixture_model(Routing(2), experts=9)
    router = np.zeros((9, 40), np.float32)  # every score is 0: the first two are taken
    model = Model(model.plan, {**model.weights, "router": float_tensor("router", router)})
    assert_as_reference(model, rows=ROWS, **CLOSE)
    assert_same_bits(model)


def test_a_mixture_of_wanted_rows_beside_shared_experts():
    """As models have it: a residual, a shared expert, and selection before the last layer's end."""

    def build(b, x):
        x = b.attention(x, x, x, head_width=8, scale=0.3)
        mixed = b.experts(
            x, b.linear(x, "router", 7), Routing(3), ("gate", "up", "down"), feed_forward=24,
            activation="silu",
        )  # fmt: skip
        shared = b.linear(
            b.gate(b.linear(x, "s_gate", 32), b.linear(x, "s_up", 32), "silu"), "s_down", 48
        )
        return b.linear(b.select_rows(b.add(b.add(x, mixed), shared)), "head", 70)

    model = make_model(build, 48, passes=PASSES)
    mixture_op = next(op for op in model.plan.ops if type(op).__name__ == "Experts")
    assert model.plan.values[mixture_op.output].rows == "outputs"
    expected, runner = prepare(model, backend=ReferenceBackend()), prepare(model)
    for wanted in ([39], [0, 7, 39], list(range(40)), []):
        batch = make_batch([Part(token_ids(40), [0, 1], 0, wanted)])
        np.testing.assert_allclose(runner.run(batch), expected.run(batch), rtol=0, atol=2e-3)


# --- routing alone --------------------------------------------------------------------------------

UNUSUAL = {
    "equal": np.zeros(6),
    "pairs of equals": np.array([1, 2, 2, 1, 2, 1]),
    "saturated": np.array([50, 60, 70, 80, -50, -200]),
    "far apart": np.array([-1e30, 1e30, 0, 1, 2, 3]),
    "infinite": np.array([0, -np.inf, 1, -np.inf, 2, 3]),
    "negative infinity alone": np.full(6, -np.inf),
    "positive infinity": np.array([0, np.inf, 1, 2, 3, 4]),
    "not a number": np.array([0, 1, np.nan, 2, 3, 4]),
}


@pytest.mark.usefixtures("any_weights")
@pytest.mark.filterwarnings("ignore:.*encountered in")
@pytest.mark.parametrize("scores", UNUSUAL.values(), ids=UNUSUAL)
@pytest.mark.parametrize("routing", ROUTINGS.values(), ids=ROUTINGS)
def test_scores_of_any_kind(routing: Routing, scores):
    """Expert e gives column e alone, so that the sum is the weight of each."""

    def build(b, x):
        ones, scores = View(x.value, 8, 8), View(x.value, 0, 6)
        names = (None, "up", "down")
        return b.experts(ones, scores, routing, names, feed_forward=8, activation="relu")

    model = make_model(build, 16)
    table = np.ones((VOCABULARY, 16), np.float32)
    table[:, :6] = scores
    down = np.zeros((6, 8, 8), np.float32)
    down[np.arange(6), np.arange(6), 0] = 1
    given = {"table": table, "up": np.tile(np.eye(8), (6, 1, 1)), "down": down}
    tensors = {name: float_tensor(name, value) for name, value in given.items()}
    model = Model(model.plan, {**model.weights, **tensors})
    assert_as_reference(model, rows=(1, 3), rtol=2e-6, atol=1e-30)


@pytest.mark.filterwarnings("ignore:.*encountered in")
@pytest.mark.usefixtures("any_weights")
@pytest.mark.parametrize("backend", [ReferenceBackend, CpuBackend])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", ["table", "bias"])
def test_an_expert_that_is_not_finite_is_not_just_left_out(backend, value: float, place: str):
    """Sigmoids hide infinite scores, and what is no number ranks last."""

    def build(b, x):
        inner, scores = View(x.value, 8, 8), View(x.value, 0, 6)
        names = (None, "up", "down")
        return b.experts(inner, scores, ROUTINGS["bias"], names, feed_forward=8, activation="relu")

    model = make_model(build, 16)
    values = {"table": np.ones((VOCABULARY, 16), np.float32), "bias": np.ones(6, np.float32)}
    values[place][..., 3] = value
    tensors = {name: float_tensor(name, one) for name, one in values.items()}
    model = Model(model.plan, {**model.weights, **tensors})
    assert np.isnan(sequence_logits(prepare(model, backend=backend()), token_ids(3))).all()


# --- weight types ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stored(golden: Path) -> dict[str, Tensor]:
    return {
        name: Tensor(name, kind, shape, data)
        for name, (data, kind, shape) in stored_tensors(golden).items()
    }


def stack_of(tensor: Tensor, name: str, shape: tuple[int, int, int], step: int) -> Tensor:
    """A stack whose rows are the tensor's, in an order of their own."""
    count, rows, columns = shape
    picked = np.arange(count * rows) * step % tensor.num_rows
    data = tensor.read().reshape(tensor.num_rows, -1)[picked]
    assert tensor.shape[-1] == columns
    return Tensor(name, tensor.type, shape, np.ascontiguousarray(data).reshape(-1))


@pytest.mark.parametrize("precision", ["default", "fast"])
@pytest.mark.parametrize("kind", sorted(EXECUTED))
def test_every_weight_type(stored, kind: str, precision: str):
    """Activations have at least 15 bits, or 8 of a block's largest; the middle is rounded again."""
    source = stored[kind]
    width = source.shape[-1]
    model = mixture_model(Routing(2), experts=3, width=width, feed_forward=width)
    stacks = {"gate": 1, "up": 3, "down": 7}
    tensors = {n: stack_of(source, n, (3, width, width), step) for n, step in stacks.items()}
    model = Model(model.plan, {**model.weights, **tensors})
    expected = prepare(model, backend=ReferenceBackend())
    runner = prepare(model, precision=precision)
    for count in (1, 40):
        wanted = sequence_logits(expected, token_ids(count))
        found = sequence_logits(runner, token_ids(count))
        limit = np.abs(wanted).max() * (1e-3 if precision == "default" else 0.1)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=limit)


@pytest.mark.parametrize("kind", ["BF16", "Q4_0", "Q8_0", "Q4_K", "Q6_K"])
def test_head_linear_of_quantised_heads(stored, kind: str):
    source = stored[kind]
    width = source.shape[-1]
    model = head_model(3, width, 40, 8)
    stack = stack_of(source, "w", (3, 40, width), 1)
    model = Model(model.plan, {**model.weights, "w": stack})
    expected, runner = prepare(model, backend=ReferenceBackend()), prepare(model)
    for count in (1, 5, 70):
        wanted = sequence_logits(expected, token_ids(count))
        found = sequence_logits(runner, token_ids(count))
        np.testing.assert_allclose(found, wanted, rtol=0, atol=np.abs(wanted).max() * 1e-3)


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_used": 7}, "1 to all experts"),
        ({"num_used": 0}, "1 to all experts"),
        ({"groups": 4}, "uneven"),
        ({"groups": 3, "used_groups": 4}, "1 to all groups"),
    ],
)
def test_routings_that_cannot_be_are_refused(change, message: str):
    with pytest.raises(ValueError, match=message):
        prepare(mixture_model(replace(Routing(2), **change)))


def test_stacks_are_no_matrices():
    program = native.Program(
        isa="", num_threads=1, max_tokens=4, arena_columns=64, result_width=16, num_pages=0,
        page_bytes=0,
    )  # fmt: skip
    data = aligned(2 * packed_panel_bytes("F32", 8))
    stack = program.add_matrix("F32", 2, 16, 8, data)
    with pytest.raises(ValueError, match="stack stands where a matrix"):
        program.add_embed("x", table=stack, scale=1.0, out=(0, 8))
    with pytest.raises(ValueError, match="another number"):
        program.add_head_linear(
            "x", rows=native.Rows.TOKENS, input=(0, 24), out=(0, 48), weight=stack, heads=3,
            carried=0, planes=2,
        )  # fmt: skip
    with pytest.raises(ValueError, match="too short"):
        program.add_matrix("F32", 3, 16, 8, data)


def aligned(size: int) -> np.ndarray:
    buffer = np.zeros(size + 64, np.uint8)
    start = -buffer.ctypes.data % 64
    return buffer[start : start + size]
