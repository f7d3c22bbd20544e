"""Folders of quantized weights: the values that the formats' definitions give, packed the way they
say, run as models."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from pyrite.backends.cpu import CpuBackend
from pyrite.backends.reference import ReferenceBackend
from pyrite.errors import ModelError
from pyrite.formats.checkpoint import open_checkpoint
from pyrite.formats.safetensors import read_safetensors
from pyrite.models.registry import as_model, build_plan, open_model
from pyrite.quant.dequant import dequantize
from pyrite.quant.float8 import VALUES
from steps import num_pages, sequence_logits

GROUP = 32
AWQ = (0, 2, 4, 6, 1, 3, 5, 7)
WIDTHS = {"q_proj": 64, "k_proj": 32, "v_proj": 32, "o_proj": 64}
IDS = list(range(3, 40))


def pack(codes, bits: int, axis: int, order=None):
    """Codes of an axis into words of 32 bits, the lowest first; place i holds number order[i]."""
    per_word = 32 // bits
    moved = np.moveaxis(codes.astype(np.uint32), axis, -1)
    grouped = moved.reshape(*moved.shape[:-1], -1, per_word)
    words = np.zeros(grouped.shape[:-1], np.uint32)
    for place in range(per_word):
        number = place if order is None else order[place]
        words |= grouped[..., number] << np.uint32(bits * place)
    return np.moveaxis(words, -1, axis).view(np.int32)


class Matrix:
    """Random codes, zeros and scales of a matrix (outputs, inputs), and what they mean."""

    def __init__(self, random, outputs: int, inputs: int, bits: int, symmetric: bool) -> None:
        self.inputs = inputs
        groups = inputs // GROUP
        self.codes = random.integers(0, 1 << bits, (outputs, inputs))
        half = 1 << (bits - 1)
        low = random.integers(1, 1 << bits, (outputs, groups))
        self.zeros = np.full((outputs, groups), half) if symmetric else low
        scale = random.uniform(0.5, 1.5, (outputs, groups)) * 0.3 / half
        self.scales = scale.astype(np.float16)
        self.order = np.arange(inputs) // GROUP

    def values(self):
        zeros, scales = self.zeros[:, self.order], self.scales[:, self.order].astype(np.float32)
        return ((self.codes - zeros) * scales).astype(np.float32)


def gptq(matrix: Matrix, bits: int):
    return {
        "qweight": pack(matrix.codes.T, bits, 0),
        "qzeros": pack(matrix.zeros.T - 1, bits, 1),
        "scales": np.ascontiguousarray(matrix.scales.T),
        "g_idx": matrix.order.astype(np.int32),
    }


def awq(matrix: Matrix, bits: int):
    return {
        "qweight": pack(matrix.codes.T, bits, 1, AWQ),
        "qzeros": pack(matrix.zeros.T, bits, 1, AWQ),
        "scales": np.ascontiguousarray(matrix.scales.T),
    }


def packed(matrix: Matrix, bits: int):
    found = {
        "weight_packed": pack(matrix.codes, bits, 1),
        "weight_scale": matrix.scales,
        "weight_shape": np.array(matrix.codes.shape, np.int64),
    }
    if bits == 4 and (matrix.zeros != 8).any():
        found["weight_zero_point"] = pack(matrix.zeros, bits, 0)
    return found


def scheme(bits: int, form: str = "pack-quantized"):
    weights = {"num_bits": bits, "type": "int", "symmetric": True, "group_size": GROUP}
    return {
        "quant_method": "compressed-tensors",
        "format": form,
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}},
    }


GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "desc_act": False}
CASES = {
    "gptq": (GPTQ | {"sym": True}, gptq, 4, True, False),
    "gptq with zeros": (GPTQ | {"sym": False}, gptq, 4, False, False),
    "gptq of 8 bits": (GPTQ | {"sym": True, "bits": 8}, gptq, 8, True, False),
    "gptq in another order": (GPTQ | {"sym": False, "desc_act": True}, gptq, 4, False, True),
    "awq": (
        {"quant_method": "awq", "bits": 4, "group_size": GROUP, "version": "gemm"},
        awq,
        4,
        False,
        False,
    ),
    "packed": (scheme(4), packed, 4, True, False),
    "packed with zeros": (scheme(4), packed, 4, False, False),
    "packed of 8 bits": (scheme(8), packed, 8, True, False),
}


def folder_of(golden: Path, path: Path, settings: dict, make) -> dict:
    """Llama's folder with projections that `make` quantizes; gives their values by name."""
    shutil.copytree(golden / "tiny" / "llama", path)
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(config | {"quantization_config": settings}))
    kept, values = {}, {}
    for name, (shape, data) in floats(path / "model.safetensors").items():
        if name.endswith("proj.weight"):
            parts, values[name] = make(shape)
            module = name.removesuffix(".weight")
            kept |= {f"{module}.{kind}": np.ascontiguousarray(one) for kind, one in parts.items()}
        else:
            kept[name] = data
    save_file(kept, path / "model.safetensors")
    return values


