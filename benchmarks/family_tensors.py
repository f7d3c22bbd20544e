"""The tensors of a published member, with its names and shapes and random numbers in them.

Shapes come from the configuration by way of transformers, and by hand where that lacks a family;
numbers from one buffer, so that no memory is needed for a model.
"""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pyrite.formats.checkpoint import Checkpoint, Tensor
from pyrite.formats.derived import encoded

HERE = Path(__file__).resolve().parent
BUFFER_VALUES = 1 << 22
EXPONENT = 120  # of MXFP4 blocks, so that a row of some thousand columns has unit gain

Config = Mapping[str, Any]
Shape = tuple[int, ...]
# Of an expert's matrices: gate, up, down; where they are not gate_proj, up_proj, down_proj.
EXPERT_PARTS = {"mixtral": ("w1", "w3", "w2"), "lfm2_moe": ("w1", "w3", "w2")}


def shapes_of(config: Config, python: Path) -> dict[str, Shape]:
    """`python`: of an environment with transformers."""
    if config["model_type"] in BY_HAND:
        return dict(BY_HAND[config["model_type"]](config))
    driver = HERE / "drivers" / "shapes_transformers.py"
    text = json.dumps(dict(config)).encode()
    command = [str(python), "-P", str(driver)]
    done = subprocess.run(command, input=text, capture_output=True, check=True)
    return dict(as_published(config, json.loads(done.stdout)))


def as_published(config: Config, shapes: Mapping[str, list[int]]) -> Iterator[tuple[str, Shape]]:
    """transformers holds experts in other pieces than files do."""
    kind = config["model_type"]
    for name, shape in shapes.items():
        before, _, last = name.rpartition(".experts.")
        if kind == "mixtral":
            before, name = (text.replace(".mlp", ".block_sparse_moe") for text in (before, name))
        if before and kind == "granitemoe":
            part = "input_linear" if last == "gate_up_proj" else "output_linear"
            yield f"{before}.{part}.weight", tuple(shape)
        elif before and kind == "gpt_oss":
            yield from _in_blocks(name, shape)
        elif before:
            gate, up, down = EXPERT_PARTS.get(kind, ("gate_proj", "up_proj", "down_proj"))
            parts = (down,) if last == "down_proj" else (gate, up)
            yield from _by_expert(f"{before}.experts", parts, shape)
        elif name.endswith("block_sparse_moe.router.weight"):
            yield name.replace("router.weight", "router.layer.weight"), tuple(shape)
        else:
            yield name, tuple(shape)


