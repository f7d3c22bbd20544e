"""Sums of squares of what goes into products: against the reference, and as relations."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pyrite.backends import meaning, mixture
from pyrite.backends.reference import ReferenceBackend
from pyrite.backends.weights import LazyWeights
from pyrite.cli.main import main
from pyrite.config import Settings
from pyrite.conversion import convert, find_recipe, plan_conversion
from pyrite.errors import BackendError
from pyrite.export import as_gguf_file
from pyrite.formats.checkpoint import open_checkpoint
from pyrite.formats.imatrix import Importance, Sums, read_importance
from pyrite.importance import collect
from pyrite.loading import load_engine
from pyrite.models.registry import build_plan, open_model
from pyrite.passages import results

CHUNKS = np.random.default_rng(0).integers(3, 384, (3, 40)).astype(np.int32)


def load(path: Path, **settings):
    return load_engine(path, Settings(context=64, speculation="off", **settings))


@pytest.fixture(scope="module", params=["llama_q8_0", "qwen2_q4_k_m"])
def path(request, golden):
    return golden / "gguf_models" / f"{request.param}.gguf"


def importance(path, chunks=CHUNKS, **settings):
    return collect(load(path, **settings), chunks, Path("x.gguf"), "x.txt").entries


def referred(path, chunks, monkeypatch):
    """Sums of squares of the reference's inputs, which NumPy multiplies."""
    sums = {}
    project = LazyWeights.project

    def record(self, name, x):
        sums[name] = sums.get(name, 0.0) + np.square(x, dtype=np.float64).sum(axis=0)
        return project(self, name, x)

    monkeypatch.setattr(LazyWeights, "project", record)
    checkpoint = open_model(path)
    runner = ReferenceBackend().prepare(
        build_plan(checkpoint),
        checkpoint.tensors,
        num_pages=2,
        max_tokens=64,
        num_threads=1,
        precision="default",
    )
    for ids in chunks:
        for _ in results(runner, ids, 0, len(ids)):
            pass
    return sums


def test_sums_are_those_of_the_reference(path, monkeypatch):
    found = importance(path)
    expected = referred(path, CHUNKS, monkeypatch)
    matrices = {name for name, one in open_checkpoint(path).tensors.items() if len(one.shape) == 2}
    assert set(found) == set(expected) == matrices - {"token_embd.weight"}
    for name, sums in expected.items():
        # Activations have 15 bits, keys and values 11; over two layers errors stay below 2^-9.
        np.testing.assert_allclose(found[name].squares[0], sums, rtol=4e-3, atol=1e-4 * sums.max())
        assert found[name].counts == [CHUNKS.size]


def test_threads_and_batches_change_nothing(path):
    expected = importance(path, threads=1)
    for settings in ({"threads": 3}, {"threads": 2, "max_batch_tokens": 16}):
        for name, sums in importance(path, **settings).items():
            np.testing.assert_array_equal(sums.squares, expected[name].squares)


def test_chunks_add_up(path):
    whole = importance(path)
    parts = [importance(path, CHUNKS[i : i + 1]) for i in range(3)]
    for name, sums in whole.items():
        added = sum(part[name].squares.astype(np.float64) for part in parts)
        np.testing.assert_allclose(sums.squares, added, rtol=1e-6)


def test_what_is_not_asked_for_is_not_counted(path):
    loaded = load(path)
    assert loaded.engine.runner.squares() == {}
    labels = [label for label, _ in loaded.engine.runner.phase_times()]
    assert labels
    assert not any("squares" in label for label in labels)


def test_the_reference_backend_counts_nothing(path):
    with pytest.raises(BackendError, match="reference backend does not observe"):
        importance(path, backend="reference")


@pytest.fixture(params=["mixtral", "qwen2_moe"])
def mixture_path(request, golden):
    return golden / "tiny" / request.param


def referred_experts(path, chunks, monkeypatch):
    """Sums of squares of what goes into each expert of the reference, and how many rows."""
    found = {}
    expert_of = mixture._expert

    def add(name, expert, rows):
        sums, counts = found.setdefault(name, ({}, {}))
        sums[expert] = sums.get(expert, 0.0) + np.square(rows, dtype=np.float64).sum(axis=0)
        counts[expert] = counts.get(expert, 0) + len(rows)

    def record(op, expert, x, weights, adapters):
        gate, up = x @ weights.part(op.gate, expert).T, x @ weights.part(op.up, expert).T
        add(op.gate, expert, x)
        add(op.up, expert, x)
        add(op.down, expert, meaning.gated(gate, up, op.activation))
        return expert_of(op, expert, x, weights, adapters)

    monkeypatch.setattr(mixture, "_expert", record)
    referred(path, chunks, monkeypatch)
    return found


