"""Perplexity and divergence: by their definitions, and of a real model as llama-perplexity says."""

from __future__ import annotations

import json
import math
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest

from pyrite.cli.eval import checked_chunks
from pyrite.cli.main import main
from pyrite.errors import ParameterError
from pyrite.evaluation import score, summary
from pyrite.formats.checkpoint import open_checkpoint
from pyrite.passages import cut, results
from pyrite.text.tokenizer import Tokenizer

WIDTH = 11


class Foretelling:
    """Logits that depend on the token and the position alone. Notes what it ran."""

    def __init__(self, seed, max_tokens=512):
        self.table = np.random.default_rng(seed).standard_normal((WIDTH, WIDTH), np.float32)
        self.max_tokens = max_tokens
        self.batches = []

    def logits(self, ids, positions):
        return self.table[ids] + np.sin(positions)[:, None].astype(np.float32)

    def run(self, batch):
        self.batches.append(batch)
        rows = batch.output_rows
        return self.logits(batch.token_ids[rows], batch.positions[rows])


def chunks(count=3, size=20):
    return np.random.default_rng(5).integers(0, WIDTH, (count, size)).astype(np.int32)


def log_softmax(logits):
    return logits - np.log(np.exp(logits.astype(np.float64)).sum(axis=1, keepdims=True))


