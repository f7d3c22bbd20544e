"""A folder of safetensors has no tokenizer that is read here: ids go in, ids come out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pyrite
from pyrite.errors import ParameterError, UnsupportedError
from pyrite.loading import end_ids

CASES = ("llama", "qwen2_tied_swa", "gemma3_text")


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("case", CASES)
def test_a_folder_gives_logits_and_continues_ids(
    golden: Path, tmp_path, monkeypatch, case, backend
):
    monkeypatch.setenv("PYRITE_HOME", str(tmp_path))
    folder = golden / "tiny" / case
    expected = np.load(folder / "expected.npz")
    with pyrite.load(folder, backend=backend) as model:
        logits = model.logits(expected["ids_1"])
        worst = np.abs(logits - expected["logits_1"]).max() / expected["logits_1"].std()
        assert worst < 6e-3
        answer = model.generate(
            expected["ids_1"], max_tokens=4, temperature=0, ignore_eos=True, logprobs=2
        )
        assert answer == ""
        assert answer.token_ids[0] == expected["greedy"][0]


def test_texts_are_refused_in_words(golden: Path):
    with pyrite.load(golden / "tiny" / "llama", backend="reference") as model:
        with pytest.raises(UnsupportedError, match="token ids"):
            model.generate("text")
        with pytest.raises(UnsupportedError, match="token ids"):
            model.detokenize([1])
        with pytest.raises(ParameterError, match="from 0 to 383"):
            model.generate([384])


def test_ends_are_the_union_of_both_files():
    config = {"eos_token_id": 2, "generation_config": {"eos_token_id": [2, 7]}}
    assert end_ids(config) == (2, 7)
    assert end_ids({}) == ()