def floats(path: Path):
    """Every tensor of floats, in float32: NumPy has no bfloat16."""
    file = read_safetensors(path)
    found = {}
    for entry in file.entries:
        if entry.type not in ("F32", "F16", "BF16"):
            continue
        data = np.array(file.data[entry.start : entry.end])
        found[entry.name] = (entry.shape, dequantize(data, entry.type, entry.shape))
    return found


def logits(path: Path, backend):
    model = open_model(path)
    runner = backend.prepare(
        build_plan(model),
        model.tensors,
        num_pages=num_pages(64),
        max_tokens=64,
        num_threads=1,
        precision="default",
    )
    return sequence_logits(runner, IDS)


def check(
    path: Path, values: dict, tmp_path: Path, *, rounded: bool, tolerance: float = 1e-5
) -> None:
    """The same as a folder of those values in float32; `rounded`: to float16 before. `tolerance`
    is the reference's, whose sums are in the order of the matrix's columns."""
    plain = tmp_path / "plain"
    shutil.copytree(path, plain)
    config = json.loads((plain / "config.json").read_text())
    del config["quantization_config"]
    (plain / "config.json").write_text(json.dumps(config))
    found = floats(plain / "model.safetensors")
    if rounded:
        halves = {name: data.astype(np.float16) for name, data in values.items()}
        values = {name: data.astype(np.float32) for name, data in halves.items()}
    kept = {name: data for name, (_, data) in found.items() if "proj" not in name}
    save_file(kept | values, plain / "model.safetensors")
    expected = logits(plain, ReferenceBackend())
    assert np.abs(logits(path, ReferenceBackend()) - expected).max() < tolerance * expected.std()
    assert np.abs(logits(path, CpuBackend()) - expected).max() < 3e-2 * expected.std()


@pytest.mark.parametrize("case", CASES)
def test_integers(golden: Path, tmp_path: Path, case: str):
    settings, write, bits, symmetric, shuffled = CASES[case]
    random = np.random.default_rng(5)

    def make(shape):
        matrix = Matrix(random, *shape, bits, symmetric)
        if shuffled:
            random.shuffle(matrix.order)
        return write(matrix, bits), matrix.values()

    path = tmp_path / "model"
    values = folder_of(golden, path, settings, make)
    check(path, values, tmp_path, rounded=False, tolerance=3e-5 if shuffled else 1e-5)


def test_rows_of_eight_bits(golden: Path, tmp_path: Path):
    random = np.random.default_rng(6)

    def make(shape):
        codes = random.integers(-127, 128, shape).astype(np.int8)
        scales = random.uniform(1e-3, 3e-3, (shape[0], 1)).astype(np.float16)
        return {"weight": codes, "weight_scale": scales}, codes * scales.astype(np.float32)

    path = tmp_path / "model"
    values = folder_of(golden, path, scheme(8, "int-quantized"), make)
    check(path, values, tmp_path, rounded=False)


