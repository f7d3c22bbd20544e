"""A member of each family beside llama.cpp: true shapes, random weights, Q4_0.

    python benchmarks/families.py --llama-bench FILE [--families olmo2,mamba] [--rounds 2]

Shapes come from the configuration by way of transformers (`peers.py` installs it), weights from one
buffer of random numbers, the file from Pyrite's own converter. Prompt and decode are timed in turn,
ours, theirs. The table says where llama.cpp does not run a family.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pyrite.config import cache_home
from pyrite.conversion import convert, find_recipe, plan_conversion
from pyrite.export import as_gguf_file
from pyrite.formats.checkpoint import Checkpoint, Tensor
from pyrite.formats.derived import encoded
from pyrite.formats.token_table import string_table

HERE = Path(__file__).resolve().parent
BUFFER_VALUES = 1 << 22
PROMPT, DECODE = 256, 32

LLAMA = {
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": True,
    "max_position_embeddings": 4096,
}


def of(kind: str, **more: Any) -> dict[str, Any]:
    """Of a model with another epsilon, the common one is left out."""
    common = dict(LLAMA)
    if "layer_norm_eps" in more:
        del common["rms_norm_eps"]
    return {**common, "model_type": kind, **more}


def sized(width: int, inner: int, layers: int, heads: int, key_heads: int, rows: int) -> dict:
    return {
        "hidden_size": width,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": key_heads,
        "vocab_size": rows,
    }


# Published members of 1 to 3 billion weights; of those that have none, fewer layers.
MODELS: Mapping[str, dict[str, Any]] = {
    "llama": of("llama", **sized(2048, 8192, 16, 32, 8, 128256)),
    "qwen3": of("qwen3", head_dim=128, **sized(2048, 6144, 28, 16, 8, 151936)),
    "olmo2": of("olmo2", **sized(2048, 8192, 16, 16, 16, 100352)),
    "granite": of("granite", **sized(2048, 8192, 40, 32, 8, 49152)),
    "smollm3": of("smollm3", **sized(2048, 11008, 36, 16, 4, 128256)),
    "stablelm": of(
        "stablelm", partial_rotary_factor=0.25, use_qkv_bias=True, layer_norm_eps=1e-5,
        **sized(2048, 5632, 24, 32, 32, 100352),
    ),
    "phi3": of("phi3", pad_token_id=0, **sized(3072, 8192, 16, 32, 32, 32064)),
    "gemma2": of(
        "gemma2", head_dim=256, hidden_activation="gelu_pytorch_tanh",
        **sized(2304, 9216, 26, 8, 4, 256000),
    ) | {"hidden_act": "gelu_pytorch_tanh"},
    "granitemoe": of(
        "granitemoe", num_local_experts=32, num_experts_per_tok=8,
        **sized(1024, 512, 24, 16, 8, 49152),
    ),
    "olmoe": of(
        "olmoe", num_experts=64, num_experts_per_tok=8, **sized(2048, 1024, 6, 16, 16, 50304),
    ),
    "lfm2": {
        "model_type": "lfm2", "block_auto_adjust_ff_dim": False, "conv_L_cache": 3,
        "conv_bias": False, "norm_eps": 1e-5, "rope_theta": 1e6, "tie_embedding": True,
        "max_position_embeddings": 4096, **sized(2048, 8192, 16, 32, 8, 65536),
        "layer_types": [
            "full_attention" if index in (2, 5, 8, 10, 12, 14) else "conv" for index in range(16)
        ],
    },
    "mamba": {
        "model_type": "mamba", "hidden_size": 2048, "num_hidden_layers": 48, "state_size": 16,
        "vocab_size": 50280, "expand": 2, "conv_kernel": 4, "time_step_rank": 128,
        "layer_norm_epsilon": 1e-5, "hidden_act": "silu", "tie_word_embeddings": True,
    },
    "mamba2": {
        "model_type": "mamba2", "hidden_size": 2048, "num_hidden_layers": 48, "state_size": 128,
        "vocab_size": 50280, "expand": 2, "conv_kernel": 4, "num_heads": 64, "head_dim": 64,
        "n_groups": 1, "chunk_size": 256, "layer_norm_epsilon": 1e-5, "hidden_act": "silu",
        "tie_word_embeddings": True, "rms_norm": True,
    },
}  # fmt: skip


def shapes_of(config: Mapping[str, Any], python: Path) -> dict[str, tuple[int, ...]]:
    driver = HERE / "drivers" / "shapes_transformers.py"
    done = subprocess.run(
        [str(python), "-P", str(driver)],
        input=json.dumps(config).encode(),
        capture_output=True,
        check=True,
    )
    return dict(as_published(config, json.loads(done.stdout)))


def as_published(
    config: Mapping[str, Any], shapes: Mapping[str, list[int]]
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """transformers holds experts in other pieces than files do."""
    for name, shape in shapes.items():
        before, _, last = name.rpartition(".experts.")
        if before and config["model_type"] == "granitemoe":
            kind = "input_linear" if last == "gate_up_proj" else "output_linear"
            yield f"{before}.{kind}.weight", tuple(shape)
        elif before:
            yield from _by_expert(f"{before}.experts", last, shape)
        elif name.endswith("block_sparse_moe.router.weight"):
            yield name.replace("router.weight", "router.layer.weight"), tuple(shape)
        else:
            yield name, tuple(shape)


def _by_expert(before: str, last: str, shape: list[int]) -> Iterator[tuple[str, tuple[int, ...]]]:
    count, rows, columns = shape
    names = ("down_proj",) if last == "down_proj" else ("gate_proj", "up_proj")
    for expert in range(count):
        for name in names:
            yield f"{before}.{expert}.{name}.weight", (rows // len(names), columns)


def random_folder(config: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> Checkpoint:
    """Each tensor reads its values from one buffer: matrices of unit gain, norms of ones."""
    values = np.random.default_rng(1).standard_normal(BUFFER_VALUES).astype(np.float32)
    noise = encoded(values, "BF16").view(np.uint16)
    ones = encoded(np.ones(1 << 16, np.float32), "BF16").view(np.uint16)
    tensors = {}
    for name, shape in shapes.items():
        if len(shape) == 1:
            tensors[name] = Tensor(name, "BF16", shape, ones[: shape[0]].view(np.uint8))
        else:
            data = noise.view(np.uint8)
            tensors[name] = Tensor(name, "BF16", shape, data, maker(noise, shape))
    return Checkpoint(HERE, "safetensors", config["model_type"], config, tensors)


def maker(source: Any, shape: tuple[int, ...]) -> Any:
    columns = shape[-1]

    def make(first: int, count: int) -> Any:
        start = first * 31 % 977
        needed = count * columns
        repeated = np.resize(source[start:], needed)
        # Scaled to unit gain by the exponent alone.
        shift = np.uint16(round(np.log2(max(2.0, columns)) / 2))
        exponent = repeated >> np.uint16(7) & np.uint16(0xFF)
        kept = repeated - (shift << np.uint16(7))
        return np.where(exponent > shift, kept, np.uint16(0)).astype(np.uint16).view(np.uint8)

    return make


def write_model(name: str, python: Path, folder: Path) -> Path:
    """The GGUF file; made once."""
    out = folder / f"family-{name}-q4_0.gguf"
    if out.exists():
        return out
    config = MODELS[name]
    file, _ = as_gguf_file(random_folder(config, shapes_of(config, python)))
    rows = file.tensors["token_embd.weight"].shape[0]
    file = replace(file, metadata={**file.metadata, **tokenizer(rows)})
    folder.mkdir(parents=True, exist_ok=True)
    convert(plan_conversion(file, find_recipe("q4_0")), out, os.cpu_count() or 1)
    return out


def tokenizer(rows: int) -> dict[str, Any]:
    """A vocabulary of bytes and made-up words, for engines that want one."""
    texts = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    texts += [f"w{index}" for index in range(rows - len(texts))]
    kinds = np.array([2, 3, 3, *[6] * 256, *[1] * (rows - 259)], np.int32)
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": string_table(texts),
        "tokenizer.ggml.scores": -np.arange(rows, dtype=np.float32),
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
    }


def ours(model: Path, threads: int) -> tuple[float, float]:
    command = [sys.executable, "-m", "pyrite", "bench", str(model), "-p", str(PROMPT)]
    command += ["-n", str(DECODE), "-r", "1", "-t", str(threads), "-o", "json"]
    rows = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return speeds(rows)


def theirs(model: Path, threads: int, program: Path) -> tuple[float, float] | None:
    command = [str(program), "-m", str(model), "-p", str(PROMPT), "-n", str(DECODE), "-r", "1"]
    command += ["-t", str(threads), "-o", "json"]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        return None
    rows = {bool(row["n_prompt"]): row["avg_ts"] for row in json.loads(done.stdout)}
    return rows[True], rows[False]


def speeds(told: Any) -> tuple[float, float]:
    found = {row["test"][:2]: row["tokens_per_second"] for row in told}
    return found["pp"], found["tg"]


def measure(name: str, model: Path, options: argparse.Namespace) -> str:
    pairs = []
    for _ in range(options.rounds):
        own = ours(model, options.threads)
        other = theirs(model, options.threads, options.llama_bench)
        if other is None:
            size = model.stat().st_size / 1e9
            return f"| {name} | {size:.2f} | {own[0]:.0f} | {own[1]:.1f} | not run there | |"
        pairs.append((own, other))
    cells = []
    for work in (0, 1):
        ratios = [own[work] / other[work] for own, other in pairs]
        own = statistics.median(own[work] for own, _ in pairs)
        cells.append(
            (own, f"{statistics.median(ratios):.2f} ({min(ratios):.2f}, {max(ratios):.2f})")
        )
    size = model.stat().st_size / 1e9
    (prompt, first), (decode, second) = cells
    return f"| {name} | {size:.2f} | {prompt:.0f} | {decode:.1f} | {first} | {second} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--llama-bench", type=Path, required=True)
    parser.add_argument("--transformers", type=Path, required=True, help="its Python")
    parser.add_argument("--families", default=",".join(MODELS))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--keep", action="store_true", help="leave the files where they are")
    options = parser.parse_args()
    print("| family | GB | prompt t/s | decode t/s | prompt ratio | decode ratio |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name in options.families.split(","):
        model = write_model(name, options.transformers, cache_home() / "benchmarks")
        print(measure(name, model, options), flush=True)
        if not options.keep:
            model.unlink()


if __name__ == "__main__":
    main()
