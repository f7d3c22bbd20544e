"""Pages of one identity are interchangeable; whatever changes their numbers changes it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pyrite.backends.cpu import CpuBackend
from pyrite.config import Settings
from pyrite.formats.checkpoint import Checkpoint
from pyrite.identity import identity
from pyrite.loading import make_tokenizer
from pyrite.models.registry import build_plan, open_model


def identity_of(checkpoint: Checkpoint, pre: str | None = None, **options: object) -> str:
    settings = Settings(**options)  # type: ignore[arg-type]
    plan = build_plan(checkpoint)
    runner = CpuBackend().prepare(
        plan,
        checkpoint.tensors,
        num_pages=1,
        max_tokens=settings.max_batch_tokens,
        num_threads=settings.threads or 1,
        precision=settings.precision,
        kv_type=settings.kv_type,
    )
    tokenizer = make_tokenizer(checkpoint, plan)
    return identity(checkpoint, plan, tokenizer, runner, settings)


@pytest.fixture
def checkpoint(golden: Path) -> Checkpoint:
    return open_model(golden / "gguf_models" / "llama_q8_0.gguf")


def test_it_is_the_same_again_whatever_the_batch_and_the_threads(checkpoint: Checkpoint):
    assert identity_of(checkpoint) == identity_of(checkpoint, threads=2, max_batch_tokens=64)


@pytest.mark.parametrize("options", [{"precision": "fast"}, {"kv_type": "q8"}], ids=str)
def test_settings_that_change_numbers_change_it(checkpoint: Checkpoint, options):
    assert identity_of(checkpoint) != identity_of(checkpoint, **options)


def test_the_instruction_set_changes_it(checkpoint: Checkpoint, monkeypatch):
    plain = identity_of(checkpoint)
    monkeypatch.setenv("PYRITE_ISA", "scalar")
    assert identity_of(checkpoint) != plain


@pytest.mark.parametrize("name", ["token_embd.weight", "output_norm.weight", "blk.1.ffn_up.weight"])
def test_weights_change_it(checkpoint: Checkpoint, name: str):
    tensor = checkpoint.tensors[name]
    data = tensor.data.copy()
    data[0] ^= 1
    changed = {**checkpoint.tensors, name: replace(tensor, data=data)}
    assert identity_of(checkpoint) != identity_of(replace(checkpoint, tensors=changed))


@pytest.mark.parametrize("key", ["llama.rope.freq_base", "llama.attention.layer_norm_rms_epsilon"])
def test_configuration_changes_it(checkpoint: Checkpoint, key: str):
    metadata = {**checkpoint.metadata, key: checkpoint.metadata[key] * 2}
    assert identity_of(checkpoint) != identity_of(replace(checkpoint, metadata=metadata))


def test_a_file_that_was_written_since_changes_it(golden: Path, tmp_path: Path):
    path = tmp_path / "model.gguf"
    path.write_bytes((golden / "gguf_models" / "llama_q8_0.gguf").read_bytes())
    before = identity_of(open_model(path))
    path.touch()
    assert identity_of(open_model(path)) != before
