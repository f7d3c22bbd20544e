"""Weights that are not finite are found by their types' own definition, and counted."""

from __future__ import annotations

import numpy as np
import pytest

import pyrite
from pyrite.cli.doctor import Fault
from pyrite.cli.main import main
from pyrite.cli.model_checkup import ModelChecks
from pyrite.errors import TensorError
from pyrite.formats.gguf import read_gguf
from pyrite.quant.dequant import dequantize
from pyrite.quant.formats import EXECUTED, FORMATS
from pyrite.quant.not_finite import find_in_floats, find_not_finite, may_have_any
from pyrite.quant.quantize import quantize


@pytest.mark.parametrize("kind", EXECUTED)
def test_what_is_found_is_what_the_values_are(kind: str):
    """Random bits: among them are infinite scales in most types."""
    row = FORMATS[kind]
    random = np.random.default_rng(0)
    seen = 0
    for _ in range(200):
        data = random.integers(0, 256, (3, 2 * row.block_bytes), np.uint8)
        columns = 2 * row.block_columns
        values = dequantize(data.reshape(-1), kind, (3, columns))
        wrong = np.argwhere(~np.isfinite(values))
        found = find_not_finite(data, kind, columns)
        assert (found is None) == (len(wrong) == 0)
        if found is not None:
            seen += 1
            assert (found.count, [found.row, found.column]) == (len(wrong), wrong[0].tolist())
            assert not np.isfinite(found.value)
            assert may_have_any(data, kind)
    few = ("F32", "F16", "BF16", "NVFP4")  # hardly any of so few values, or none at all
    assert seen > 0 or kind in few


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16"])
def test_each_value_of_floats_counts(kind: str):
    values = np.random.default_rng(1).standard_normal((6, 32), dtype=np.float32)
    data = quantize(values, kind)
    assert find_not_finite(data, kind, 32) is None
    item = {"F32": np.float32, "F16": np.float16}.get(kind, np.uint16)
    broken = data.view(item).copy()
    broken[4, 7], broken[4, 9], broken[5, 0] = (
        (0x7F80, 0xFFC0, 0x7FC0) if kind == "BF16" else (np.inf, np.nan, -np.inf)
    )
    found = find_not_finite(broken.view(np.uint8), kind, 32)
    assert (found.count, found.row, found.column, found.value) == (3, 4, 7, np.inf)


@pytest.mark.parametrize("kind", ["Q4_K", "Q8_0", "MXFP4", "IQ4_NL"])
def test_usual_blocks_need_not_become_floats(kind: str):
    if kind == "MXFP4":
        data = np.full((4, FORMATS[kind].block_bytes), 120, np.uint8)
    else:
        values = np.random.default_rng(2).standard_normal((4, 256), dtype=np.float32)
        data = quantize(values, kind)
    assert not may_have_any(data, kind)


def test_the_doctor_sees_them_in_a_model(golden, tmp_path):
    path = tmp_path / "model.gguf"
    data = bytearray((golden / "gguf_models" / "llama_q8_0.gguf").read_bytes())
    place = next(
        one
        for one in read_gguf(golden / "gguf_models" / "llama_q8_0.gguf").tensors
        if one.name == "blk.1.ffn_up.weight"
    )
    data[place.end - 34 : place.end - 32] = b"\x00\x7c"  # the scale of the last block
    path.write_bytes(data)
    with pytest.raises(Fault, match=r"not a number in 1: blk\.1\.ffn_up\.weight"):
        ModelChecks(path, 1).tensors()


@pytest.mark.parametrize(
    "name",
    [
        "blk.1.ffn_gate_inp.weight",
        "blk.1.exp_probs_b.bias",
        "blk.2.ffn_norm.weight",
        "output.weight",
    ],
)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_model_with_one_is_not_loaded(golden, tmp_path, name: str, value: float):
    """A router may hide it: the expert is never asked. Nothing of it is kept for the next load."""
    path = tmp_path / "model.gguf"
    assert main(["convert", str(golden / "tiny" / "glm4_moe_lite"), str(path)]) == 0
    place = next(one for one in read_gguf(path).tensors if one.name == name)
    data = bytearray(path.read_bytes())
    data[place.end - 4 : place.end] = np.float32(value).tobytes()
    path.write_bytes(data)
    for _ in range(2):
        with pytest.raises(TensorError, match=f"tensor {name} holds a value that is not finite"):
            pyrite.load(path, threads=1)
    assert main(["doctor", str(path), "-t", "1"]) == 1


def test_one_and_many_are_told():
    values = np.zeros((2, 3), np.float32)
    assert find_in_floats(values) is None
    values[1, 2] = np.nan
    said = str(find_in_floats(values).error("a.weight"))
    assert said.startswith("tensor a.weight holds a value that is not finite: the first is nan")
    values[0, 1] = np.inf
    said = str(find_in_floats(values).error("a.weight"))
    assert "2 values that are not finite: the first is inf, in row 0, column 1" in said
