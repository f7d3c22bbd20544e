"""Models against independent implementations: logits, hidden states, greedy text.

Each test runs on every backend of `rows`, within that backend's tolerance.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rows import Row, assert_close, prepare

from pyrite.errors import BackendError
from pyrite.graph.build import GraphBuilder
from pyrite.graph.compile import compile_plan
from pyrite.graph.ops import Add, Embed, Normalize
from pyrite.models.registry import build_graph, build_plan, open_model, read_config
from steps import Part, make_batch, num_pages, sequence_logits

RECURRENT = (
    "lfm2",
    "lfm2_moe",
    "mamba",
    "mamba2",
    "jamba",
    "falcon_h1",
    "rwkv4",
    "rwkv7",
    "falcon_mamba",
    "falcon_h1_tied",
    "mamba2_limits",
    "granitemoehybrid",
    "granitemoehybrid_dense",
    "qwen3_next",
    "qwen3_5_text",
    "qwen3_5_moe_text",
)
TINY = (
    "llama",
    "llama_tied",
    "llama_linear",
    "llama_yarn",
    "llama_sharded",
    "llama_v5cfg",
    "mistral",
    "mixtral",
    "qwen2",
    "qwen2_moe",
    "qwen2_tied_swa",
    "qwen3",
    "qwen3_moe",
    "gemma",
    "gemma2",
    "gemma3_text",
    "phi3",
    "phi3_longrope",
    "olmo2",
    "olmoe",
    "granite",
    "granitemoe",
    "smollm3",
    "cohere",
    "stablelm",
    "gpt2",
    "gpt_oss",
    "deepseek_v2",
    "deepseek_v3",
    "cohere_qk_norm",
    "cohere2",
    "stablelm_parallel",
    "granitemoeshared",
    "deepseek_v2_groups",
    "olmo3",
    "gemma4_text",
    "gemma4_moe",
    "glm4",
    "glm4_moe_lite",
    "glm4_moe",
    "glm4_moe_air",
    "seed_oss",
    "ernie4_5",
    "ernie4_5_moe",
    "exaone4",
    "exaone4_whole",
    "hunyuan_v1_dense",
    "minimax_m2",
    "ministral3",
    "qwen2_5_vl",
    "qwen3_vl",
    "qwen3_vl_moe",
    *RECURRENT,
)
QUANTIZED = tuple(
    f"{family}_{kind}" for family in ("llama", "qwen2") for kind in ("q4_0", "q8_0", "q4_k_m")
)
REAL = {
    "smollm2": "smollm2_135m_q4_1",
    "gemma3": "gemma3_270m_q4_k_m",
}


def check_greedy(runner, ids, greedy, margins, tolerance: float) -> None:
    """Decodes along the golden text; a step counts where its margin is beyond doubt."""
    pages = range(num_pages(len(ids) + len(greedy)))
    found, new, position = [], list(ids), 0
    for following in greedy:
        logits = runner.run(make_batch([Part(new, pages, position, [len(new) - 1])]))
        found.append(int(logits[0].argmax()))
        position += len(new)
        new = [int(following)]
    sure = np.asarray(margins) >= 2 * tolerance
    assert sure.sum() >= len(greedy) // 2, "most margins are too small to test anything"
    assert np.array(found)[sure].tolist() == np.asarray(greedy)[sure].tolist()


def check_model(row: Row, path: Path, expected) -> None:
    """Each sequence by a plan for its length, which longrope looks at."""
    checkpoint = open_model(path)
    for name in ("0", "1"):
        ids = expected[f"ids_{name}"]
        runner = prepare(row, checkpoint, plan=build_plan(checkpoint, context_length=len(ids)))
        logits = sequence_logits(runner, ids)
        assert_close(logits, expected[f"logits_{name}"], row.tolerance)
    tolerance = row.tolerance * expected["logits_1"].std()
    check_greedy(
        runner, expected["ids_1"], expected["greedy"], expected["greedy_margin"], tolerance
    )


@pytest.mark.parametrize("case", TINY)
def test_tiny_model(golden: Path, row: Row, case: str):
    folder = golden / "tiny" / case
    check_model(row, folder, np.load(folder / "expected.npz"))


@pytest.mark.parametrize("case", QUANTIZED)
def test_quantized_model(golden: Path, row: Row, case: str):
    path = golden / "gguf_models" / f"{case}.gguf"
    check_model(row, path, np.load(path.with_suffix("").with_suffix(".expected.npz")))


def test_hidden_states_of_llama(golden: Path, row: Row):
    """Embeddings, the residual stream after each layer, and the last norm."""
    folder = golden / "tiny" / "llama"
    expected = np.load(folder / "expected.npz")
    checkpoint = open_model(folder)
    graph = build_graph(read_config(checkpoint), GraphBuilder())
    embedded = [op.output for op in graph.ops if isinstance(op, Embed)]
    streams = [op.output for op in graph.ops if isinstance(op, Add)][1::2]
    normed = [op.output for op in graph.ops if isinstance(op, Normalize)][-1:]
    for value, hidden in zip(embedded + streams + normed, expected["hidden_1"], strict=True):
        last = next(index for index, op in enumerate(graph.ops) if op.output == value)
        cut = replace(graph, ops=graph.ops[: last + 1], result=value)
        plan = compile_plan(cut, architecture="llama", context_length=256, vocabulary=384)
        logits = sequence_logits(prepare(row, checkpoint, plan=plan), expected["ids_1"])
        assert_close(logits, hidden, row.tolerance)


CHUNKED = (
    *("llama", "qwen2_tied_swa", "gemma2", "gemma3_text", "phi3", "gpt_oss", "deepseek_v3", "gpt2"),
    *RECURRENT,
)


@pytest.mark.parametrize("case", CHUNKED)
@pytest.mark.parametrize("chunk", [1, 7, 32])
def test_chunks_give_the_same_logits(golden: Path, row: Row, case: str, chunk: int):
    """Windows of 8 cross every edge of a chunk and of a page on the way."""
    folder = golden / "tiny" / case
    expected = np.load(folder / "expected.npz")
    runner = prepare(row, open_model(folder))
    logits = sequence_logits(runner, expected["ids_1"], chunk=chunk)
    assert_close(logits, expected["logits_1"], row.tolerance)


@pytest.mark.parametrize("case", ["llama", "gemma3_text"])
def test_a_batch_of_sequences_gives_each_its_own_logits(golden: Path, row: Row, case: str):
    """Three sequences with scattered pages, at different positions, one without outputs."""
    folder = golden / "tiny" / case
    ids, expected = (np.load(folder / "expected.npz")[key] for key in ("ids_1", "logits_1"))
    runner = prepare(row, open_model(folder), tokens=256)
    runner.run(make_batch([Part(ids[:20], [5, 2]), Part(ids[:33], [7, 0])]))
    parts = [
        Part(ids, [3, 6]),
        Part(ids[20:30], [5, 2], 20, []),
        Part(ids[33:], [7, 0], 33, [1, 3]),
    ]
    logits = runner.run(make_batch(parts))
    wanted = np.concatenate([expected, expected[[34, 36]]])
    assert_close(logits, wanted, row.tolerance)


def test_a_copied_page_continues_as_the_original(golden: Path, row: Row):
    folder = golden / "tiny" / "llama"
    ids, expected = (np.load(folder / "expected.npz")[key] for key in ("ids_1", "logits_1"))
    runner = prepare(row, open_model(folder), tokens=128)
    runner.run(make_batch([Part(ids[:20], [0])]))
    runner.copy_page(0, 3)
    runner.run(make_batch([Part(ids[::-1][:12], [0], 20)]))  # writes over the original
    logits = runner.run(make_batch([Part(ids[20:], [3, 1], 20)]))
    assert_close(logits, expected[20:], row.tolerance)


def test_a_page_survives_as_bytes(golden: Path, row: Row):
    """Read from one runner, written to another of the same model, continued there."""
    folder = golden / "tiny" / "llama"
    ids, expected = (np.load(folder / "expected.npz")[key] for key in ("ids_1", "logits_1"))
    first, second = (prepare(row, open_model(folder), tokens=128) for _ in range(2))
    whole = first.run(make_batch([Part(ids[:32], [2])])).copy()
    data = np.empty(first.page_bytes, np.uint8)
    first.read_page(2, data)
    second.write_page(1, data)
    logits = second.run(make_batch([Part(ids[32:], [1, 3], 32)]))
    assert_close(np.concatenate([whole, logits]), expected, row.tolerance)
    np.testing.assert_array_equal(logits, first.run(make_batch([Part(ids[32:], [2, 0], 32)])))


@pytest.mark.parametrize("page", [-1, 2])
def test_a_page_that_is_not_there_is_refused(golden: Path, row: Row, page: int):
    runner = prepare(row, open_model(golden / "tiny" / "llama"), tokens=64)
    data = np.zeros(runner.page_bytes, np.uint8)
    for use in (runner.read_page, runner.write_page):
        with pytest.raises(BackendError, match="page"):
            use(page, data)
        for wrong in (data[:-1], data[:1], data.view(np.int8), data[None]):
            with pytest.raises(BackendError, match="bytes"):
                use(0, wrong)


def log_probabilities(logits, ids):
    """Of `ids` alone, row by row: 262 thousand logits a row are many. (rows, ids)"""
    return np.stack(
        [wide_log_softmax(row)[chosen] for row, chosen in zip(logits, ids, strict=True)]
    )


def wide_log_softmax(row):
    wide = row.astype(np.float64) - row.max()
    return wide - np.log(np.exp(wide).sum())


@pytest.mark.model
@pytest.mark.parametrize("name", REAL)
def test_real_model(golden: Path, row: Row, name: str, request):
    """All 16 prompts in one batch: the 50 likeliest ids of the last positions."""
    checkpoint = open_model(request.getfixturevalue(f"{name}_path"))
    truth = golden / "real" / REAL[name]
    prompts = json.loads(truth.with_suffix(".json").read_text())["prompts"]
    arrays = np.load(truth.with_suffix(".npz"))
    parts, page = [], 0
    for prompt in prompts:
        pages = range(page, page + num_pages(len(prompt["ids"])))
        page = pages.stop
        parts.append(Part(prompt["ids"], pages, 0, prompt["positions"]))
    runner = prepare(row, checkpoint, tokens=page * 32)
    likely = np.concatenate([arrays[f"{prompt['name']}.top_ids"] for prompt in prompts])
    expected = np.concatenate([arrays[f"{prompt['name']}.top_logprobs"] for prompt in prompts])
    found = log_probabilities(runner.run(make_batch(parts)), likely)
    worst = np.abs(found - expected).max()
    assert worst <= row.logprob_tolerance


@pytest.mark.model
@pytest.mark.parametrize("name", REAL)
def test_real_model_continues_greedily(golden: Path, row: Row, name: str, request):
    checkpoint = open_model(request.getfixturevalue(f"{name}_path"))
    truth = json.loads((golden / "real" / f"{REAL[name]}.json").read_text())
    prompt = next(item for item in truth["prompts"] if item["name"] == "once_upon")
    runner = prepare(row, checkpoint)
    steps = slice(0, 6)
    check_greedy(
        runner,
        prompt["ids"],
        prompt["greedy"][steps],
        prompt["margins"][steps],
        row.logprob_tolerance,
    )