def _by_expert(
    before: str, parts: tuple[str, ...], shape: list[int]
) -> Iterator[tuple[str, Shape]]:
    count, rows, columns = shape
    for expert in range(count):
        for part in parts:
            yield f"{before}.{expert}.{part}.weight", (rows // len(parts), columns)


def _in_blocks(name: str, shape: list[int]) -> Iterator[tuple[str, Shape]]:
    """GPT-OSS's experts as they are published: codes of 32 columns in 16 bytes, and scales."""
    if len(shape) == 2:
        yield name, tuple(shape)
        return
    count, columns, rows = shape
    yield f"{name}_blocks", (count, rows, columns // 32, 16)
    yield f"{name}_scales", (count, rows, columns // 32)


def deepseek(config: Config) -> Iterator[tuple[str, Shape]]:
    """V1, which transformers has no code for: Llama's layers, of which most have experts."""
    width, rows = config["hidden_size"], config["vocab_size"]
    inner, count = config["moe_intermediate_size"], config["n_routed_experts"]
    yield "model.embed_tokens.weight", (rows, width)
    for layer in range(config["num_hidden_layers"]):
        name = f"model.layers.{layer}."
        for part in "qkvo":
            yield f"{name}self_attn.{part}_proj.weight", (width, width)
        for part in ("input_layernorm", "post_attention_layernorm"):
            yield f"{name}{part}.weight", (width,)
        if layer < config["first_k_dense_replace"]:
            yield from _gated(f"{name}mlp.", width, config["intermediate_size"])
            continue
        yield f"{name}mlp.gate.weight", (count, width)
        yield from _gated(f"{name}mlp.shared_experts.", width, inner * config["n_shared_experts"])
        for expert in range(count):
            yield from _gated(f"{name}mlp.experts.{expert}.", width, inner)
    yield "model.norm.weight", (width,)
    yield "lm_head.weight", (rows, width)


def _gated(name: str, width: int, inner: int) -> Iterator[tuple[str, Shape]]:
    yield f"{name}gate_proj.weight", (inner, width)
    yield f"{name}up_proj.weight", (inner, width)
    yield f"{name}down_proj.weight", (width, inner)


def rwkv7(config: Config) -> Iterator[tuple[str, Shape]]:
    """As the published .pth files have it."""
    width, rows, inner = (config[key] for key in ("hidden_size", "vocab_size", "intermediate_size"))
    yield "emb.weight", (rows, width)
    for layer in range(config["num_hidden_layers"]):
        name = f"blocks.{layer}."
        norms = ("ln0", "ln1", "ln2", "att.ln_x") if layer == 0 else ("ln1", "ln2", "att.ln_x")
        for part in norms:
            yield f"{name}{part}.weight", (width,)
            yield f"{name}{part}.bias", (width,)
        for part in ("receptance", "key", "value", "output"):
            yield f"{name}att.{part}.weight", (width, width)
        for part in ("x_r", "x_w", "x_k", "x_v", "x_a", "x_g", "k_k", "k_a"):
            yield f"{name}att.{part}", (1, 1, width)
        yield f"{name}att.r_k", (config["num_heads"], config["head_size"])
        for part, key in (("w", "decay"), ("a", "a"), ("v", "v"), ("g", "gate")):
            if part == "v" and layer == 0:
                continue
            rank = config[f"{key}_low_rank_dim"]
            if part != "g":
                yield f"{name}att.{part}0", (1, 1, width)
            yield f"{name}att.{part}1", (width, rank)
            yield f"{name}att.{part}2", (rank, width)
        yield f"{name}ffn.x_k", (1, 1, width)
        yield f"{name}ffn.key.weight", (inner, width)
        yield f"{name}ffn.value.weight", (width, inner)
    yield "ln_out.weight", (width,)
    yield "ln_out.bias", (width,)
    yield "head.weight", (rows, width)


BY_HAND = {"deepseek": deepseek, "rwkv7": rwkv7}


def random_folder(config: Config, shapes: Mapping[str, Shape]) -> Checkpoint:
    """Each tensor reads its numbers from one buffer: matrices of unit gain, norms of ones."""
    values = np.random.default_rng(1).standard_normal(BUFFER_VALUES).astype(np.float32)
    noise = encoded(values, "BF16").view(np.uint16)
    ones = encoded(np.ones(1 << 17, np.float32), "BF16").view(np.uint8)
    tensors = {name: _tensor(name, shape, noise, ones) for name, shape in shapes.items()}
    return Checkpoint(HERE, "safetensors", config["model_type"], config, tensors)


def _tensor(name: str, shape: Shape, noise: Any, ones: Any) -> Tensor:
    count = math.prod(shape)
    if name.endswith("_blocks"):
        codes = np.random.default_rng(2).integers(0, 256, 1 << 22, np.uint8)
        return Tensor(name, "U8", shape, np.resize(codes, count))
    if name.endswith("_scales"):
        return Tensor(name, "U8", shape, np.full(count, EXPONENT, np.uint8))
    if len(shape) == 1:
        return Tensor(name, "BF16", shape, ones[: 2 * count])
    return Tensor(name, "BF16", shape, noise.view(np.uint8), maker(noise, shape))


def maker(source: Any, shape: Shape) -> Any:
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
