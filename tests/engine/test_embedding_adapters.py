"""Vectors of a model with adapters: those of the model that each is merged into."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pyrite
from peft_folders import MODULES, merged, write_peft
from pyrite.backends.reference import ReferenceBackend
from pyrite.config import Settings
from pyrite.embedding import Embedder, EmbeddingRequest
from pyrite.errors import ParameterError
from pyrite.formats.checkpoint import open_checkpoint
from pyrite.loading import load_engine
from pyrite.models.registry import build_plan
from steps import num_pages, sequence_logits

IDS = list(range(5, 45))


@pytest.fixture(scope="module")
def folders(golden: Path, tmp_path_factory: pytest.TempPathFactory):
    """A model, two adapters of it, and the hidden states that each gives."""
    base, place = open_checkpoint(golden / "tiny" / "qwen3"), tmp_path_factory.mktemp("adapters")
    states = {"": hidden(merged(base, {}))}
    for seed, name in enumerate(("one", "two"), 1):
        states[name] = hidden(merged(base, write_peft(place / name, base, MODULES, seed)))
    return base.path, place, states


def hidden(model):
    plan = build_plan(model, result="hidden")
    runner = ReferenceBackend().prepare(
        plan, model.tensors, num_pages=num_pages(len(IDS)), max_tokens=len(IDS)
    )
    return sequence_logits(runner, IDS)


@pytest.mark.parametrize(("backend", "tolerance"), [("reference", 3e-5), ("cpu", 1e-2)])
def test_states_are_those_of_the_merged_model(folders, backend: str, tolerance: float):
    path, place, states = folders
    lora = [str(place / name) for name in ("one", "two")]
    with pyrite.load(path, lora=lora, backend=backend, context=64) as model:
        for name, expected in states.items():
            model.adapter = name
            found = model.hidden_states(IDS)
            assert np.abs(found - expected).max() < tolerance * expected.std()
            for other in states.keys() - {name}:
                assert np.abs(found - states[other]).max() > 0.1 * expected.std()


def test_adapters_share_a_batch_and_change_no_bit(folders, tmp_path: Path):
    path, place, _ = folders
    lora = tuple(str(place / name) for name in ("one", "two"))
    embedder = Embedder(load_engine(path, Settings(context=64, cache=tmp_path, lora=lora)))
    names = ["", "one", "two", "one"]
    sizes = []
    run = embedder.runner.run
    embedder.runner.run = lambda batch: (sizes.append(batch.num_tokens), run(batch))[1]
    for index, name in enumerate(names):
        embedder.add(EmbeddingRequest(str(index), (tuple(IDS),), adapter=name))
    together = {one.request_id: one.vectors[0] for one in embedder.step()}
    assert sizes == [len(names) * len(IDS)]
    for index, name in enumerate(names):
        np.testing.assert_array_equal(together[str(index)], embedder.embed([IDS], adapter=name)[0])
    plain = Embedder(load_engine(path, Settings(context=64, cache=tmp_path)))
    np.testing.assert_array_equal(together["0"], plain.embed([IDS])[0])


def test_a_name_that_was_not_loaded_is_refused_and_takes_nothing(folders, tmp_path: Path):
    path, place, _ = folders
    embedder = Embedder(load_engine(path, Settings(cache=tmp_path, lora=(str(place / "one"),))))
    with pytest.raises(ParameterError, match="one that was loaded: one"):
        embedder.add(EmbeddingRequest("r", ((1,),), adapter="two"))
    assert not embedder.has_work
    embedder.add(EmbeddingRequest("r", ((1,),), adapter="one"))