@pytest.mark.parametrize("blocks", [None, [16, 24]])
def test_eight_bit_floats(golden: Path, tmp_path: Path, blocks):
    """`safetensors` for NumPy has no such type: the header is rewritten."""
    random = np.random.default_rng(7)

    def make(shape):
        codes = random.integers(0, 256, shape).astype(np.uint8)
        codes[(codes & 0x7F) == 0x7F] = 1  # no NaN
        values = VALUES["E4M3"][codes]
        if blocks is None:
            scale = np.array([2e-3], np.float32)
            return {"weight": codes, "weight_scale": scale}, values * scale
        counts = [-(-size // block) for size, block in zip(shape, blocks, strict=True)]
        scale = random.uniform(1e-3, 3e-3, counts).astype(np.float32)
        wide = np.repeat(np.repeat(scale, blocks[0], 0), blocks[1], 1)[: shape[0], : shape[1]]
        return {"weight": codes, "weight_scale_inv": scale}, values * wide

    path = tmp_path / "model"
    settings = {"quant_method": "fp8", "weight_block_size": blocks}
    values = folder_of(golden, path, settings, make)
    retype(path / "model.safetensors")
    check(path, values, tmp_path, rounded=True)


def test_blocks_of_eight_bit_floats_by_a_scheme(golden: Path, tmp_path: Path):
    """compressed-tensors has the size of blocks in the scheme, and the scales as weight_scale."""
    random = np.random.default_rng(8)

    def make(shape):
        codes = random.integers(0, 0x7F, shape).astype(np.uint8)
        counts = [-(-size // 16) for size in shape]
        scale = random.uniform(1e-3, 3e-3, counts).astype(np.float32)
        wide = np.repeat(np.repeat(scale, 16, 0), 16, 1)[: shape[0], : shape[1]]
        values = VALUES["E4M3"][codes] * wide
        return {"weight": codes, "weight_scale": scale}, values

    path = tmp_path / "model"
    settings = scheme(8, "float-quantized")
    weights = settings["config_groups"]["group_0"]["weights"]
    weights |= {"type": "float", "strategy": "block", "block_structure": [16, 16]}
    values = folder_of(golden, path, settings, make)
    retype(path / "model.safetensors")
    check(path, values, tmp_path, rounded=True)


def retype(path: Path) -> None:
    """The header says F8_E4M3 where it said U8, and its length grows."""
    data = path.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    header = data[8:end].replace(b'"U8"', b'"F8_E4M3"')
    path.write_bytes(len(header).to_bytes(8, "little") + header + data[end:])


def test_the_values_of_eight_bit_floats():
    """Some of OCP's table for E4M3, and of IEEE's for E5M2."""
    e4m3, e5m2 = VALUES["E4M3"], VALUES["E5M2"]
    assert [e4m3[code] for code in (0, 1, 8, 0x38, 0x7E, 0xB8)] == [0, 2**-9, 2**-6, 1, 448, -1]
    assert np.isnan(e4m3[0x7F])
    assert [e5m2[code] for code in (1, 4, 0x3C, 0x7B)] == [2**-16, 2**-14, 1, 57344]
    assert np.isinf(e5m2[0x7C])


WRONG = {
    "another method": ({"quant_method": "bitsandbytes"}, "bitsandbytes"),
    "no object": (7, "must be an object"),
    "three bits": (GPTQ | {"bits": 3}, "bits = 3"),
    "odd groups": (GPTQ | {"group_size": 20}, "groups of 20"),
    "a wrong group size": (GPTQ | {"group_size": "all"}, "group_size = 'all'"),
    "another layout": ({"quant_method": "awq", "bits": 4, "version": "gemv"}, "gemv"),
    "another format": (scheme(4, "marlin-24"), "marlin-24"),
    "zeros that do not fit": (GPTQ | {"sym": True}, "codes from"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_not_executed_is_named(golden: Path, tmp_path: Path, case: str):
    settings, message = WRONG[case]
    random = np.random.default_rng(5)

    def make(shape):
        matrix = Matrix(random, *shape, 4, False)
        return gptq(matrix, 4), matrix.values()

    path = tmp_path / "model"
    folder_of(golden, path, settings, make)
    with pytest.raises(ModelError, match=message):
        logits(path, ReferenceBackend())


def test_a_part_that_is_missing(golden: Path, tmp_path: Path):
    random = np.random.default_rng(5)

    def make(shape):
        matrix = Matrix(random, *shape, 4, True)
        parts = gptq(matrix, 4)
        del parts["scales"]
        return parts, matrix.values()

    folder_of(golden, tmp_path / "model", GPTQ, make)
    with pytest.raises(ModelError, match="scales is missing"):
        open_model(tmp_path / "model")


def test_settings_that_no_tensor_follows(golden: Path, tmp_path: Path):
    shutil.copytree(golden / "tiny" / "llama", tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    changed = json.dumps(config | {"quantization_config": GPTQ})
    (tmp_path / "model" / "config.json").write_text(changed)
    with pytest.raises(ModelError, match="gptq, and no tensor is quantized"):
        open_model(tmp_path / "model")


FLAT = "flat"  # of one axis


@pytest.mark.parametrize(
    ("case", "kind", "to"),
    [
        ("gptq", "qweight", FLAT),
        ("gptq", "qweight", "F32"),
        ("gptq", "qzeros", "F32"),
        ("gptq", "scales", "I16"),
        ("awq", "qweight", FLAT),
        ("packed", "weight_packed", FLAT),
        ("packed", "weight_packed", "F32"),
        ("packed", "weight_scale", "I16"),
        ("packed with zeros", "weight_zero_point", FLAT),
        ("packed with zeros", "weight_zero_point", "F32"),
    ],
)
def test_parts_that_are_not_what_they_must_be(
    golden: Path, tmp_path: Path, case: str, kind: str, to: str
):
    """Named when the folder is opened, before a byte of them is read."""
    settings, make, bits, symmetric, _ = CASES[case]
    random = np.random.default_rng(5)

    def parts(shape):
        matrix = Matrix(random, *shape, bits, symmetric)
        return make(matrix, bits), matrix.values()

    folder_of(golden, tmp_path / "model", settings, parts)
    folder = open_checkpoint(tmp_path / "model")
    name = next(name for name in folder.tensors if name.endswith(f".{kind}"))
    part = folder.tensors[name]
    changed = replace(part, shape=(part.num_rows * part.shape[-1],))
    changed = changed if to == FLAT else replace(part, type=to)
    with pytest.raises(ModelError, match=re.escape(name)):
        build_plan(as_model(replace(folder, tensors={**folder.tensors, name: changed})))


def test_a_method_is_a_name(golden: Path):
    folder = open_checkpoint(golden / "tiny" / "llama")
    settings = {"quantization_config": {"quant_method": ["gptq"]}}
    with pytest.raises(ModelError, match="quant_method"):
        as_model(replace(folder, metadata={**folder.metadata, **settings}))


def test_eight_bit_floats_that_float16_does_not_hold(golden: Path, tmp_path: Path):
    def make(shape):
        scale = np.array([3e38], np.float32)
        return {"weight": np.full(shape, 0x70, np.uint8), "weight_scale": scale}, None

    folder_of(golden, tmp_path / "model", {"quant_method": "fp8"}, make)
    retype(tmp_path / "model" / "model.safetensors")
    with pytest.raises(ModelError, match="which float16 does not"):
        logits(tmp_path / "model", CpuBackend())
