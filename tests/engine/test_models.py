"""Real weights through the whole engine: small models of the fixtures, and SmolLM2 where it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite.embedding import Embedder
from pyrite.errors import ContextLengthError
from pyrite.llm import Model

BACKENDS = ("reference", "cpu")
SMALL = ("llama_q8_0", "qwen2_q4_k_m")


@pytest.fixture(scope="module", params=[f"{name} {kind}" for name in SMALL for kind in BACKENDS])
def small(request: pytest.FixtureRequest, golden: Path) -> Iterator[tuple[Model, Any]]:
    """A model and its expected numbers."""
    name, backend = request.param.split()
    folder = golden / "gguf_models"
    with pyrite.load(folder / f"{name}.gguf", backend=backend, max_batch_tokens=48) as model:
        yield model, np.load(folder / f"{name}.expected.npz")


def test_greedy_is_the_golden_one(small: tuple[Model, Any]) -> None:
    model, expected = small
    answer = model.generate(expected["ids_1"], temperature=0, max_tokens=16, ignore_eos=True)
    unsure = np.flatnonzero(expected["greedy_margin"] < 0.02)
    sure = int(unsure[0]) if len(unsure) else 16
    assert answer.token_ids[:sure] == tuple(expected["greedy"][:sure])
    assert sure > 2, "the fixture says something"


def test_batched_and_chunked_as_alone(small: tuple[Model, Any]) -> None:
    model, _ = small
    dice = np.random.default_rng(3)
    prompts = [dice.integers(3, 300, size).tolist() for size in (1, 31, 32, 33, 100)]
    sampling = {"temperature": 0, "max_tokens": 5, "ignore_eos": True, "logprobs": 1}
    together = model.batch(prompts, **sampling)
    for prompt, found in zip(prompts, together, strict=True):
        alone = model.generate(prompt, **sampling)
        assert found.token_ids == alone.token_ids
        if model.loaded.settings.backend == "cpu":
            assert found.logprobs == alone.logprobs, "to the last bit"


def test_preempted_as_not_preempted(small: tuple[Model, Any]) -> None:
    model, _ = small
    path, backend = model.loaded.checkpoint.path, model.loaded.settings.backend
    prompts = [[number + 3] * 30 for number in range(5)]
    sampling = {"temperature": 0, "max_tokens": 50, "ignore_eos": True}
    with pyrite.load(path, backend=backend, context=96, kv_pages=6) as tight:
        scheduler = tight.loaded.engine.scheduler
        assert tight.batch(prompts, **sampling) == model.batch(prompts, **sampling)
        assert scheduler.num_preemptions > 0
        scheduler.check()


@pytest.fixture(scope="module")
def smollm2(smollm2_path: Path) -> Iterator[Model]:
    with pyrite.load(smollm2_path, context=512) as model:
        yield model


@pytest.mark.model
def test_smollm2_answers(smollm2: Model) -> None:
    answer = smollm2.chat("What is the capital of France?", temperature=0, max_tokens=40)
    assert "Paris" in answer
    assert answer.finish_reason == "stop"


@pytest.mark.model
def test_smollm2_calls_a_tool_that_its_template_knows_nothing_of(smollm2: Model) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    function = {"name": "weather", "description": "Weather of a city", "parameters": schema}
    answer = smollm2.chat(
        "What is the weather in Rome?",
        tools=[{"type": "function", "function": function}],
        tool_choice="required",
        temperature=0,
        max_tokens=60,
    )
    (call,) = answer.tool_calls
    assert (str(answer), call.name) == ("", "weather")
    assert "Rome" in call.arguments
    assert answer.finish_reason == "stop"


@pytest.mark.model
def test_smollm2_with_a_seed_alone_and_in_company(smollm2: Model) -> None:
    def sampled(**params: Any) -> Any:
        return pyrite.SamplingParams(temperature=1.0, max_tokens=12, ignore_eos=True, **params)

    prompt = "Once upon a time"
    alone = [smollm2.generate(prompt, params=sampled(seed=42)) for _ in range(2)]
    company = [sampled() for _ in range(7)]
    crowd = smollm2.batch([prompt] * 8, params=[*company[:4], sampled(seed=42), *company[4:]])
    assert alone[0] == alone[1] == crowd[4]
    assert len({answer.token_ids for answer in crowd}) == 8
    others = smollm2.batch([prompt] * 5, params=[sampled(seed=seed) for seed in range(1, 6)])
    assert len({answer.token_ids for answer in others}) == 5


@pytest.mark.model
def test_smollm2_at_the_end_of_its_context(smollm2: Model) -> None:
    ids = smollm2.tokenize("word " * 600)
    with pytest.raises(ContextLengthError, match="513 tokens"):
        smollm2.generate(ids[:513], max_tokens=10)
    one = smollm2.generate(ids[:511], max_tokens=10, ignore_eos=True)
    assert (len(one.token_ids), one.finish_reason) == (1, "length")
    assert len(smollm2.generate(ids[:508], ignore_eos=True).token_ids) == 4


@pytest.mark.model
def test_smollm2_prompts_that_are_empty(smollm2: Model) -> None:
    """It begins no text with a token of its own, so there is nothing to continue."""
    for prompt in ("", []):
        with pytest.raises(pyrite.PyriteError, match="at least one token"):
            smollm2.generate(prompt)
    assert smollm2.chat("", temperature=0, max_tokens=3).usage.prompt_tokens > 3


@pytest.mark.parametrize("backend", BACKENDS)
def test_angles_are_those_of_the_context(golden: Path, backend: str) -> None:
    """Longrope has factors for contexts up to 24 tokens, and others beyond."""
    folder = golden / "tiny" / "phi3_longrope"
    expected = np.load(folder / "expected.npz")
    vectors = []
    for context, name in ((24, "0"), (192, "1")):
        with pyrite.load(folder, backend=backend, context=context) as model:
            answer = model.generate(
                expected[f"ids_{name}"], temperature=0, max_tokens=1, ignore_eos=True, logprobs=1
            )
            logits = expected[f"logits_{name}"][-1].astype(np.float64)
            assert answer.token_ids == (int(logits.argmax()),)
            largest = logits.max() - np.log(np.exp(logits).sum())
            assert answer.logprobs[0].token.logprob == pytest.approx(largest, abs=1e-2)
            vectors.append(Embedder(model.loaded).embed([[5, 6, 7, 8, 9]])[0])
    assert np.abs(vectors[0] - vectors[1]).max() > 1e-3, "those without the head have them too"