def test_sums_of_experts_are_those_of_the_reference(mixture_path, monkeypatch):
    chunks = CHUNKS % 64
    entries = importance(mixture_path, chunks)
    expected = referred_experts(mixture_path, chunks, monkeypatch)
    assert expected
    for name, (sums, counts) in expected.items():
        for expert, squares in sums.items():
            assert entries[name].counts[expert] == counts[expert]
            # As above, and an expert has few rows.
            found = entries[name].squares[expert]
            np.testing.assert_allclose(found, squares, rtol=1e-2, atol=1e-3 * squares.max())
        unused = set(range(len(entries[name].counts))) - set(counts)
        assert all(entries[name].counts[expert] == 0 for expert in unused)


def test_experts_do_not_depend_on_threads_and_batches(mixture_path):
    expected = importance(mixture_path, CHUNKS % 64, threads=1)
    for name, sums in importance(mixture_path, CHUNKS % 64, threads=2, max_batch_tokens=16).items():
        np.testing.assert_array_equal(sums.squares, expected[name].squares)
        np.testing.assert_array_equal(sums.counts, expected[name].counts)


@pytest.fixture
def latent_path(golden):
    return golden / "tiny" / "deepseek_v2"


def test_sums_of_heads_are_those_of_the_reference(latent_path, monkeypatch):
    """Matrices of a head's own have sums of their own: columns that are carried are no inputs."""
    expected = {}
    head_linear = meaning.head_linear

    def record(op, x, weights):
        inputs = weights.values(op.weight).shape[2]
        heads = np.square(x.reshape(len(x), op.heads, -1)[..., :inputs], dtype=np.float64)
        expected[op.weight] = expected.get(op.weight, 0.0) + heads.sum(axis=0)
        return head_linear(op, x, weights)

    monkeypatch.setattr(meaning, "head_linear", record)
    chunks = CHUNKS % 64
    entries = importance(latent_path, chunks)
    referred(latent_path, chunks, monkeypatch)
    assert len(expected) == 2 * 3
    for name, sums in expected.items():
        np.testing.assert_array_equal(entries[name].counts, [chunks.size] * len(sums))
        np.testing.assert_allclose(entries[name].squares, sums, rtol=1e-2, atol=1e-3 * sums.max())


def test_matrices_of_heads_are_quantized_by_their_sums(latent_path, tmp_path):
    """llama.cpp's own files have one count for all matrices of such a tensor, in one row."""
    entries = importance(latent_path, CHUNKS % 64)
    joined = {
        name: Sums(sums.squares.reshape(1, -1), sums.counts[:1])
        if name.endswith(("k_b.weight", "v_b.weight"))
        else sums
        for name, sums in entries.items()
    }
    found = []
    for known in (None, entries, joined):
        plan = plan_conversion(
            as_gguf_file(open_checkpoint(latent_path))[0],
            find_recipe("q4_0"),
            None if known is None else Importance(tmp_path / "x", ("x",), 1, 40, known),
        )
        convert(plan, tmp_path / "out.gguf", 1)
        tensors = open_checkpoint(tmp_path / "out.gguf").tensors
        found.append(tensors["blk.1.attn_v_b.weight"].read().tobytes())
        (tmp_path / "out.gguf").unlink()
    assert found[0] != found[1]
    assert found[1] == found[2]


def test_fused_tensors_have_the_sums_of_their_parts(golden, tmp_path):
    """A file that keeps query, key and value in one tensor gets its entry under that name."""
    entries = importance(golden / "tiny" / "gpt2", CHUNKS % 64)
    assert "blk.0.attn_qkv.weight" in entries
    assert not any(".attn_q." in name for name in entries)


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("the quick brown fox jumps over the lazy dog\n" * 40)
    return path


def test_the_commands_go_together(path, text, tmp_path, capsys):
    known, out = tmp_path / "known.gguf", tmp_path / "out.gguf"
    assert main(["imatrix", str(path), str(text), "-o", str(known), "--chunk", "32"]) == 0
    assert "matrices over" in capsys.readouterr().out
    found = read_importance(known)
    assert (found.datasets, found.chunk_tokens) == (("text.txt",), 32)
    arguments = ["quantize", str(path), str(out), "--type", "q3_k_s", "--imatrix", str(known)]
    assert main(arguments) == 0
    metadata = open_checkpoint(out).metadata
    assert metadata["quantize.imatrix.chunks_count"] == found.num_chunks
    capsys.readouterr()
    arguments = ["eval", str(out), str(text), "--reference", str(path), "--chunk", "32", "--json"]
    assert main(arguments) == 0
    measured = json.loads(capsys.readouterr().out)
    assert measured["chunks"] == found.num_chunks
    assert measured["divergence"]["mean"] > 0
    assert main(["imatrix", str(path), str(text), "-o", str(known)]) == 2
    assert "--force" in capsys.readouterr().err
