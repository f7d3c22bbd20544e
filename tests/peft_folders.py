"""Adapters as PEFT writes them, with random matrices, and models with an adapter merged."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from pyrite.formats import derived
from pyrite.formats.checkpoint import Checkpoint
from pyrite.models.registry import as_model
from pyrite.quant.dequant import dequantize

RANK, ALPHA = 4, 6.0
MODULES = ("self_attn.q_proj", "self_attn.v_proj", "mlp.down_proj", "mlp.gate_proj")

Added = dict[str, NDArray[np.float32]]  # to each weight


def write_peft(
    path: Path,
    base: Checkpoint,
    modules: Sequence[str],
    seed: int,
    rank: int = RANK,
    **config: object,
) -> Added:
    """A folder as PEFT writes it; gives what it adds to each weight."""
    random = np.random.default_rng(seed)
    tensors, added = {}, {}
    for name, tensor in base.tensors.items():
        if not any(name.endswith(module + ".weight") for module in modules):
            continue
        rows, columns = tensor.shape
        down = random.standard_normal((rank, columns)).astype(np.float32) / np.float32(columns**0.5)
        up = random.standard_normal((rows, rank)).astype(np.float32) * np.float32(0.3)
        module = "base_model.model." + name.removesuffix(".weight")
        tensors |= {f"{module}.lora_A.weight": down, f"{module}.lora_B.weight": up}
        added[name] = (up * np.float32(ALPHA / rank)) @ down
    path.mkdir()
    save_file(tensors, path / "adapter_model.safetensors")
    settings = {"peft_type": "LORA", "r": rank, "lora_alpha": ALPHA, "bias": "none"}
    (path / "adapter_config.json").write_text(json.dumps({**settings, **config}))
    return added


def merged(base: Checkpoint, added: Added) -> Checkpoint:
    """Experts in one type, adapted or not: they make one tensor."""
    tensors = {
        name: derived.as_float32(tensor) if ".experts." in name else tensor
        for name, tensor in base.tensors.items()
    }
    for name, more in added.items():
        tensor = tensors[name]
        values = dequantize(tensor.read(), tensor.type, tensor.shape) + more
        tensors[name] = derived.held(name, values)
    return as_model(replace(base, tensors=tensors))
