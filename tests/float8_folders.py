"""Folders in 8-bit floats: golden configurations with every width some times as large, and random
weights, written as codes with scales, or as the float32 values that these mean.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pyrite.formats.safetensors import read_safetensors
from pyrite.quant.float8 import VALUES

SIZES = (
    "hidden_size", "intermediate_size", "moe_intermediate_size", "num_attention_heads",
    "num_key_value_heads", "kv_lora_rank", "q_lora_rank",
)  # fmt: skip
BY_COLUMNS = ("embed_tokens.weight", "lm_head.weight", "mlp.gate.weight")  # rows stay
AS_THEY_ARE = ("q_norm.weight", "k_norm.weight", "e_score_correction_bias")
TYPES = {np.dtype(np.float32): "F32", np.dtype(np.uint8): "F8_E4M3"}

Parts = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Kind:
    """How projections are written: `scales` gives one for each group of a matrix; `groups` are rows
    and columns under one of them, 0 being all."""

    settings: Mapping[str, Any]
    groups: tuple[int, int]
    scale_name: str = "weight_scale"
    type: str = "E4M3"


def blocks(size: int) -> Kind:
    settings = {"quant_method": "fp8", "weight_block_size": [size, size]}
    return Kind(settings, (size, size), "weight_scale_inv")


def scheme(strategy: str) -> dict[str, Any]:
    weights = {"num_bits": 8, "type": "float", "symmetric": True, "strategy": strategy}
    return {
        "quant_method": "compressed-tensors",
        "format": "float-quantized",
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}},
    }


KINDS = {
    "blocks": blocks(128),
    "tensors": Kind({"quant_method": "fp8"}, (0, 0)),
    "rows": Kind(scheme("channel"), (1, 0)),
    "e5m2": Kind({"quant_method": "fp8", "fmt": "e5m2"}, (0, 0), type="E5M2"),
}


def enlarged(case: Path, factor: int) -> tuple[dict[str, Any], dict[str, tuple[int, ...]]]:
    """config.json's keys, and shapes by names."""
    config = json.loads((case / "config.json").read_text())
    config |= {key: config[key] * factor for key in SIZES if key in config}
    shapes = {
        entry.name: _larger(entry.name, entry.shape, factor, config.get("qk_rope_head_dim", 0))
        for entry in read_safetensors(case / "model.safetensors").entries
    }
    return config, shapes


def _larger(name: str, shape: tuple[int, ...], factor: int, turned: int) -> tuple[int, ...]:
    if name.endswith(AS_THEY_ARE):
        return shape
    rows, rest = shape[0], tuple(size * factor for size in shape[1:])
    if name.endswith(BY_COLUMNS):
        return rows, *rest
    beside = turned if name.endswith("kv_a_proj_with_mqa.weight") else 0
    return (rows - beside) * factor + beside, *rest


def write_folders(case: Path, factor: int, kind: Kind, packed: Path, plain: Path) -> None:
    """The same model twice: in 8-bit floats, and in float32."""
    random = np.random.default_rng(9)
    config, shapes = enlarged(case, factor)
    coded: dict[str, np.ndarray] = {}
    values: dict[str, np.ndarray] = {}
    for name, shape in shapes.items():
        own = _random(random, name, shape)
        if name.endswith("proj.weight") or "proj_with_mqa" in name:
            parts, own = quantized(own, kind)
            module = name.removesuffix("weight")
            coded |= {f"{module}{part}": data for part, data in parts.items()}
        else:
            coded[name] = own
        values[name] = own
    write(packed, config | {"quantization_config": dict(kind.settings)}, coded, kind.type)
    write(plain, config, values)


def _random(random: np.random.Generator, name: str, shape: tuple[int, ...]) -> np.ndarray:
    values = random.standard_normal(shape).astype(np.float32)
    if name.endswith("norm.weight"):
        return 1 + np.float32(0.3) * values
    return values * np.float32(1.5 / np.sqrt(shape[-1]) if len(shape) > 1 else 0.2)


def quantized(values: np.ndarray, kind: Kind) -> tuple[Parts, np.ndarray]:
    """Codes and scales, and what they mean."""
    rows, columns = (group or size for group, size in zip(kind.groups, values.shape, strict=True))
    counts = -(-values.shape[0] // rows), -(-values.shape[1] // columns)
    sizes = np.array([rows, columns]) * counts
    whole = np.zeros(sizes, np.float32)
    whole[: values.shape[0], : values.shape[1]] = np.abs(values)
    largest = whole.reshape(counts[0], rows, counts[1], columns).max(axis=(1, 3))
    numbers = VALUES[kind.type][np.isfinite(VALUES[kind.type])]
    scales = (largest / numbers.max()).astype(np.float32)
    wide = np.repeat(np.repeat(scales, rows, 0), columns, 1)[: values.shape[0], : values.shape[1]]
    codes = nearest(values / wide, kind.type)
    stored = scales.reshape(-1)[:1] if kind.groups == (0, 0) else scales
    return {"weight": codes, kind.scale_name: stored}, VALUES[kind.type][codes] * wide


def nearest(values: np.ndarray, type: str) -> np.ndarray:
    """The code of the number that is nearest to each."""
    numbers = VALUES[type]
    finite = np.flatnonzero(np.isfinite(numbers))
    order = finite[np.argsort(numbers[finite], kind="stable")]
    middles = (numbers[order][1:] + numbers[order][:-1]) / 2
    return order[np.searchsorted(middles, values)].astype(np.uint8)


def write(path: Path, config: Mapping[str, Any], tensors: Parts, type: str = "E4M3") -> None:
    """`safetensors` for NumPy has no such types: bytes are said to be of `type`."""
    path.mkdir()
    (path / "config.json").write_text(json.dumps(config))
    header, start = {}, 0
    for name, data in tensors.items():
        kind = f"F8_{type}" if data.dtype == np.uint8 else "F32"
        end = start + data.nbytes
        header[name] = {"dtype": kind, "shape": data.shape, "data_offsets": [start, end]}
        start = end
    text = json.dumps(header).encode()
    bodies = (np.ascontiguousarray(data).tobytes() for data in tensors.values())
    whole = b"".join([len(text).to_bytes(8, "little"), text, *bodies])
    (path / "model.safetensors").write_bytes(whole)


def changed(path: Path, change: Callable[[dict[str, np.ndarray]], None]) -> None:
    """A folder in E4M3 whose arrays were changed in place."""
    file = read_safetensors(path / "model.safetensors")
    arrays = {
        entry.name: np.array(file.data[entry.start : entry.end])
        .view(np.float32 if entry.type == "F32" else np.uint8)
        .reshape(entry.shape)
        for entry in file.entries
    }
    change(arrays)
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").unlink()
    (path / "model.safetensors").unlink()
    path.rmdir()
    write(path, config, arrays)
