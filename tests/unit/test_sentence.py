"""Folders that were made for vectors: how they say that texts are pooled."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from pyrite.embedding import pooling_of
from pyrite.errors import FormatError, TensorError, UnsupportedError
from pyrite.formats.checkpoint import open_checkpoint
from pyrite.formats.sentence import read_pooling
from pyrite.models.registry import as_model, build_plan

STEPS = (("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize"))


def write(folder: Path, settings: dict, steps=STEPS) -> Path:
    modules = [
        {
            "idx": index,
            "name": str(index),
            "path": path,
            "type": f"sentence_transformers.models.{kind}",
        }
        for index, (path, kind) in enumerate(steps)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(settings))
    return folder


def modes(**on: bool) -> dict:
    names = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "lasttoken")
    found = {f"pooling_mode_{name}": on.get(name, False) for name in names}
    return {"word_embedding_dimension": 64, **found, "include_prompt": True}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (modes(lasttoken=True), "last"),
        (modes(mean_tokens=True), "mean"),
        (modes(cls_token=True), "cls"),
        ({"embedding_dimension": 64, "pooling_mode": "lasttoken"}, "last"),
    ],
)
def test_the_mode(tmp_path: Path, settings: dict, expected: str):
    assert read_pooling(write(tmp_path, settings)) == expected


def test_a_folder_without_such_files_says_nothing(golden: Path):
    assert read_pooling(golden / "tiny" / "qwen3") is None


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (modes(), "pools by none"),
        (modes(max_tokens=True), "pooling_mode_max_tokens"),
        (
            modes(cls_token=True, mean_tokens=True),
            "pooling_mode_cls_token, pooling_mode_mean_tokens",
        ),
        ({"pooling_mode": "weightedmean"}, "weightedmean"),
    ],
)
def test_other_modes_are_named(tmp_path: Path, settings: dict, text: str):
    with pytest.raises(UnsupportedError) as caught:
        read_pooling(write(tmp_path, settings))
    assert text in str(caught.value)


def test_what_else_is_computed_is_named(tmp_path: Path):
    with pytest.raises(UnsupportedError, match="Dense"):
        read_pooling(write(tmp_path, modes(mean_tokens=True), (*STEPS, ("3_Dense", "Dense"))))


@pytest.mark.parametrize("path", ["../elsewhere", "/etc", "1_Pooling/../..", "2_Pooling"])
def test_paths_that_lead_elsewhere_or_nowhere(tmp_path: Path, path: str):
    with pytest.raises(FormatError):
        read_pooling(write(tmp_path, modes(mean_tokens=True), ((path, "Pooling"),)))


@pytest.mark.parametrize("text", ["{}", "[1]", "[{}]", '{"a": 1', "[" * 100000])
def test_a_list_of_steps_that_is_none(tmp_path: Path, text: str):
    (tmp_path / "modules.json").write_text(text)
    with pytest.raises(FormatError, match=r"modules\.json"):
        read_pooling(tmp_path)


def test_links_of_the_hubs_own_cache(tmp_path: Path):
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "a1"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    write(snapshot, modes(lasttoken=True))
    config = snapshot / "1_Pooling" / "config.json"
    shutil.move(config, blobs / "b2")
    config.symlink_to(blobs / "b2")
    assert read_pooling(snapshot) == "last"
    shutil.move(blobs / "b2", tmp_path / "b2")
    config.unlink()
    config.symlink_to(tmp_path / "b2")
    with pytest.raises(FormatError, match="outside"):
        read_pooling(snapshot)


def test_a_folder_for_vectors_needs_no_head(golden: Path, tmp_path: Path):
    """As Qwen3-Embedding's: names without `model.`, and no lm_head."""
    folder = tmp_path / "model"
    shutil.copytree(golden / "tiny" / "qwen3", folder)
    with pytest.raises(TensorError, match=r"missing: output\.weight"):
        without_head(folder)
    model = without_head(write(folder, modes(lasttoken=True)))
    assert pooling_of(model) == "last"
    build_plan(model)


def without_head(folder: Path):
    checkpoint = open_checkpoint(folder)
    assert "lm_head.weight" in checkpoint.tensors
    named = [
        replace(tensor, name=name.removeprefix("model."))
        for name, tensor in checkpoint.tensors.items()
        if name != "lm_head.weight"
    ]
    return as_model(replace(checkpoint, tensors={one.name: one for one in named}))
