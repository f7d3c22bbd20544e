"""Folders in 8-bit floats: their bits are kept, and the logits are those of their values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from rows import BACKENDS, assert_close, prepare

from float8_folders import KINDS, blocks, changed, write_folders
from pyrite._native import kernels
from pyrite.backends.cpu import CpuBackend
from pyrite.backends.lowering import matrix_names
from pyrite.backends.packing import packed_bytes
from pyrite.conversion import convert, find_recipe, plan_conversion
from pyrite.errors import ModelError
from pyrite.export import as_gguf_file, natural_recipe
from pyrite.formats.checkpoint import open_checkpoint
from pyrite.models.estimate import weight_bytes
from pyrite.models.registry import build_plan, open_model
from pyrite.quantized import open_quantized
from steps import Part, make_batch, num_pages, sequence_logits

# Enlarged so that all rows of projections are multiples of 128.
FACTORS = {"llama": 4, "qwen3_moe": 4, "deepseek_v3": 4}
ROUNDED = 1e-2  # of weights that become float16: 8e-3 was measured
# What is left in floats: by the folder, or for what is done with it.
WIDE = {"weight", "ffn_gate_inp.weight", "attn_k_b.weight"}
IDS = np.random.default_rng(3).integers(3, 300, 45)


@pytest.fixture(params=[(case, kind) for case in FACTORS for kind in KINDS], ids="-".join)
def folders(request, golden: Path, tmp_path: Path) -> tuple[Path, Path, str]:
    """In 8-bit floats, in float32, and the type."""
    case, kind = request.param
    packed, plain = tmp_path / "packed", tmp_path / "plain"
    write_folders(golden / "tiny" / case, FACTORS[case], KINDS[kind], packed, plain)
    return packed, plain, KINDS[kind].type


@pytest.fixture
def llama(golden: Path, tmp_path: Path) -> Path:
    path = tmp_path / "packed"
    write_folders(golden / "tiny" / "llama", 4, KINDS["blocks"], path, tmp_path / "plain")
    return path


def logits(backend, path: Path) -> np.ndarray:
    return sequence_logits(prepare(backend, open_model(path)), IDS)


@pytest.mark.usefixtures("half_pages")
def test_logits_are_those_of_the_values(folders):
    packed, plain, _ = folders
    reference, cpu = BACKENDS
    is_rounded = "blk.0.attn_k_b.weight" in open_model(packed).tensors
    expected, found = logits(reference, plain), logits(reference, packed)
    assert_close(found, expected, ROUNDED if is_rounded else reference.tolerance)
    assert_close(logits(cpu, packed), found, cpu.tolerance)


def test_bits_are_kept(folders):
    """All but latent keys, which are transposed; 3.1 % of scales come with them."""
    packed, _, type = folders
    model = open_model(packed)
    matrices = [model.tensors[name] for name in matrix_names(build_plan(model))]
    kept = [one for one in matrices if one.type == type]
    others = {one.name.split(".", 2)[-1] for one in matrices if one.type != type}
    assert others <= WIDE
    values = sum(one.num_rows * one.shape[-1] for one in kept)
    assert values * 132 / 128 <= packed_bytes(kept) <= values * 1.04
    assert sum(map(weight_bytes, kept)) == packed_bytes(kept)


@pytest.mark.parametrize("isa", kernels.isa_names())
def test_alone_cut_and_beside_others_are_the_same_bits(llama: Path, isa: str, monkeypatch):
    monkeypatch.setenv("PYRITE_ISA", isa)
    model = open_model(llama)
    runners = [
        CpuBackend().prepare(
            build_plan(model),
            model.tensors,
            num_pages=4 * num_pages(64),
            max_tokens=256,
            num_threads=threads,
            precision="default",
        )
        for threads in (1, 2)
    ]
    alone = sequence_logits(runners[0], IDS)
    for runner in runners:
        for chunk in (1, 4, 16, 17, None):
            np.testing.assert_array_equal(sequence_logits(runner, IDS, chunk=chunk), alone)
        others = [Part(IDS[count:], range(2 + 2 * i, 4 + 2 * i)) for i, count in enumerate((5, 30))]
        both = runner.run(make_batch([*others, Part(IDS, range(2))]))
        np.testing.assert_array_equal(both[-len(IDS) :], alone)


@pytest.mark.parametrize("code", [0x7F, 0xFF])
def test_what_is_no_number_is_refused(llama: Path, code: int):
    name = "model.layers.1.mlp.up_proj.weight"
    changed(llama, lambda arrays: arrays[name].__setitem__((40, 200), code))
    with pytest.raises(
        ModelError,
        match=r"blk\.1\.ffn_up\.weight holds a value .*: the first is -?nan, in row 40, column 200",
    ):
        logits(BACKENDS[1], llama)


@pytest.mark.parametrize("scale", [np.nan, np.inf, 1e37, -1e37])
def test_scales_that_are_too_large_are_refused(llama: Path, scale: float):
    name = "model.layers.0.mlp.up_proj.weight_scale_inv"
    changed(llama, lambda arrays: arrays[name].__setitem__((1, 1), scale))
    with pytest.raises(ModelError, match=r"not finite|7\.59.*is the largest"):
        logits(BACKENDS[1], llama)


def test_blocks_that_do_not_fit_become_float16(golden: Path, tmp_path: Path):
    packed, plain = tmp_path / "packed", tmp_path / "plain"
    write_folders(golden / "tiny" / "llama", 4, blocks(96), packed, plain)
    model = open_model(packed)
    assert model.tensors["blk.0.attn_q.weight"].type == "F16"
    assert_close(logits(BACKENDS[0], packed), logits(BACKENDS[0], plain), ROUNDED)


def test_a_file_of_them_has_float16(llama: Path, tmp_path: Path):
    """GGUF has no floats of 8 bits."""
    checkpoint, _ = as_gguf_file(open_checkpoint(llama))
    assert natural_recipe(checkpoint) == "f16"
    conversion = plan_conversion(checkpoint, find_recipe("f16"), keeps_quantized=True)
    convert(conversion, tmp_path / "model.gguf", 1)
    written = open_model(tmp_path / "model.gguf")
    assert {tensor.type for tensor in written.tensors.values()} == {"F16", "F32"}
    assert_close(logits(BACKENDS[0], tmp_path / "model.gguf"), logits(BACKENDS[0], llama), ROUNDED)


def test_they_are_quantized_further_on_request(llama: Path, tmp_path: Path):
    model = open_quantized(llama, "q8_0", tmp_path, 1)
    assert model.tensors["blk.0.attn_q.weight"].type == "Q8_0"