def by_definition(model, ids):
    """Log-probabilities after positions n/2 .. n - 2, and the tokens that came."""
    positions = np.arange(len(ids) // 2, len(ids) - 1)
    return log_softmax(model.logits(ids[positions], positions)), ids[positions + 1]


@pytest.mark.parametrize("max_tokens", [512, 7, 3])
def test_perplexity_by_its_definition(max_tokens):
    model, losses = Foretelling(1, max_tokens), []
    for ids in chunks():
        rows, targets = by_definition(model, ids)
        losses += [-row[target] for row, target in zip(rows, targets, strict=True)]
    found = summary(score(model, chunks()))
    assert found["tokens"] == len(losses) == 3 * 9
    assert found["perplexity"] == pytest.approx(math.exp(np.mean(losses)), rel=1e-6)
    error = math.sqrt((np.mean(np.square(losses)) - np.mean(losses) ** 2) / (len(losses) - 1))
    assert found["error"] == pytest.approx(error * found["perplexity"], rel=1e-4)
    assert "divergence" not in found


def test_divergence_by_its_definition():
    model, reference, distances, same = Foretelling(1), Foretelling(2, max_tokens=512), [], []
    for ids in chunks():
        own, _ = by_definition(model, ids)
        base, _ = by_definition(reference, ids)
        distances += list((np.exp(base) * (base - own)).sum(axis=1))
        same += list(own.argmax(axis=1) == base.argmax(axis=1))
    found = summary(score(model, chunks(), reference))
    assert found["divergence"]["mean"] == pytest.approx(np.mean(distances), rel=1e-5)
    assert found["divergence"]["median"] == pytest.approx(np.median(distances), rel=1e-5)
    assert found["divergence"]["max"] == pytest.approx(np.max(distances), rel=1e-5)
    assert found["same_top"] == pytest.approx(np.mean(same))
    assert found["reference"] == {
        name: pytest.approx(value)
        for name, value in summary(score(reference, chunks())).items()
        if name != "tokens"
    }


def test_a_model_is_no_distance_from_itself():
    found = summary(score(Foretelling(1), chunks(), Foretelling(1)))
    assert found["divergence"] == dict.fromkeys(("mean", "error", "median", "p99", "max"), 0)
    assert (found["same_top"], found["log_ratio"]) == (1, 0)


def test_a_chunk_is_run_by_itself_and_only_wanted_rows_are():
    model = Foretelling(1, max_tokens=8)
    wanted = [list(positions) for positions, _ in results(model, chunks()[0], 10, 18)]
    assert wanted == [[], [10, 11, 12, 13, 14, 15], [16, 17, 18]]
    assert [batch.positions[0] for batch in model.batches] == [0, 8, 16]
    assert [list(batch.output_rows) for batch in model.batches] == [
        [],
        [2, 3, 4, 5, 6, 7],
        [0, 1, 2],
    ]


def test_chunks_of_a_text(golden):
    data = open_checkpoint(golden / "gguf_models" / "llama_q8_0.gguf").tokenizer
    tokenizer = Tokenizer.from_data(data)
    text = "some words of a text, " * 9
    ids = tokenizer.encode(text, bos=True)
    found = cut(tokenizer, text, 16)
    assert found.shape == (len(ids) // 16, 16)
    begins = tokenizer.encode("", bos=True)
    expected = ids[: found.size].reshape(found.shape).copy()
    if len(begins):
        expected[:, 0] = begins[0]
    np.testing.assert_array_equal(found, expected)
    assert len(cut(tokenizer, text, 16, most=2)) == 2
    with pytest.raises(ParameterError, match="at least 4096 tokens"):
        cut(tokenizer, text, 4096)


def refused(capsys, *arguments):
    code = main(["eval", *map(str, arguments)])
    return code, capsys.readouterr().err


def test_what_the_command_refuses(golden, tmp_path, capsys):
    model = golden / "gguf_models" / "llama_q8_0.gguf"
    text = tmp_path / "text.txt"
    text.write_text("short")
    assert refused(capsys, model, text)[0] == 2
    assert "8 to" in refused(capsys, model, text, "--chunk", "4")[1]
    assert "at least 1" in refused(capsys, model, text, "--chunks", "0")[1]
    assert "made for" in refused(capsys, model, text, "--chunk", "512")[1]
    text.write_bytes(b"a\xff" * 100)
    assert "byte 1 is not" in refused(capsys, model, text)[1]
    assert refused(capsys, model, tmp_path / "none.txt")[0] == 1
    other = golden / "gguf_models" / "qwen2_q8_0.gguf"
    text.write_text("a long text " * 100)
    code, said = refused(capsys, model, text, "--chunk", "32", "--reference", other)
    assert code in (0, 2)
    assert code == 0 or "same vocabulary" in said


@pytest.mark.model
def test_perplexity_of_a_real_model_is_llama_perplexitys(smollm2_path, tmp_path, capsys):
    """llama-perplexity -c 128 --chunks 4 on the same text gives PPL (see LLAMA)."""
    text = tmp_path / "text.txt"
    text.write_text(TEXT * 12)
    arguments = ["eval", str(smollm2_path), str(text), "--chunk", "128", "--chunks", "4", "--json"]
    assert main(arguments) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["perplexity"] == pytest.approx(LLAMA, rel=0.01)  # it has activations of 8 bits


TEXT = (
    "A river begins where water gathers. Rain falls on a hill, sinks into moss and stones, and "
    "comes out again lower down as a spring. The spring feeds a brook, the brook joins another, "
    "and after some days of walking along it one needs a boat to get to the other side. Towns "
    "grew where a ford or a bridge was, for roads met there and carts had to stop. Mills took the "
    "water's strength, tanners and dyers its softness, and everybody downstream what was left of "
    "it. "
)
LLAMA = 19.5428


def test_a_text_without_an_end_is_refused(capsys) -> None:
    """And what is read of it is bounded."""
    from pyrite.cli.main import main

    model = Path(__file__).parents[1] / "golden" / "gguf_models" / "llama_q8_0.gguf"
    assert main(["eval", str(model), "/dev/zero", "--chunks", "1"]) == 2
    assert "at most 64 MiB" in capsys.readouterr().err


@pytest.mark.parametrize(("stated", "expected"), [(None, 256), (64, 64)])
def test_chunks_fit_the_models_context(golden: Path, stated: int | None, expected: int):
    options = Namespace(chunk=stated, chunks=None)
    assert checked_chunks(options, golden / "tiny" / "llama") == expected
