"""Real weights: what is read from the cache is what would be computed, to the last bit.

The logits of every step are kept, and those of an engine with a cache, whatever the chunks, are
compared with those of one that has none. In a model whose layers all have windows, pages that were
given back hold NaN.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_poison import poison

import pyrite
from pyrite.backends.base import Batch
from pyrite.backends.cpu import CpuBackend
from pyrite.backends.reference import ReferenceBackend
from pyrite.engine import Engine
from pyrite.formats.checkpoint import Checkpoint, open_checkpoint
from pyrite.models.registry import as_model, build_plan
from pyrite.request import Request, Usage
from pyrite.sampling.params import SamplingParams
from pyrite.scheduler import Policy
from pyrite.text.ids_only import IdsOnly

VOCABULARY = 384  # of the tiny models


def ids(count: int, seed: int = 0) -> tuple[int, ...]:
    return tuple(np.random.default_rng(seed).integers(3, VOCABULARY - 4, count).tolist())


def answer(engine: Engine, prompt: tuple[int, ...], count: int = 6) -> tuple[Any, Usage]:
    """The logits of each step of a request that is alone, (count, vocabulary), and its usage."""
    run, rows = engine.runner.run, []

    def kept(batch: Batch) -> Any:
        logits = run(batch)
        rows.extend(logits.copy())
        return logits

    engine.runner.run = kept  # type: ignore[method-assign]
    params = SamplingParams(temperature=0, max_tokens=count, ignore_eos=True)
    engine.add(Request("a", prompt, params))
    deltas = []
    while engine.has_work:
        deltas += engine.step()
        engine.check()
    engine.runner.run = run  # type: ignore[method-assign]
    assert deltas[-1].usage is not None
    return np.array(rows), deltas[-1].usage


def chunks_of(engine: Engine, num_tokens: int) -> None:
    scheduler = engine.scheduler
    scheduler.policy = replace(scheduler.policy, max_batch_tokens=num_tokens)


def load(path: Path, **settings: Any) -> pyrite.Model:
    return pyrite.load(path, threads=1, speculation="off", kv_pages=60, **settings)


@pytest.fixture(scope="module")
def smollm2(smollm2_path: Path) -> Iterator[tuple[Engine, Engine]]:
    warm, cold = (load(smollm2_path, context=400, prefix_cache=is_on) for is_on in (True, False))
    with warm, cold:
        yield warm.loaded.engine, cold.loaded.engine


@pytest.mark.parametrize("length", [1, 31, 32, 33, 64, 96, 97])
def test_a_whole_prompt_of_smollm2_is_cached(smollm2: tuple[Engine, Engine], length: int) -> None:
    warm, cold = smollm2
    prompt = ids(length, seed=length)
    expected, usage = answer(cold, prompt, count=3)
    assert usage.cached_tokens == 0
    for chunk in (512, 7):
        chunks_of(warm, chunk)
        found, usage = answer(warm, prompt, count=3)
        np.testing.assert_array_equal(found, expected)
    assert usage.cached_tokens >= (length - 1) // 32 * 32


def test_a_conversation_with_smollm2(smollm2: tuple[Engine, Engine]) -> None:
    """Each turn goes on from the one before, or from the middle of it, in chunks of any size."""
    warm, cold = smollm2
    prompt = ids(70, seed=5)
    for turn, chunk in enumerate([512, 5, 33]):
        chunks_of(warm, chunk)
        found, usage = answer(warm, prompt, count=20)
        expected, _ = answer(cold, prompt, count=20)
        np.testing.assert_array_equal(found, expected)
        assert usage.cached_tokens >= (len(prompt) - 30 if turn else 0)
        chosen = tuple(int(row.argmax()) for row in found[:15])
        prompt += chosen + ids(12, seed=turn)


def test_a_hit_across_the_window_of_gemma(gemma3_path: Path) -> None:
    """What is cached ends before and after the token that no longer sees the first one."""
    prompt = ids(540, seed=72)
    with load(gemma3_path, context=600, prefix_cache=False) as cold:
        expected, _ = answer(cold.loaded.engine, prompt, count=2)
    with load(gemma3_path, context=600) as warm:
        engine = warm.loaded.engine
        poison(engine)
        assert engine.scheduler.cache.window == 0, "some of its layers see everything"
        for length, num_cached in ((505, 0), (520, 505), (540, 520), (540, 539)):
            found, usage = answer(engine, prompt[:length], count=2)
            assert usage.cached_tokens == num_cached
        np.testing.assert_array_equal(found, expected)


WINDOW = 40


def windowed(golden: Path) -> Checkpoint:
    """A Gemma 3 of random weights, each of whose layers has a window."""
    checkpoint = open_checkpoint(golden / "tiny" / "gemma3_text")
    kinds = ["sliding_attention"] * checkpoint.metadata["num_hidden_layers"]
    changes = {"sliding_window": WINDOW, "layer_types": kinds, "max_position_embeddings": 4096}
    return as_model(replace(checkpoint, metadata={**checkpoint.metadata, **changes}))


def windowed_engine(
    checkpoint: Checkpoint, backend: Any, num_pages: int, max_tokens: int, *, frees: bool
) -> Engine:
    plan = build_plan(checkpoint)
    assert plan.window == WINDOW
    runner = backend.prepare(
        plan,
        checkpoint.tensors,
        num_pages=num_pages,
        max_tokens=max_tokens,
        num_threads=1,
        precision="default",
    )
    engine = Engine(
        runner,
        IdsOnly(plan.vocabulary, ()),
        vocabulary=plan.vocabulary,
        context_length=600,
        policy=Policy(max_tokens),
        window=plan.window if frees else 0,
    )
    if isinstance(backend, CpuBackend):
        poison(engine)
    return engine


@pytest.mark.parametrize(
    ("backend", "max_tokens"), [(ReferenceBackend(), 16), (CpuBackend(), 16), (CpuBackend(), 64)]
)
def test_pages_outside_of_every_window_are_given_back(
    golden: Path, backend: Any, max_tokens: int
) -> None:
    """Ten pages do for 600 tokens; what is given back is not read, and serves again when cached."""
    checkpoint = windowed(golden)
    whole = windowed_engine(checkpoint, backend, 60, max_tokens, frees=False)
    small = windowed_engine(checkpoint, backend, 10, max_tokens, frees=True)
    prompt = ids(300, seed=3)
    is_exact = isinstance(backend, CpuBackend)  # a product of NumPy's depends on its rows
    for length, num_cached in ((300, 0), (300, 0), (100, 0), (100, 96), (70, 69), (150, 96)):
        expected, _ = answer(whole, prompt[:length], count=12)
        found, usage = answer(small, prompt[:length], count=12)
        np.testing.assert_allclose(found, expected, rtol=0, atol=0 if is_exact else 1e-4)
        assert usage.cached_tokens >= num_cached
    assert whole.stats().pages_cached > 10


def test_a_crowd_in_a_model_of_windows(golden: Path) -> None:
    checkpoint = windowed(golden)
    whole = windowed_engine(checkpoint, CpuBackend(), 60, 64, frees=False)
    small = windowed_engine(checkpoint, CpuBackend(), 14, 64, frees=True)
    prompts = {str(n): ids(90, seed=n % 2) + ids(30 * n + 1, seed=9 + n) for n in range(6)}
    params = SamplingParams(temperature=0, max_tokens=70, ignore_eos=True)
    for name, prompt in prompts.items():
        small.add(Request(name, prompt, params))
    found: dict[str, list[int]] = {name: [] for name in prompts}
    while small.has_work:
        for delta in small.step():
            found[delta.request_id] += delta.token_ids
        small.check()
    for name, prompt in prompts.items():
        expected, _ = answer(whole, prompt, count=70)
        assert found[name] == expected.argmax(axis=1).tolist(), name
