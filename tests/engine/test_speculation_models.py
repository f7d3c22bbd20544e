"""Speculated equals plain with real weights: rows computed together are the rows computed alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite.drafting import DraftModel
from pyrite.errors import ParameterError
from pyrite.sampling.params import SamplingParams
from pyrite.steptimes import StepTimes

PHRASE = "one fox, two geese, three hens and four mice crossed the river; "
PROMPT = PHRASE * 4 + "one fox, two"


class Free(StepTimes):
    """Rows cost next to nothing, so that every guess is verified, and many fail."""

    def estimate(self, num_rows: int, more: int) -> Any:
        return 1 + 1e-6 * np.arange(num_rows, num_rows + more + 1)


@pytest.fixture(params=["smollm2", "gemma3"])
def path(request: pytest.FixtureRequest) -> Path:
    found: Path = request.getfixturevalue(f"{request.param}_path")
    return found


ASKED = (
    SamplingParams(max_tokens=40, temperature=0, logprobs=2, ignore_eos=True),
    SamplingParams(max_tokens=40, temperature=1.0, seed=7, logprobs=0, ignore_eos=True),
    SamplingParams(max_tokens=30, temperature=0.6, seed=2, repetition_penalty=1.05),
    SamplingParams(max_tokens=30, temperature=0, stop=("hens",), prompt_logprobs=1),
)


def answers(
    path: Path, speculation: str, prompts: list[str], monkeypatch: pytest.MonkeyPatch
) -> tuple[list[Any], Any]:
    with pyrite.load(path, speculation=speculation, context=512, threads=2) as model:
        engine = model.loaded.engine
        engine._speculation.times = Free()
        if isinstance(guesser := engine._speculation._guesser, DraftModel):
            monkeypatch.setattr(guesser, "seconds", lambda requests, most: np.zeros(most + 1))
        told = model.batch(prompts, params=ASKED)
        return [(one.token_ids, one.text, one.logprobs) for one in told], engine.stats()


def test_in_company(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prompts = [PROMPT, PROMPT[7:], PROMPT[13:], PROMPT[20:]]
    plain, unguessed = answers(path, "off", prompts, monkeypatch)
    speculated, stats = answers(path, "ngram", prompts, monkeypatch)
    assert speculated == plain
    assert unguessed.drafted_tokens == 0
    assert stats.drafted_tokens > stats.accepted_tokens > 20


def test_a_draft_model(smollm2_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model is its own draft, so that greedy guesses hold."""
    prompts = [PROMPT, PROMPT[7:], PROMPT[13:], PROMPT[20:]]
    plain, _ = answers(smollm2_path, "off", prompts, monkeypatch)
    speculated, stats = answers(smollm2_path, str(smollm2_path), prompts, monkeypatch)
    assert speculated == plain
    assert stats.drafted_tokens > stats.accepted_tokens > 40


def test_a_draft_of_another_vocabulary_is_refused(smollm2_path: Path, gemma3_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"of the same vocabulary .*it has 262144 tokens"):
        pyrite.load(smollm2_path, speculation=gemma3_path, context=256)
    with pytest.raises(ParameterError, match="speculation"):
        pyrite.load(smollm2_path, speculation="")
