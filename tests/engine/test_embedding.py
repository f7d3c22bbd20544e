"""Embeddings: the model's hidden states, pooled, the same bits in any company."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import pyrite
from pyrite.config import Settings
from pyrite.embedding import Embedder, EmbeddingRequest, pooling_of
from pyrite.errors import BackendError, ContextLengthError, ParameterError
from pyrite.loading import Loaded, load_engine

WIDTH = 64


def load_tiny(folder: Path, cache: Path, **settings) -> Loaded:
    return load_engine(folder, Settings(context=256, cache=cache, threads=2, **settings))


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def llama(golden: Path) -> Path:
    return golden / "tiny" / "llama"


@pytest.fixture(scope="module")
def loaded(llama: Path, cache: Path) -> Loaded:
    return load_tiny(llama, cache, max_batch_tokens=48)


@pytest.fixture
def embedder(loaded: Loaded) -> Embedder:
    return Embedder(loaded)


def random_inputs(count: int, longest: int, seed: int = 0) -> list[list[int]]:
    random = np.random.default_rng(seed)
    sizes = random.integers(1, longest + 1, count)
    return [random.integers(0, 384, size).tolist() for size in sizes]


def drive(embedder: Embedder) -> dict[str, tuple[np.ndarray, ...]]:
    found = {}
    for _ in range(1000):
        if not embedder.has_work:
            break
        for one in embedder.step():
            assert one.error is None
            found[one.request_id] = one.vectors
    assert embedder._pages.num_free == embedder.runner.num_pages
    return found


@pytest.mark.parametrize(("backend", "tolerance"), [("reference", 3e-5), ("cpu", 6e-3)])
def test_states_are_those_of_the_golden_model(llama, cache, backend: str, tolerance: float):
    expected = np.load(llama / "expected.npz")
    ids, hidden = expected["ids_1"].tolist(), expected["hidden_1"][-1]
    embedder = Embedder(load_tiny(llama, cache, backend=backend))
    states = embedder.embed([ids], pooling="none", normalize=False)[0]
    worst = np.abs(states - hidden).max() / hidden.std()
    assert states.shape == hidden.shape == (37, WIDTH)
    assert worst < tolerance
    for pooling, wanted in [
        ("mean", states.mean(axis=0)),
        ("last", states[-1]),
        ("cls", states[0]),
    ]:
        (vector,) = embedder.embed([ids], pooling=pooling, normalize=False)
        np.testing.assert_allclose(vector, wanted, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("case", ["qwen2_tied_swa", "gemma3_text"])
def test_cpu_is_near_the_reference(golden: Path, cache, case: str):
    folder = golden / "tiny" / case
    inputs = [np.load(folder / "expected.npz")["ids_1"].tolist()]
    near, exact = (
        Embedder(load_tiny(folder, cache, backend=name)).embed(inputs)[0]
        for name in ("cpu", "reference")
    )
    assert float(near @ exact) > 0.9999


@pytest.mark.parametrize("pooling", ["mean", "last", "none"])
def test_vectors_do_not_depend_on_company(loaded: Loaded, embedder: Embedder, pooling: str):
    """A batch of 48 tokens cuts most texts somewhere; alone they begin at its start."""
    inputs = random_inputs(12, 200)
    together = embedder.embed(inputs, pooling=pooling)
    for ids, vector in zip(inputs, together, strict=True):
        np.testing.assert_array_equal(Embedder(loaded).embed([ids], pooling=pooling)[0], vector)


def test_batch_size_and_threads_change_no_bit(llama, cache, embedder: Embedder):
    inputs = random_inputs(4, 120, seed=1)
    whole = Embedder(load_tiny(llama, cache, max_batch_tokens=512)).embed(inputs)
    np.testing.assert_array_equal(np.stack(embedder.embed(inputs)), np.stack(whole))


def test_a_step_computes_one_batch_and_short_requests_pass(embedder: Embedder):
    sizes = []
    run = embedder.runner.run
    embedder.runner.run = lambda batch: (sizes.append(batch.num_tokens), run(batch))[1]
    embedder.add(EmbeddingRequest("long", tuple([(1,) * 100] * 3)))
    embedder.add(EmbeddingRequest("short", ((1, 2, 3),)))
    ended = []
    while embedder.has_work:
        ended += [one.request_id for one in embedder.step()]
    assert ended == ["short", "long"]
    assert max(sizes) <= 48
    assert sum(sizes) == 303


def test_a_step_is_as_small_as_it_is_asked_to_be(embedder: Embedder):
    inputs = random_inputs(9, 60)
    whole = embedder.embed(inputs)
    sizes = []
    run = embedder.runner.run
    embedder.runner.run = lambda batch: (sizes.append(batch.num_tokens), run(batch))[1]
    embedder.add(EmbeddingRequest("small", tuple(map(tuple, inputs))))
    ended = []
    while embedder.has_work:
        ended += embedder.step(7)
    embedder.runner.run = run
    assert max(sizes) == 7
    np.testing.assert_array_equal(np.stack(ended[0].vectors), np.stack(whole))


def test_a_stream_waits_for_a_small_step_alone(llama: Path, cache: Path):
    """As it would beside a long prompt."""
    model = pyrite.Model(load_tiny(llama, cache, prefill_chunk=7))
    sizes = []
    run = model._embedder.runner.run
    model._embedder.runner.run = lambda batch: (sizes.append(batch.num_tokens), run(batch))[1]
    with model, model.stream([1, 2, 3], max_tokens=50, temperature=0) as stream:
        next(stream)
        model.embed([[1] * 100])
        assert max(sizes) == 7
        list(stream)
        sizes.clear()
        model.embed([[1] * 100])
        assert sizes == [100]


def test_many_texts_of_one_token(embedder: Embedder):
    """Each takes a page: more than the pages there are wait for the next step."""
    embedder.add(EmbeddingRequest("many", tuple((i,) for i in range(200))))
    vectors = drive(embedder)["many"]
    assert len({vector.tobytes() for vector in vectors}) == 200


def test_length_and_dimensions(embedder: Embedder):
    inputs = random_inputs(3, 20)
    plain = np.stack(embedder.embed(inputs, normalize=False))
    unit = np.stack(embedder.embed(inputs))
    short = np.stack(embedder.embed(inputs, dimensions=10))
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(unit * np.linalg.norm(plain, axis=1)[:, None], plain, rtol=1e-5)
    assert short.shape == (3, 10)
    np.testing.assert_allclose(np.linalg.norm(short, axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(
        short[:, :1] / short[:, 1:2], plain[:, :1] / plain[:, 1:2], rtol=1e-4
    )


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (EmbeddingRequest("r", ()), ParameterError),
        (EmbeddingRequest("r", ((),)), ParameterError),
        (EmbeddingRequest("r", ((1,), (384,))), ParameterError),
        (EmbeddingRequest("r", ((1,),), pooling="max"), ParameterError),
        (EmbeddingRequest("r", ((1,),), dimensions=0), ParameterError),
        (EmbeddingRequest("r", ((1,),), dimensions=65), ParameterError),
        (EmbeddingRequest("r", ((1,) * 257,)), ContextLengthError),
    ],
)
def test_what_cannot_be_asked_is_refused_and_takes_nothing(embedder, request_, error):
    with pytest.raises(error):
        embedder.add(request_)
    assert not embedder.has_work
    embedder.embed([[1] * 256])


def test_a_request_is_cancelled_half_way(embedder: Embedder):
    embedder.add(EmbeddingRequest("gone", ((1,) * 100, (2,) * 100)))
    embedder.add(EmbeddingRequest("kept", ((3,) * 100,)))
    embedder.step()
    assert embedder.cancel("gone")
    assert not embedder.cancel("gone")
    assert drive(embedder).keys() == {"kept"}


def test_a_failing_text_fails_its_request_alone(embedder: Embedder):
    run = embedder.runner.run

    def fail(batch):
        if 7 in batch.token_ids:
            raise BackendError("seven")
        return run(batch)

    embedder.runner.run = fail
    embedder.add(EmbeddingRequest("bad", ((1, 2), (7,), (3,) * 100)))
    embedder.add(EmbeddingRequest("good", ((1, 2), (4,))))
    ended = {}
    while embedder.has_work:
        ended |= {one.request_id: one for one in embedder.step()}
    assert isinstance(ended["bad"].error, BackendError)
    assert ended["good"].error is None
    assert embedder._pages.num_free == embedder.runner.num_pages


def test_states_that_are_no_numbers_are_an_error(embedder: Embedder):
    run = embedder.runner.run
    embedder.runner.run = lambda batch: run(batch) * np.float32(np.nan)
    embedder.add(EmbeddingRequest("r", ((1, 2),)))
    (ended,) = embedder.step()
    assert isinstance(ended.error, BackendError)


def test_the_file_says_how_to_pool(loaded: Loaded):
    checkpoint = replace(loaded.checkpoint, architecture="llama")
    for kind, name in [(0, None), (1, "mean"), (2, "cls"), (3, "last"), (4, None), (None, None)]:
        metadata = {} if kind is None else {"llama.pooling_type": kind}
        assert pooling_of(replace(checkpoint, metadata=metadata)) == name


def test_weights_are_packed_once(llama: Path, tmp_path: Path):
    embedder = Embedder(load_tiny(llama, tmp_path))
    assert len(list((tmp_path / "packed").iterdir())) == 1
    embedder.embed([[1, 2, 3]])
    assert len(list((tmp_path / "packed").iterdir())) == 1


@pytest.fixture(scope="module")
def model(golden: Path) -> Iterator[pyrite.Model]:
    with pyrite.load(golden / "gguf_models" / "qwen2_q8_0.gguf", threads=1) as model:
        yield model


def test_the_door_for_python(model: pyrite.Model):
    texts = ["a b", "hello there", "hello  there"]
    vectors = model.embed(texts)
    assert vectors.dtype == np.float32
    assert vectors.shape[0] == 3
    np.testing.assert_array_equal(model.embed("a b"), vectors[0])
    np.testing.assert_array_equal(model.embed([model.tokenize("a b", bos=True)])[0], vectors[0])
    states = model.hidden_states("a b")
    np.testing.assert_array_equal(model.embed("a b", pooling="last", normalize=False), states[-1])
    with pytest.raises(ParameterError, match="hidden_states"):
        model.embed("a", pooling="none")
    with pytest.raises(ParameterError):
        model.embed([])


def test_embedding_beside_a_stream_changes_neither(model: pyrite.Model):
    alone = model.generate("hello", max_tokens=12, temperature=0, ignore_eos=True)
    vector = model.embed("some text")
    with model.stream("hello", max_tokens=12, temperature=0, ignore_eos=True) as stream:
        pieces = []
        for delta in stream:
            pieces.append(delta.text)
            np.testing.assert_array_equal(model.embed("some text"), vector)
    assert "".join(pieces) == alone.text


def test_a_closed_model_embeds_nothing(golden: Path):
    model = pyrite.load(golden / "gguf_models" / "qwen2_q8_0.gguf", threads=1)
    model.close()
    with pytest.raises(BackendError):
        model.embed("a")
