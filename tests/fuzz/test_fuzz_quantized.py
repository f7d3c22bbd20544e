"""Folders of quantized weights with a setting or a tensor changed: a step that runs, or a typed
error."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit import test_prequantized as folders

from pyrite.backends.cpu import CpuBackend
from pyrite.errors import PyriteError
from pyrite.formats.checkpoint import Checkpoint, Tensor, open_checkpoint
from pyrite.formats.safetensors import ITEM_BYTES
from pyrite.models.registry import as_model, build_plan
from steps import num_pages, sequence_logits

EXAMPLES = 250
IDS = [3, 5, 7, 5, 11]
VALUES = (None, True, -1, 0, 1, 3, 4, 5, 8, 16, 32, 33, 64, 128, 2**40, 0.5, "", "x", [], {})
VALUES += ("gptq", "awq", "fp8", "gptq_v2", "marlin", "gemv", "pack-quantized", [2, 2], [128, 128])
KINDS = ("gptq", "gptq in another order", "awq", "packed", "packed with zeros", "packed of 8 bits")


def runs(checkpoint: Checkpoint) -> bool:
    """Whether a step of it ran; every error must be one of ours."""
    try:
        model = as_model(checkpoint)
        runner = CpuBackend().prepare(
            build_plan(model),
            model.tensors,
            num_pages=num_pages(32),
            max_tokens=32,
            num_threads=1,
            precision="default",
        )
        sequence_logits(runner, IDS)
    except PyriteError:
        return False
    return True


def with_setting(draw: Any, config: dict[str, Any]) -> dict[str, Any]:
    """A value anywhere in it replaced, or taken out."""
    config = copy.deepcopy(config)
    place: Any = config
    while True:
        key = draw(st.sampled_from(list(place) if isinstance(place, dict) else range(len(place))))
        if isinstance(place[key], dict | list) and place[key] and draw(st.integers(0, 4)):
            place = place[key]
            continue
        if draw(st.integers(0, 4)):
            place[key] = draw(st.sampled_from(VALUES))
        else:
            del place[key]
        return config


def with_tensor(draw: Any, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """A part of a quantized matrix of another type or shape or content; or without it."""
    tensors = dict(tensors)
    name = draw(st.sampled_from([name for name in tensors if "proj" in name]))
    one = tensors.pop(name)
    what = draw(st.sampled_from(["out", "type", "shape", "shape", "bytes", "bytes"]))
    if what == "out":
        return tensors
    kind, shape = one.type, one.shape
    if what == "type":
        kind = draw(st.sampled_from(sorted(ITEM_BYTES)))
    if what == "shape":
        rows, columns = shape[0], shape[-1]
        others = [shape[::-1], (rows * columns,), (1, *shape), (rows + 1, columns), (rows, 1)]
        others += [(1,), (rows, columns * 2), (1, columns), (rows * 2, max(1, columns // 2))]
        shape = draw(st.sampled_from(others))
    size = int(np.prod(shape)) * ITEM_BYTES[kind]
    byte = draw(st.sampled_from([0, 0x11, 0x7F, 0xFF]))
    tensors[name] = Tensor(name, kind, tuple(shape), np.full(size, byte, np.uint8))
    return tensors


def made(golden: Path, path: Path, kind: str) -> Checkpoint:
    config, make, bits, symmetric, is_mixed = folders.CASES[kind]
    random = np.random.default_rng(7)

    def parts(shape: tuple[int, int]) -> Any:
        matrix = folders.Matrix(random, *shape, bits, symmetric)
        if is_mixed:
            matrix.order = random.permutation(matrix.order)
        return make(matrix, bits), matrix.values()

    folders.folder_of(golden, path, config, parts)
    return open_checkpoint(path)


@pytest.mark.parametrize("kind", KINDS)
def test_changed_folders(golden: Path, tmp_path: Path, kind: str) -> None:
    base = made(golden, tmp_path / "base", kind)
    assert runs(base)
    check(base)


@pytest.mark.parametrize("blocks", [True, False])
def test_changed_folders_of_eight_bits(golden: Path, tmp_path: Path, blocks: bool) -> None:
    """Floats with a scale a block, integers with one a row."""
    random = np.random.default_rng(7)

    def parts(shape: tuple[int, int]) -> Any:
        codes = random.integers(-120, 120, shape).astype(np.int8)
        if blocks:
            codes = codes.view(np.uint8)
            codes[codes & 0x7F == 0x7F] = 1  # no NaN
            grid = (-(-shape[0] // 16), -(-shape[1] // 16))
            return {"weight": codes, "weight_scale_inv": np.full(grid, 0.01, np.float32)}, None
        return {"weight": codes, "weight_scale": np.full((shape[0], 1), 0.001, np.float32)}, None

    config = {"quant_method": "fp8", "weight_block_size": [16, 16]}
    config = config if blocks else folders.scheme(8, "int-quantized")
    folders.folder_of(golden, tmp_path / "base", config, parts)
    if blocks:
        folders.retype(tmp_path / "base" / "model.safetensors")
    base = open_checkpoint(tmp_path / "base")
    assert runs(base)
    check(base)


def check(base: Checkpoint) -> None:
    counts = {True: 0, False: 0}

    @settings(max_examples=EXAMPLES)
    @given(data=st.data())
    def one_folder(data: Any) -> None:
        if data.draw(st.booleans()):
            config = with_setting(data.draw, base.metadata["quantization_config"])
            metadata = {**base.metadata, "quantization_config": config}
            changed = replace(base, metadata=metadata)
        else:
            changed = replace(base, tensors=with_tensor(data.draw, dict(base.tensors)))
        counts[runs(changed)] += 1

    one_folder()
    assert min(counts.values()) >= 5, counts
