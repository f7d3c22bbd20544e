"""Operations with a state: as the reference, and the same bits however a sequence is cut, in any
company, in any slot, with any number of threads, on each instruction set."""

from __future__ import annotations

import numpy as np
import pytest

from plans import VOCABULARY, Model, float_tensor, make_model
from pyrite._native.kernels import isa_names
from pyrite.backends.reference import ReferenceBackend
from pyrite.errors import UnsupportedError
from runners import prepare, token_ids
from stateful import MODELS, conv, delta, scan, wkv7
from steps import Part, make_batch, num_pages, sequence_logits

TOKENS = 70

# A state is a sum over tokens that fades, of values near one: roundings of float32 add up to few.
CLOSE = {"rtol": 1e-4, "atol": 1e-4}


@pytest.fixture(params=isa_names(), autouse=True)
def isa(request, monkeypatch) -> str:
    monkeypatch.setenv("PYRITE_ISA", request.param)
    return request.param


@pytest.fixture(params=MODELS.values(), ids=MODELS, scope="module")
def model(request) -> Model:
    return request.param()


def alone(model: Model, ids, chunk: int | None = None, threads: int = 1) -> np.ndarray:
    return sequence_logits(prepare(model, threads=threads), ids, chunk=chunk)


def test_as_the_reference(model: Model):
    expected = prepare(model, backend=ReferenceBackend())
    for count in (1, 2, 5, TOKENS):
        ids = token_ids(count)
        np.testing.assert_allclose(alone(model, ids), sequence_logits(expected, ids), **CLOSE)


@pytest.mark.parametrize("chunk", [1, 2, 7, 16, 33])
def test_chunks_give_the_same_bits(model: Model, chunk: int):
    ids = token_ids(TOKENS)
    whole = alone(model, ids)
    for threads in (1, 3):
        np.testing.assert_array_equal(alone(model, ids, chunk, threads), whole)


def test_company_gives_the_same_bits(model: Model):
    """Three sequences of their own lengths and cuts, in slots that are not their places."""
    texts = [token_ids(length, seed) for seed, length in enumerate((TOKENS, 40, 9))]
    expected = [alone(model, ids) for ids in texts]
    runner = prepare(model, tokens=320, threads=2, slots=4)
    runner.states[:] = np.nan  # what a fresh sequence finds in its slot is of no account
    found: list[list[np.ndarray]] = [[] for _ in texts]
    for cuts in ((30, 1, 0), (1, 20, 4), (39, 19, 5)):
        parts = [part_of(texts, found, index, cut) for index, cut in enumerate(cuts) if cut]
        logits = runner.run(make_batch([part for _, part in parts]))
        start = 0
        for index, part in parts:
            found[index].append(logits[start : start + len(part.ids)].copy())
            start += len(part.ids)
    for rows, whole in zip(found, expected, strict=True):
        np.testing.assert_array_equal(np.concatenate(rows), whole)


def part_of(texts, found, index: int, count: int) -> tuple[int, Part]:
    start = sum(len(rows) for rows in found[index])
    pages = [3 * index + page for page in range(num_pages(TOKENS))]
    return index, Part(texts[index][start : start + count], pages, start, slot=3 - index)


def test_a_state_that_was_copied_or_kept_continues(model: Model):
    ids = token_ids(TOKENS)
    whole = alone(model, ids)
    runner = prepare(model, slots=3)
    runner.run(make_batch([Part(ids[:41], [0, 1, 2], slot=0)]))
    kept = np.empty(runner.state_bytes, np.uint8)
    runner.read_state(0, kept)
    runner.copy_state(0, 2)
    runner.states[0] = np.nan
    for slot in (2, 1):
        runner.write_state(1, kept)
        rest = runner.run(make_batch([Part(ids[41:], [0, 1, 2], 41, slot=slot)]))
        np.testing.assert_array_equal(rest, whole[41:])


def test_slots_of_others_stay_as_they_are(model: Model):
    runner = prepare(model, slots=3)
    before = np.random.default_rng(1).standard_normal(runner.states.shape).astype(np.float32)
    runner.states[:] = before
    runner.run(make_batch([Part(token_ids(9), [0], slot=1)]))
    np.testing.assert_array_equal(runner.states[[0, 2]], before[[0, 2]])


def test_a_step_of_any_size():
    """softplus is e^x far below zero and x far above; a state that fades at once is no NaN."""
    heads = 64
    steps = np.linspace(-120, 120, VOCABULARY, dtype=np.float32)

    def build(b, x):
        inputs, outputs = (b.linear(x, name, 4) for name in ("in", "out"))
        return b.scan(x, b.scale(x, 1.5), inputs, outputs, a="a", d="d")

    model = make_model(build, heads)
    table = np.repeat(steps[:, None], heads, axis=1)
    a = float_tensor("a", np.full((heads, 4), -0.5, np.float32))
    model = Model(model.plan, {**model.weights, "a": a, "table": float_tensor("table", table)})
    expected = prepare(model, backend=ReferenceBackend())
    for token in range(VOCABULARY):
        found, right = (sequence_logits(r, [token, token]) for r in (prepare(model), expected))
        np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-6)


REFUSED = {
    "17 tokens": lambda: conv(16, 17, "silu"),
    "a head of 264 columns": lambda: wkv7(1, 264),
    "values of 264 columns": lambda: delta(1, 264, 1, 8),
    "keys of 264 columns": lambda: delta(1, 8, 1, 264),
}


@pytest.mark.parametrize("build", REFUSED.values(), ids=REFUSED)
def test_what_kernels_cannot_hold_is_refused(build):
    with pytest.raises(UnsupportedError, match=r"17 tokens|264 columns"):
        prepare(build())


def test_a_sequence_without_tokens_keeps_its_state():
    model = scan(2, 16, 8)
    ids = token_ids(12)
    runner = prepare(model, slots=2)
    first = runner.run(make_batch([Part(ids[:5], [0], slot=0)])).copy()
    runner.run(make_batch([Part([], [0], 5, slot=0), Part(ids[:3], [1], slot=1)]))
    rest = runner.run(make_batch([Part(ids[5:], [0], 5, slot=0)]))
    np.testing.assert_array_equal(np.concatenate([first, rest]), alone(model, ids))
