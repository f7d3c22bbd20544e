"""Models with states as a user meets them: loaded from a folder, stored, measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tests.library as library
from test_speculation import Clock

import pyrite
from pyrite.cli.main import main
from pyrite.drafting import DraftModel

ALONE = ("mamba", "rwkv7")  # states and no keys and values: their pages have no bytes
BESIDE = ("lfm2", "falcon_h1")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYRITE_HOME", str(tmp_path / "home"))


def ids(count: int) -> list[int]:
    return [5 + 7 * number % 300 for number in range(count)]


def greedy(model: pyrite.Model, prompt: list[int], count: int = 16) -> pyrite.Completion:
    return model.generate(prompt, temperature=0, max_tokens=count, ignore_eos=True)


@pytest.mark.parametrize("case", [*ALONE, *BESIDE])
def test_a_folder_continues_as_the_golden_text(golden: Path, case: str):
    expected = np.load(golden / "tiny" / case / "expected.npz")
    sure = int(np.argmax([*(expected["greedy_margin"] < 0.02), True]))
    assert sure >= 4
    with pyrite.load(golden / "tiny" / case, threads=1) as model:
        for _ in range(2):  # the second begins at what the first one kept
            found = greedy(model, expected["ids_1"].tolist())
            assert list(found.token_ids[:sure]) == expected["greedy"][:sure].tolist()


@pytest.mark.parametrize("case", [*ALONE, *BESIDE])
def test_states_outlive_a_load(golden: Path, case: str):
    """Beside pages on disk, which may have no bytes."""
    answers, cached = [], []
    for _ in range(2):
        with pyrite.load(golden / "tiny" / case, threads=1, kv_store_bytes=1 << 24) as model:
            answer = greedy(model, ids(200))
            answers.append(answer.token_ids)
            cached.append(answer.usage.cached_tokens)
    assert answers[0] == answers[1]
    assert cached == [0, 192]


@pytest.mark.parametrize("case", [*ALONE, *BESIDE])
def test_a_model_with_states_drafts(
    golden: Path, tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch
):
    """Its own draft in other bits, so that most guesses hold and some do not."""
    folder = library.folder_of(golden / "tiny" / case, tmp_path / case)
    library.save(library.make("gpt-2", size=300), folder)
    target, draft = (tmp_path / f"{kind}.gguf" for kind in ("q8_0", "q4_0"))
    for file in (target, draft):
        assert main(["quantize", str(folder), str(file), "--type", file.stem]) == 0
    found = []
    for speculation in ("off", str(draft)):
        with pyrite.load(target, threads=1, speculation=speculation) as model:
            engine = model.loaded.engine
            if isinstance(guesser := engine._speculation._guesser, DraftModel):
                engine._speculation.times = Clock(0.01)
                monkeypatch.setattr(guesser, "seconds", lambda requests, most: np.zeros(most + 1))
            found.append([greedy(model, ids(length), 40).token_ids for length in (9, 200)])
            stats = engine.stats()
    assert found[0] == found[1]
    assert stats.drafted_tokens > stats.accepted_tokens > 0


@pytest.mark.parametrize("case", ALONE)
@pytest.mark.parametrize("kv_type", ["f16", "q8"])
def test_quantized_at_the_load(golden: Path, case: str, kv_type: str):
    with pyrite.load(golden / "tiny" / case, threads=1, quant="q8_0", kv_type=kv_type) as model:
        assert len(greedy(model, ids(40)).token_ids) == 16
        assert model.logits(ids(40)).shape == (40, 320)


@pytest.mark.parametrize("case", ALONE)
def test_verbs(golden: Path, case: str, capsys: pytest.CaptureFixture[str]):
    folder = str(golden / "tiny" / case)
    small = ["-p", "16", "-n", "4", "-d", "0,32", "-b", "1,3", "-r", "1", "-t", "1"]
    assert main(["show", folder, "--plan"]) == 0
    assert main(["bench", folder, *small]) == 0
    assert "tg4 @ d32" in capsys.readouterr().out
