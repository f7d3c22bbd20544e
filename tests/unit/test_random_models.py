"""The random models of the benchmarks: valid files whose logits are as calm as a real model's."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.models import MIXES, SHAPES, more_bits, tensor_specs, write_model

from pyrite.backends.reference import ReferenceBackend
from pyrite.models.registry import build_plan, open_model
from pyrite.quant.formats import EXECUTED, FLOATS_8
from pyrite.text.tokenizer import Tokenizer
from steps import num_pages, sequence_logits

TOKENS = 24


@pytest.mark.parametrize("mix", MIXES)
def test_logits_are_calm(tmp_path, mix):
    write_model(tmp_path / "m.gguf", "qwen2-tiny", mix)
    checkpoint = open_model(tmp_path / "m.gguf")
    runner = ReferenceBackend().prepare(
        build_plan(checkpoint),
        checkpoint.tensors,
        num_pages=num_pages(TOKENS),
        max_tokens=TOKENS,
        num_threads=1,
        precision="default",
    )
    ids = np.random.default_rng(2).integers(0, SHAPES["qwen2-tiny"].vocabulary, TOKENS)
    logits = sequence_logits(runner, ids.tolist())
    assert np.isfinite(logits).all()
    assert 0.1 < logits.std() < 5


def test_vocabulary_works(tmp_path):
    write_model(tmp_path / "m.gguf", "qwen2-tiny", "Q4_0")
    tokenizer = Tokenizer.from_data(open_model(tmp_path / "m.gguf").tokenizer)
    text = "Any text, even 北京 and 👩‍🚀, is its bytes again."
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert tokenizer.vocab_size == SHAPES["qwen2-tiny"].vocabulary


def test_same_arguments_same_bytes(tmp_path):
    for name in ("one.gguf", "two.gguf"):
        write_model(tmp_path / name, "qwen2-tiny", "Q4_K_M", seed=5)
    assert (tmp_path / "one.gguf").read_bytes() == (tmp_path / "two.gguf").read_bytes()


def test_every_executed_type_of_files_has_a_random_model():
    assert {f"pure-{kind}" for kind in EXECUTED if kind not in FLOATS_8} <= set(MIXES)


def test_mix_of_types():
    """Half of the value and down projections have six bits, as in a file of the real model."""
    specs = {spec.name: spec.type for spec in tensor_specs(SHAPES["qwen2-1.5b"], "Q4_K_M")}
    assert specs["token_embd.weight"] == "Q6_K"
    assert specs["blk.0.attn_v.weight"] == specs["blk.27.ffn_down.weight"] == "Q6_K"
    assert specs["blk.3.ffn_down.weight"] == specs["blk.0.ffn_up.weight"] == "Q4_K"
    assert sum(more_bits(layer, 28) for layer in range(28)) == 14
