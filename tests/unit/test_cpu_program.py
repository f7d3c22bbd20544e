"""Operations of the CPU backend against their meaning in NumPy, over odd sizes and every tiling."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest

from plans import VOCABULARY, Model, float_tensor, make_model
from pyrite._native import program as native
from pyrite._native.kernels import isa_names
from pyrite.backends.cpu import CpuBackend
from pyrite.backends.reference import ReferenceBackend
from pyrite.errors import BackendError, UnsupportedError
from pyrite.graph.fuse import PASSES
from pyrite.graph.values import Norm, Rope, View
from pyrite.nodes import Node
from runners import assert_as_reference, prepare, token_ids
from steps import Part, make_batch, sequence_logits


@pytest.mark.parametrize("width", [8, 16, 40, 300])
def test_embed(width: int):
    assert_as_reference(make_model(lambda b, x: x, width))


@pytest.mark.parametrize(("width", "group"), [(8, 0), (16, 0), (300, 0), (96, 24), (512, 128)])
def test_norm(width: int, group: int):
    norm = Norm("norm", 1e-5)
    assert_as_reference(make_model(lambda b, x: b.norm(x, norm, group), width))


@pytest.mark.parametrize("activation", ["silu", "gelu_tanh"])
def test_gate(activation):
    def build(b, x):
        return b.gate(b.linear(x, "gate", 72), b.linear(x, "up", 72), activation)

    assert_as_reference(make_model(build, 40))
    assert_as_reference(make_model(build, 40, passes=PASSES))


def test_activations_far_from_zero():
    """Where exponentials overflow a gate is 0 or the value itself, never NaN."""
    values = np.linspace(-200, 200, VOCABULARY * 16, dtype=np.float32).reshape(VOCABULARY, 16)
    for activation in ("silu", "gelu_tanh"):
        model = make_model(lambda b, x, a=activation: b.gate(x, b.add(x, x), a), 16)
        model = Model(model.plan, {"table": float_tensor("table", values)})
        with np.errstate(over="ignore"):
            assert_as_reference(model, rows=(VOCABULARY,), rtol=1e-5, atol=1e-5)


def test_softcap():
    assert_as_reference(make_model(lambda b, x: b.softcap(x, 2.5), 40))


def test_select_rows():
    model = make_model(lambda b, x: b.add(b.select_rows(x), b.select_rows(x)), 24)
    expected = prepare(model, backend=ReferenceBackend())
    batch = make_batch([Part(token_ids(40), [0, 1], 0, [0, 7, 39])])
    np.testing.assert_array_equal(prepare(model).run(batch), expected.run(batch))


@pytest.mark.parametrize("layout", ["halves", "pairs"])
@pytest.mark.parametrize(("head_width", "turned"), [(16, 16), (24, 24), (64, 32), (128, 96)])
def test_rotate(layout, head_width: int, turned: int):
    rope = Rope(10000.0, turned, layout)
    model = make_model(lambda b, x: b.rotate(x, head_width, rope), 3 * head_width)
    assert_as_reference(model, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("width", "outputs"), [(32, 16), (64, 1), (96, 33), (288, 300)])
def test_linear(width: int, outputs: int):
    assert_as_reference(make_model(lambda b, x: b.linear(x, "w", outputs, "bias"), width))


def test_fused_linear():
    """Norm, several weights with and without bias, residual and cap in one operation."""

    def build(b, x):
        y = b.norm(x, Norm("norm", 1e-6))
        q, k = b.linear(y, "q", 64, "q_bias"), b.linear(y, "k", 48)
        return b.softcap(b.add(b.linear(q, "o", 96), b.add(x, b.linear(k, "k_o", 96))), 3.0)

    plain, fused = make_model(build, 96), make_model(build, 96, passes=PASSES)
    assert len(fused.plan.ops) < len(plain.plan.ops)
    assert_as_reference(plain)
    assert_as_reference(fused)


def test_norm_with_residual_in_place():
    def build(b, x):
        y = b.add(x, b.norm(b.linear(x, "a", 64), Norm("norm", 1e-6)))
        return b.add(y, b.norm(b.linear(y, "c", 64), Norm("other", 1e-6)))

    assert_as_reference(make_model(build, 64, passes=PASSES))


# heads, key heads, head width (or those of keys and of values), window, cap, and whether with sinks
SHAPES = (
    (1, 1, 8, 0, 0.0),
    (4, 2, 16, 0, 0.0),
    (9, 3, 64, 0, 0.0),
    (6, 1, 24, 7, 0.0),
    (4, 4, 40, 33, 2.0),
    (4, 1, 256, 40, 0.0),
    (7, 1, 128, 0, 1.5),
    (70, 1, 8, 0, 0.0),
    (4, 2, (24, 16), 0, 0.0),
    (3, 1, (8, 40), 33, 2.0),
    (4, 4, (192, 128), 0, 0.0),
    (150, 1, (8, 24), 0, 0.0),
    (8, 2, 64, 128, 0.0, True),
    (1, 1, 8, 0, 0.0, True),
    (80, 1, (16, 8), 5, 3.0, True),
)


def attention_model(
    heads, key_heads, widths, window, softcap, has_sinks=False, passes=PASSES
) -> Model:
    width, value_width = widths if isinstance(widths, tuple) else (widths, widths)
    rope = Rope(100.0, width, "halves")

    def build(b, x):
        q = b.linear(x, "q", heads * width)
        k, v = b.linear(x, "k", key_heads * width), b.linear(x, "v", key_heads * value_width)
        q = b.norm(q, Norm("q_norm", 1e-6), group=width)
        k = b.norm(k, Norm("k_norm", 1e-6), group=width)
        return b.attention(
            b.rotate(q, width, rope), b.rotate(k, width, rope), v,
            head_width=width, scale=width**-0.5, window=window, softcap=softcap,
            sinks="sinks" if has_sinks else None,
        )  # fmt: skip

    return make_model(build, 32, passes=passes)


LATENT = 72  # columns of the one key, the first of them the value
IN_KEYS = ((3, 64), (16, 40), (100, 72))  # heads, columns of a value


def latent_model(heads: int, width: int, window: int = 0, beside: bool = False) -> Model:
    """`beside`: values are kept beside the keys all the same."""

    def build(b, x):
        key = b.norm(b.linear(x, "k", LATENT), Norm("k_norm", 1e-6))
        value = View(key.value, 0, width) if beside else None
        query = b.linear(x, "q", heads * LATENT)
        return b.attention(
            query, key, value, head_width=LATENT, scale=0.2, window=window, value_width=width
        )

    return make_model(build, 32, passes=PASSES)


@pytest.mark.parametrize("kv_type", ["f16", "q8"])
@pytest.mark.parametrize(("heads", "width"), IN_KEYS)
@pytest.mark.parametrize("isa", isa_names())
def test_values_in_the_keys(
    half_pages, isa: str, heads: int, width: int, kv_type: str, monkeypatch
):
    """Normed columns reach 3, where float16 goes in steps of 2^-9."""
    monkeypatch.setenv("PYRITE_ISA", isa)
    close = 2e-3 if kv_type == "f16" else 0.03
    model = latent_model(heads, width)
    assert_as_reference(model, rows=(1, 3, 33, 150), kv_type=kv_type, rtol=0, atol=close)


@pytest.mark.parametrize(("heads", "width"), IN_KEYS)
@pytest.mark.parametrize("isa", isa_names())
def test_values_in_the_keys_are_those_beside_them(isa: str, heads: int, width: int, monkeypatch):
    """Float16 of the same number is the same wherever it is kept."""
    monkeypatch.setenv("PYRITE_ISA", isa)
    once, twice = (prepare(latent_model(heads, width, beside=beside)) for beside in (False, True))
    ids = token_ids(150)
    np.testing.assert_array_equal(sequence_logits(once, ids), sequence_logits(twice, ids))
    assert once.page_bytes == 32 * 2 * LATENT
    assert twice.page_bytes == 32 * 2 * (LATENT + -(-width // 16) * 16)


@pytest.mark.parametrize(("heads", "width"), IN_KEYS)
@pytest.mark.parametrize("chunk", [1, 7, 50])
@pytest.mark.parametrize("kv_type", ["f16", "q8"])
def test_values_in_the_keys_in_chunks(heads: int, width: int, chunk: int, kv_type: str):
    model, ids = latent_model(heads, width, window=90), token_ids(150)
    whole = sequence_logits(prepare(model, threads=1, kv_type=kv_type), ids)
    for threads in (1, 2, 3):
        runner = prepare(model, threads=threads, kv_type=kv_type)
        np.testing.assert_array_equal(sequence_logits(runner, ids, chunk=chunk), whole)


@pytest.mark.usefixtures("any_weights")
def test_sinks_of_any_size():
    """One far above the scores takes all of the softmax, one far below nothing."""
    model = attention_model(3, 1, 16, 0, 0.0, True)
    plain = attention_model(3, 1, 16, 0, 0.0)
    sinks = float_tensor("sinks", np.array([-300, 300, np.nan], np.float32))
    ids = token_ids(40)
    found = sequence_logits(prepare(Model(model.plan, {**model.weights, "sinks": sinks})), ids)
    expected = sequence_logits(prepare(Model(plain.plan, model.weights)), ids)
    np.testing.assert_array_equal(found[:, :16], expected[:, :16])
    assert (np.abs(found[:, 16:32]) < 1e-30).all()
    assert np.isnan(found[:, 32:]).all()


@pytest.mark.usefixtures("any_weights")
@pytest.mark.parametrize("isa", isa_names())
def test_sinks_hide_no_scores_that_are_no_numbers(monkeypatch, isa: str):
    """Of all keys alike: a sink would be all that there is of the softmax."""
    monkeypatch.setenv("PYRITE_ISA", isa)
    model = attention_model(3, 1, 16, 0, 0.0, True)
    table = np.full((VOCABULARY, 32), np.nan, np.float32)
    model = Model(model.plan, {**model.weights, "table": float_tensor("table", table)})
    assert np.isnan(sequence_logits(prepare(model), token_ids(300))).all()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_attention(half_pages, shape):
    """Weights sum to one and values are near one; float16 may round a key or value the other way
    where float32 sums differ in the last bit, which moves a result by up to 2^-11 of a value."""
    model = attention_model(*shape)
    assert_as_reference(model, rows=(1, 3, 32, 33, 150), rtol=0, atol=1e-3)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("isa", isa_names())
def test_attention_over_eight_bits(shape, isa: str, monkeypatch):
    """Now and then a column is rounded the other way, by 1/127 of the largest one beside it: that
    moves a value by 0.03 at most, and the mean of many by less."""
    monkeypatch.setenv("PYRITE_ISA", isa)
    model = attention_model(*shape)
    assert_as_reference(model, rows=(1, 3, 32, 33, 150), kv_type="q8", rtol=0, atol=0.03)
    expected = prepare(model, backend=ReferenceBackend(), kv_type="q8")
    difference = sequence_logits(prepare(model, kv_type="q8"), token_ids(150)) - sequence_logits(
        expected, token_ids(150)
    )
    assert np.sqrt(np.mean(difference**2)) < 1e-3


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("chunk", [1, 7, 32, 50])
@pytest.mark.parametrize("kv_type", ["f16", "q8"])
def test_attention_in_chunks_gives_the_same_bits(shape, chunk: int, kv_type: str):
    model, ids = attention_model(*shape), token_ids(150)
    whole = sequence_logits(prepare(model, threads=1, kv_type=kv_type), ids)
    for threads in (1, 2, 3):
        runner = prepare(model, threads=threads, kv_type=kv_type)
        np.testing.assert_array_equal(sequence_logits(runner, ids, chunk=chunk), whole)


@pytest.mark.parametrize("shape", SHAPES[:4], ids=str)
def test_unfused_attention(shape):
    ids = token_ids(70)
    plain, fused = (attention_model(*shape, passes=passes) for passes in ((), PASSES))
    np.testing.assert_allclose(
        sequence_logits(prepare(plain), ids), sequence_logits(prepare(fused), ids), atol=1e-3
    )


@pytest.mark.parametrize("kv_type", ["f16", "q8"])
def test_memory_that_holds_nothing_is_never_read(kv_type: str):
    """Pages and slots that no token wrote hold NaN, and a table has -1 where nothing is seen."""
    model, ids = attention_model(4, 2, 16, 40, 0.0), token_ids(150)
    expected = sequence_logits(prepare(model, kv_type=kv_type), ids)
    runner = prepare(model, kv_type=kv_type)
    runner.pages[:] = 0xFF  # NaN in 16 and in 32 bits
    parts = [Part(ids[:100], [3, 1, 4, 2]), Part(ids[100:], [-1, 1, 4, 2, 0], 100)]
    found = [runner.run(make_batch([part])).copy() for part in parts]
    np.testing.assert_array_equal(np.concatenate(found), expected)


def test_copied_page_continues_as_the_original():
    model, ids = attention_model(4, 2, 16, 0, 0.0), token_ids(60)
    runner = prepare(model)
    expected = sequence_logits(runner, ids)[40:]
    sequence_logits(runner, ids[:40], pages=[2, 3])
    runner.copy_page(3, 5)
    runner.pages[3] = 0xFF
    np.testing.assert_array_equal(runner.run(make_batch([Part(ids[40:], [2, 5], 40)])), expected)


@pytest.mark.usefixtures("any_weights")
@pytest.mark.parametrize("backend", [CpuBackend(), ReferenceBackend()])
@pytest.mark.parametrize("isa", isa_names())
@pytest.mark.parametrize("scale", [1e-34, 1e-20, 1.0, 1e20, np.inf, np.nan])
def test_eight_bits_of_any_size(backend, isa: str, scale: float, monkeypatch):
    """Values scale the result, down to where they count as zeros; what is no number stays so, and
    other sequences do not see it."""
    monkeypatch.setenv("PYRITE_ISA", isa)
    model = make_model(
        lambda b, x: b.attention(x, x, b.linear(x, "v", 16), head_width=16, scale=0.0), 16
    )
    plain = np.diag(np.full(16, scale, np.float32))
    weights = {**model.weights, "v": float_tensor("v", plain)}
    ids = token_ids(5)
    runner = prepare(Model(model.plan, weights), backend=backend, kv_type="q8")
    found = runner.run(make_batch([Part(ids, [0]), Part(ids[:1], [1])]))
    table = model.weights["table"].data.view(np.float32).reshape(VOCABULARY, 16)
    means = np.cumsum(table[ids], axis=0) / np.arange(1, 6)[:, None]
    if scale == 1e-34:
        assert (found == 0).all()
    elif np.isfinite(scale):
        np.testing.assert_allclose(found[:5] / np.float32(scale), means, atol=0.02)
    else:
        assert np.isnan(found).all()


@pytest.mark.usefixtures("any_weights")
def test_rows_with_nan_or_infinity_are_reported():
    model = make_model(lambda b, x: b.linear(x, "w", 40), 32)
    table = model.weights["table"].data.view(np.float32).reshape(VOCABULARY, 32).copy()
    table[3, 5], table[4, 31] = np.nan, np.inf
    model = Model(model.plan, {**model.weights, "table": float_tensor("table", table)})
    runner = prepare(model)
    runner.run(make_batch([Part([1, 3, 2, 4, 5], [0])]))
    assert runner.broken_outputs() == [1, 3]
    runner.run(make_batch([Part([1, 2], [0])]))
    assert runner.broken_outputs() == []


def test_threads_bound_to_nodes_change_nothing():
    """Two nodes of one processor each, as the mask allows: one that has both stands for both."""
    allowed = sorted(os.sched_getaffinity(0))
    nodes = [Node(0, frozenset(allowed[:1])), Node(0, frozenset(allowed[-1:]))]
    model = attention_model(4, 2, 16, 0, 0.0)
    ids = token_ids(40)
    bound = sequence_logits(prepare(model, backend=CpuBackend(nodes=nodes)), ids)
    assert np.array_equal(sequence_logits(prepare(model), ids), bound)
    assert sorted(os.sched_getaffinity(0)) == allowed


def test_profile_names_each_phase():
    runner = prepare(attention_model(4, 2, 16, 0, 0.0))
    runner.run(make_batch([Part(token_ids(5), [0])]))
    assert all(spent == 0 for _, spent in runner.phase_times())
    runner.profile(True)
    runner.run(make_batch([Part(token_ids(5), [0])]))
    times = dict(runner.phase_times())
    assert any("Attention" in name and spent > 0 for name, spent in times.items())


WRONG = {
    "token": {"token_ids": [VOCABULARY]},
    "negative token": {"token_ids": [-1]},
    "position": {"positions": [32]},
    "page": {"page_tables": [[10]]},
    "no page": {"page_tables": [[-1]]},
    "sequences": {"sequence_starts": [0, 2]},
    "output": {"output_rows": [1]},
    "twice": {"output_rows": [0, 0]},
}


@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG)
def test_wrong_batches_are_refused(change):
    runner = prepare(attention_model(4, 2, 16, 0, 0.0))
    good = make_batch([Part([1], [0])])
    changed = {name: np.array(value, np.int32) for name, value in change.items()}
    with pytest.raises(BackendError):
        runner.run(replace(good, **changed))
    runner.run(good)


def test_heads_of_odd_width_are_refused():
    with pytest.raises(UnsupportedError, match="12 columns"):
        prepare(attention_model(1, 1, 12, 0, 0.0))


def test_unknown_instruction_set(monkeypatch):
    monkeypatch.setenv("PYRITE_ISA", "mmx")
    with pytest.raises(BackendError, match="mmx"):
        prepare(make_model(lambda b, x: x, 16))


def test_program_checks_what_it_is_given():
    program = native.Program(
        isa="", num_threads=1, max_tokens=4, arena_columns=64, result_width=16, num_pages=0,
        page_bytes=0,
    )  # fmt: skip
    with pytest.raises(ValueError, match="arena"):
        program.add_select("x", input=(60, 8), out=(0, 8))
    with pytest.raises(ValueError, match="no such matrix"):
        program.add_embed("x", table=0, scale=1.0, out=(0, 8))
